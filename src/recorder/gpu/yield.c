/* recorder/gpu/yield.c - makes way for another client of CUPTI: see yield.h. */
#include "recorder/gpu/yield.h"

#include <dlfcn.h>
#include <stdatomic.h>
#include <string.h>

#include "common/base/os.h"
#include "common/format/clock.h"
#include "recorder/attach/object.h"
#include "recorder/gpu/subscription.h"
#include "recorder/gpu_records/lib.h"

struct pfw_cupti_yield_host pfw_cupti_yield_host;

/* How long a client that has disabled its kinds may take to fetch its last buffers. */
#define FETCH_NS 1000000000ull

static struct {
	_Atomic uint64_t kinds; /* bit n: the other client has kind n enabled */
	/* CLOCK_MONOTONIC time at which it disabled the last; 0 = it has fetched its buffers */
	_Atomic uint64_t disabled_ns;
	pfw_cupti_completed *_Atomic completed;
	_Atomic bool clock;
} other;

bool pfw_cupti_yield_taken(void)
{
	return atomic_load(&other.kinds) || atomic_load(&other.disabled_ns);
}

bool pfw_cupti_yield_theirs(uint32_t kind)
{
	return kind < 64 && atomic_load(&other.kinds) & 1ull << kind;
}

bool pfw_cupti_yield_clock(void)
{
	return atomic_load(&other.clock);
}

void pfw_cupti_yield_completed(void *context, uint32_t stream, uint8_t *buffer, size_t bytes,
			       size_t valid_bytes)
{
	pfw_cupti_completed *completed = atomic_load(&other.completed);

	if (completed)
		completed(context, stream, buffer, bytes, valid_bytes);
}

/* ---- the redirected calls ---- */

static uint32_t register_callbacks(pfw_cupti_requested *requested, pfw_cupti_completed *completed)
{
	pfw_cupti_yield_host.yield();
	atomic_store(&other.completed, completed);
	return pfw_cupti_lib.calls.ActivityRegisterCallbacks(requested, completed);
}

/* Flush first, so that earlier records keep the times of our clock. */
static uint32_t register_clock(uint64_t (*clock)(void))
{
	pfw_cupti_yield_host.yield();
	atomic_store(&other.clock, true);
	return pfw_cupti_lib.calls.ActivityRegisterTimestampCallback(clock);
}

static uint32_t enable(uint32_t kind)
{
	uint32_t result = pfw_cupti_lib.calls.ActivityEnable(kind);

	if (!result && kind < 64) {
		atomic_fetch_or(&other.kinds, 1ull << kind);
		atomic_store(&other.disabled_ns, 0);
	}
	return result;
}

static uint32_t disable(uint32_t kind)
{
	uint64_t bit = kind < 64 ? 1ull << kind : 0, before;
	uint32_t result = pfw_cupti_lib.calls.ActivityDisable(kind);

	before = atomic_fetch_and(&other.kinds, ~bit);
	if (before & bit && before == bit)
		atomic_store(&other.disabled_ns, pfw_clock_ns(CLOCK_MONOTONIC));
	else if (pfw_cupti_yield_host.ours(kind))
		pfw_cupti_lib.calls.ActivityEnable(kind);
	return result;
}

/* torch.profiler reads its buffers only if CUPTI still holds one when it flushes.  So we resume after
 * its flush: a flush by us before would take all buffers. */
static uint32_t flush_all(uint32_t flag)
{
	uint32_t result = pfw_cupti_lib.calls.ActivityFlushAll(flag);

	if (atomic_exchange(&other.disabled_ns, 0))
		pfw_cupti_yield_host.come_back();
	return result;
}

void pfw_cupti_yield_overdue(void)
{
	uint64_t since = atomic_load(&other.disabled_ns);

	if (since && pfw_clock_ns(CLOCK_MONOTONIC) - since > FETCH_NS &&
	    atomic_compare_exchange_strong(&other.disabled_ns, &since, 0))
		pfw_cupti_yield_host.come_back();
}

/* ---- redirecting ---- */

/* The calls of another client, and what each is redirected to; the clock's is the first. */
#define LED(X)                                               \
	X(ActivityRegisterTimestampCallback, register_clock) \
	X(ActivityRegisterCallbacks, register_callbacks)     \
	X(ActivityEnable, enable)                            \
	X(ActivityDisable, disable)                          \
	X(ActivityFlushAll, flush_all)                       \
	X(Subscribe, pfw_cupti_other_subscribe)              \
	X(Subscribe_v2, pfw_cupti_other_subscribe_v2)        \
	X(Unsubscribe, pfw_cupti_other_unsubscribe)          \
	X(Finalize, pfw_cupti_other_finalize)                \
	X(EnableCallback, pfw_cupti_other_enable_callback)   \
	X(EnableDomain, pfw_cupti_other_enable_domain)       \
	X(EnableAllDomains, pfw_cupti_other_enable_all_domains)

static const struct pfw_slots_call led[] = {
#define X(name, wrapper) { "cupti" #name, (void *)(wrapper) },
	LED(X)
#undef X
};

static void *real_of(unsigned which)
{
	void *const real[] = {
#define X(name, wrapper) (void *)pfw_cupti_lib.calls.name,
		LED(X)
#undef X
	};

	return real[which];
}

bool pfw_cupti_yield_expected(void)
{
	struct pfw_slots slots = {
		.calls = led, .count = PFW_ARRAY_LEN(led), .real_of = real_of, .only_find = true
	};

	pfw_slots_look(&slots);
	return slots.found & 1u;
}

/* ---- JAX's profiler, which looks its calls up by name ---- */

/* A call of another copy of the library stays as it is. */
static void *look_up(void *library, const char *name)
{
	void *real = dlsym(library, name);

	for (unsigned i = 0; real && i < PFW_ARRAY_LEN(led); i++)
		if (real == real_of(i) && !strcmp(name, led[i].name))
			return led[i].wrapper;
	return real;
}

static void *dlsym_itself(unsigned which)
{
	(void)which;
	return (void *)dlsym;
}

void pfw_cupti_yield_look(void)
{
	static const struct pfw_slots_call by_name = { "dlsym", (void *)look_up };
	static struct pfw_slots slots = { .calls = led,
					  .count = PFW_ARRAY_LEN(led),
					  .real_of = real_of };
	static struct pfw_slots names = {
		.calls = &by_name, .count = 1, .real_of = dlsym_itself, .only_in = "xla_cuda"
	};

	pfw_slots_look(&slots);
	pfw_slots_look(&names);
}
