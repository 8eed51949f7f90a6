/* recorder/gpu/subscription.c - our subscription to CUPTI's callbacks: see subscription.h. */
#include "recorder/gpu/subscription.h"

#include <stdatomic.h>
#include <stddef.h>

#include "common/base/os.h"
#include "recorder/gpu/yield.h"
#include "recorder/gpu_records/lib.h"

#define CALLS pfw_cupti_lib.calls

struct pfw_cupti_subscription_host pfw_cupti_subscription_host;

enum {
#define X(name, cbid) CBID_##name = cbid,
	PFW_CUPTI_DRIVER_RANGES(X)
#undef X
};

/* The callbacks that pfw uses: bit n of the masks below stands for heard[n]. */
static const struct {
	uint32_t domain, cbid;
	bool range;
} heard[] = {
#define X(name, cbid) { PFW_CUPTI_DOMAIN_DRIVER, cbid, false },
	PFW_CUPTI_DRIVER_UNLOADS(X)
#undef X
#define X(name, cbid) { PFW_CUPTI_DOMAIN_DRIVER, cbid, true },
		PFW_CUPTI_DRIVER_RANGES(X)
#undef X
			{ PFW_CUPTI_DOMAIN_RESOURCE, PFW_CUPTI_RESOURCE_CONTEXT_CREATED, false },
};

static struct {
	void *_Atomic subscriber;
	_Atomic uint32_t ours;
	/* The client that shares the subscription; NULL = none.  Its user is stored first. */
	pfw_cupti_callback *_Atomic callback;
	void *_Atomic user;
	_Atomic uint32_t theirs;
	bool several; /* ours is one of several: the others have their own */
} subscription;

static int place_of(uint32_t domain, uint32_t cbid)
{
	for (int i = 0; i < (int)PFW_ARRAY_LEN(heard); i++)
		if (heard[i].domain == domain && heard[i].cbid == cbid)
			return i;
	return -1;
}

static bool has(const _Atomic uint32_t *mask, int place)
{
	return place >= 0 && atomic_load(mask) & 1u << place;
}

/* ---- what CUPTI reports ---- */

/* The functions may switch kinds and flush whole buffers.  A range begins after its first call and
 * ends before its last. */
static void react(uint32_t domain, uint32_t cbid, bool enters)
{
	if (domain == PFW_CUPTI_DOMAIN_RESOURCE) {
		pfw_cupti_subscription_host.context();
	} else if (cbid == CBID_cuProfilerStart || cbid == CBID_cuProfilerStop) {
		if (enters == (cbid == CBID_cuProfilerStop))
			pfw_cupti_subscription_host.ranged(!enters);
	} else if (enters) {
		pfw_cupti_subscription_host.unloading();
	}
}

static void called(void *user, uint32_t domain, uint32_t cbid, const void *data)
{
	pfw_cupti_callback *callback = atomic_load(&subscription.callback);
	int place = place_of(domain, cbid);

	(void)user;
	if (has(&subscription.ours, place))
		react(domain, cbid,
		      domain == PFW_CUPTI_DOMAIN_DRIVER &&
			      ((const struct pfw_cupti_call *)data)->site == PFW_CUPTI_SITE_ENTER);
	if (callback && (place < 0 || has(&subscription.theirs, place)))
		callback(atomic_load(&subscription.user), domain, cbid, data);
}

/* ---- our side ---- */

void *pfw_cupti_subscriber(void)
{
	return atomic_load(&subscription.subscriber);
}

/* A library below 13.3 refuses a structure that is longer than the one it knows. */
static uint32_t subscribe(void **subscriber, char *holder, bool *shared)
{
	struct pfw_cupti_subscriber how = {
		.struct_bytes = offsetof(struct pfw_cupti_subscriber, several),
		.name = "pfw",
		.old_name = holder,
		.old_name_bytes = PFW_CUPTI_OLD_NAME_BYTES,
	};

	if (pfw_cupti_lib.shares && pfw_cupti_lib.version >= PFW_CUPTI_13_3 &&
	    !pfw_cupti_yield_expected()) {
		how.several = 1;
		how.struct_bytes = sizeof(how);
		*shared = !CALLS.Subscribe_v2(subscriber, called, NULL, &how);
		if (*shared)
			return PFW_CUPTI_OK;
		how.struct_bytes = offsetof(struct pfw_cupti_subscriber, several);
	}
	pfw_cupti_yield_look();
	if (CALLS.Subscribe_v2)
		return CALLS.Subscribe_v2(subscriber, called, NULL, &how);
	return CALLS.Subscribe(subscriber, called, NULL);
}

uint32_t pfw_cupti_subscribe(char *holder, bool *shared)
{
	bool locked = pfw_cupti_lib_lock();
	uint32_t result = PFW_CUPTI_OK;
	void *subscriber = NULL;

	*shared = false;
	if (!pfw_cupti_subscriber()) { /* not yet made or kept for another client */
		result = subscribe(&subscriber, holder, shared);
		subscription.several = *shared;
		if (!result)
			atomic_store(&subscription.subscriber, subscriber);
	}
	if (locked)
		pfw_cupti_lib_unlock();
	return result;
}

void pfw_cupti_listen(bool ranges)
{
	for (unsigned i = 0; i < PFW_ARRAY_LEN(heard); i++) {
		if (heard[i].range && !ranges)
			continue;
		atomic_fetch_or(&subscription.ours, 1u << i);
		CALLS.EnableCallback(1, pfw_cupti_subscriber(), heard[i].domain, heard[i].cbid);
	}
}

/* Switch off what is in `mask` and in nobody's other mask. */
static void leave(uint32_t mask, const _Atomic uint32_t *other)
{
	for (unsigned i = 0; i < PFW_ARRAY_LEN(heard); i++)
		if (mask & 1u << i && !has(other, (int)i))
			CALLS.EnableCallback(0, pfw_cupti_subscriber(), heard[i].domain,
					     heard[i].cbid);
}

void pfw_cupti_unsubscribe(void)
{
	uint32_t ours = atomic_exchange(&subscription.ours, 0);
	void *subscriber = pfw_cupti_subscriber();

	if (!subscriber)
		return;
	if (atomic_load(&subscription.callback)) {
		leave(ours, &subscription.theirs);
		return;
	}
	atomic_store(&subscription.subscriber, NULL);
	CALLS.Unsubscribe(subscriber);
}

/* ---- the other client's side ---- */

static bool is_shared(const void *subscriber)
{
	return subscriber == pfw_cupti_subscriber() && atomic_load(&subscription.callback);
}

/* Whether the client wants to be one of several subscribers. */
static bool wants_several(const struct pfw_cupti_subscriber *how)
{
	return how && how->struct_bytes > offsetof(struct pfw_cupti_subscriber, several) &&
	       how->several;
}

static uint32_t pass_on(void **subscriber, pfw_cupti_callback *callback, void *user,
			struct pfw_cupti_subscriber *how)
{
	return how ? CALLS.Subscribe_v2(subscriber, callback, user, how)
		   : CALLS.Subscribe(subscriber, callback, user);
}

/* The first such client gets our subscription.  If we have none yet, it is made now, since we could
 * not have one later. */
static uint32_t let_in(void **subscriber, pfw_cupti_callback *callback, void *user,
		       struct pfw_cupti_subscriber *how)
{
	bool locked = pfw_cupti_lib_lock();
	uint32_t result = PFW_CUPTI_OK;
	void *made = NULL;

	if (!subscriber || !callback || wants_several(how) || subscription.several ||
	    atomic_load(&subscription.callback)) {
		result = pass_on(subscriber, callback, user, how);
	} else {
		if (!pfw_cupti_subscriber()) {
			result = pass_on(&made, called, NULL, how);
			atomic_store(&subscription.subscriber, made);
		}
		if (!result) {
			*subscriber = pfw_cupti_subscriber();
			atomic_store(&subscription.user, user);
			atomic_store(&subscription.callback, callback);
		}
	}
	if (locked)
		pfw_cupti_lib_unlock();
	return result;
}

uint32_t pfw_cupti_other_subscribe(void **subscriber, pfw_cupti_callback *callback, void *user)
{
	return let_in(subscriber, callback, user, NULL);
}

uint32_t pfw_cupti_other_subscribe_v2(void **subscriber, pfw_cupti_callback *callback, void *user,
				      struct pfw_cupti_subscriber *how)
{
	return let_in(subscriber, callback, user, how);
}

uint32_t pfw_cupti_other_unsubscribe(void *subscriber)
{
	if (!is_shared(subscriber))
		return CALLS.Unsubscribe(subscriber);
	pfw_cupti_other_enable_all_domains(0, subscriber);
	atomic_store(&subscription.callback, NULL);
	if (atomic_load(&subscription.ours))
		return PFW_CUPTI_OK;
	atomic_store(&subscription.subscriber, NULL); /* we have left before */
	return CALLS.Unsubscribe(subscriber);
}

/* cuptiFinalize() would end our subscription, too. */
uint32_t pfw_cupti_other_finalize(void)
{
	return pfw_cupti_subscriber() ? PFW_CUPTI_OK : CALLS.Finalize();
}

uint32_t pfw_cupti_other_enable_callback(uint32_t enable, void *subscriber, uint32_t domain,
					 uint32_t cbid)
{
	int place = is_shared(subscriber) ? place_of(domain, cbid) : -1;

	if (place >= 0 && enable)
		atomic_fetch_or(&subscription.theirs, 1u << place);
	else if (place >= 0)
		atomic_fetch_and(&subscription.theirs, ~(1u << place));
	return CALLS.EnableCallback(enable || has(&subscription.ours, place), subscriber, domain,
				    cbid);
}

/* Behind a call of the client for a whole domain (0: for all): what is theirs, and ours again. */
static void follow(uint32_t enable, uint32_t domain)
{
	for (unsigned i = 0; i < PFW_ARRAY_LEN(heard); i++) {
		if (domain && heard[i].domain != domain)
			continue;
		if (enable)
			atomic_fetch_or(&subscription.theirs, 1u << i);
		else
			atomic_fetch_and(&subscription.theirs, ~(1u << i));
		if (!enable && has(&subscription.ours, (int)i))
			CALLS.EnableCallback(1, pfw_cupti_subscriber(), heard[i].domain,
					     heard[i].cbid);
	}
}

uint32_t pfw_cupti_other_enable_domain(uint32_t enable, void *subscriber, uint32_t domain)
{
	uint32_t result = CALLS.EnableDomain(enable, subscriber, domain);

	if (is_shared(subscriber))
		follow(enable, domain);
	return result;
}

uint32_t pfw_cupti_other_enable_all_domains(uint32_t enable, void *subscriber)
{
	uint32_t result = CALLS.EnableAllDomains(enable, subscriber);

	if (is_shared(subscriber))
		follow(enable, 0);
	return result;
}
