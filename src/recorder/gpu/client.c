/* recorder/gpu/client.c - our subscription to CUPTI, alone or among others: see client.h. */
#include "recorder/gpu/client.h"

#include <stdatomic.h>

#include "common/base/os.h"
#include "common/format/clock.h"
#include "common/settings/config.h"
#include "recorder/gpu/refusal.h"
#include "recorder/gpu/subscription.h"
#include "recorder/gpu/yield.h"
#include "recorder/gpu_records/buffers.h"
#include "recorder/gpu_records/lib.h"
#include "recorder/guest/say.h"
#include "recorder/spool/ring.h"

#define CLOCK_TRIES 20
#define FLUSHING_STEP_NS 20000u
#define FLUSH_WAIT_NS 1000000000ull

static struct {
	uint32_t wanted; /* enum pfw_gpu */
	bool shared;	 /* we are one of several subscribers */
	/* we have enabled kinds; if not, disabling would switch off another tool's */
	_Atomic bool enabled;
	_Atomic uint64_t since_ns; /* time of enabling; 0 = not enabled */
	bool told;		   /* a message has named the missing kinds */
	_Atomic uint32_t flushing; /* threads inside a flush, which may hold buffers */
} client;

#define CALLS pfw_cupti_lib.calls

/* A call of CUPTI: of one of several subscribers, or of a single one. */
#define CALL(name, ...)                                                       \
	(client.shared ? CALLS.name##_v2(pfw_cupti_subscriber(), __VA_ARGS__) \
		       : CALLS.name(__VA_ARGS__))

bool pfw_cupti_client_shared(void)
{
	return client.shared;
}

bool pfw_cupti_client_enabled(void)
{
	return atomic_load(&client.enabled);
}

uint64_t pfw_cupti_client_since(void)
{
	return atomic_load(&client.since_ns);
}

static uint64_t realtime(void)
{
	return pfw_clock_ns(CLOCK_REALTIME);
}

/* ---- buffers ---- */

/* CUPTI's callbacks.  With several subscribers CUPTI calls the second pair. */
static void completed(void *context, uint32_t stream, uint8_t *buffer, size_t bytes,
		      size_t valid_bytes)
{
	if (!pfw_cupti_completed_buffer(buffer, valid_bytes))
		pfw_cupti_yield_completed(context, stream, buffer, bytes, valid_bytes);
}

static void requested_shared(uint8_t **buffer, size_t *bytes, size_t *max_records, void *info)
{
	(void)info;
	pfw_cupti_requested_buffer(buffer, bytes, max_records);
}

static void completed_shared(uint8_t *buffer, size_t bytes, size_t valid_bytes, void *info)
{
	(void)bytes;
	(void)info;
	pfw_cupti_completed_buffer(buffer, valid_bytes);
}

uint32_t pfw_cupti_client_register(void)
{
	size_t bytes = sizeof(uint8_t);
	uint8_t no = 0;

	/* One buffer per launching thread would take memory without a bound. */
	CALL(ActivitySetAttribute, PFW_CUPTI_ATTR_PER_THREAD_BUFFER, &bytes, &no);
	if (client.shared)
		return CALLS.ActivityRegisterCallbacks_v2(pfw_cupti_subscriber(), requested_shared,
							  completed_shared);
	return CALLS.ActivityRegisterCallbacks(pfw_cupti_requested_buffer, completed);
}

/* A kill loses the records in CUPTI's buffers; their number is not known, so keep their time. */
static void note_delivered(uint64_t upto_ns)
{
	if (pfw_ring_host.header)
		atomic_store(&pfw_ring_host.header->gpu_since_ns,
			     atomic_load(&client.enabled) ? upto_ns : 0);
}

static void flush(uint32_t how)
{
	uint64_t now = realtime(), held;

	atomic_fetch_add(&client.flushing, 1);
	CALLS.ActivityFlushAll(how);
	atomic_fetch_sub(&client.flushing, 1);
	/* A flush leaves CUPTI the buffers with kernels that still run. */
	held = pfw_cupti_buffers_held_since();
	note_delivered(held < now ? held : now);
}

/* A flush returns at once if another thread's flush has taken the buffers but not yet handed them
 * over. */
static void wait_for_others(void)
{
	uint64_t deadline = pfw_clock_ns(CLOCK_MONOTONIC) + FLUSH_WAIT_NS;

	while (atomic_load(&client.flushing) && pfw_clock_ns(CLOCK_MONOTONIC) < deadline)
		pfw_os_sleep_ns(FLUSHING_STEP_NS);
}

void pfw_cupti_client_flush(bool forced)
{
	flush(0);
	if (forced)
		flush(PFW_CUPTI_FLUSH_FORCED);
	wait_for_others();
}

void pfw_cupti_client_forked(void)
{
	atomic_store(&client.flushing, 0);
}

void pfw_cupti_client_count_dropped(void)
{
	size_t dropped = 0;

	if (!CALL(ActivityGetNumDroppedRecords, NULL, 0, &dropped))
		pfw_ring_count_lost(PFW_LOST_GPU, dropped);
}

/* ---- kinds ---- */

static const struct {
	uint32_t wanted; /* enum pfw_gpu */
	uint32_t kind;
} kinds[] = {
	{ PFW_GPU_KERNEL, PFW_CUPTI_KIND_KERNEL },
	{ PFW_GPU_MEMCPY, PFW_CUPTI_KIND_MEMCPY },
	{ PFW_GPU_MEMCPY, PFW_CUPTI_KIND_MEMCPY_P2P },
	{ PFW_GPU_MEMSET, PFW_CUPTI_KIND_MEMSET },
	{ PFW_GPU_RUNTIME, PFW_CUPTI_KIND_RUNTIME },
	/* Enabling the launching calls one by one has no effect in some processes (13.0), so all are
	 * enabled, and unwanted ones are left out later. */
	{ PFW_GPU_DRIVER | PFW_GPU_LAUNCH, PFW_CUPTI_KIND_DRIVER },
	{ PFW_GPU_SYNC | PFW_GPU_EVENT, PFW_CUPTI_KIND_SYNC }, /* events need this kind, too */
	{ PFW_GPU_EVENT, PFW_CUPTI_KIND_CUDA_EVENT },
	{ PFW_GPU_OVERHEAD, PFW_CUPTI_KIND_OVERHEAD },
	{ PFW_GPU_MEMORY, PFW_CUPTI_KIND_MEMORY },
	{ PFW_GPU_MEMORY, PFW_CUPTI_KIND_MEMORY_POOL },
	{ PFW_GPU_GRAPH, PFW_CUPTI_KIND_GRAPH },
	{ PFW_GPU_JIT, PFW_CUPTI_KIND_JIT },
	{ ~0u, PFW_CUPTI_KIND_EXTERNAL },
	{ ~0u, PFW_CUPTI_KIND_NAME },
};

bool pfw_cupti_client_wants(uint32_t kind)
{
	for (size_t i = 0; i < PFW_ARRAY_LEN(kinds); i++)
		if (kinds[i].kind == kind)
			return client.wanted & kinds[i].wanted;
	return false;
}

static uint32_t enable_kind(uint32_t kind)
{
	return client.shared ? CALLS.ActivityEnable_v2(pfw_cupti_subscriber(), kind, NULL)
			     : CALLS.ActivityEnable(kind);
}

/* Disable the calls that are noise, if the library can. */
static void choose_calls(void)
{
#define X(name, cbid) CALL(ActivityEnableRuntimeApi, cbid, false);
	if (client.wanted & PFW_GPU_RUNTIME && CALLS.ActivityEnableRuntimeApi) {
		PFW_CUPTI_RUNTIME_NOISE(X)
	}
#undef X
}

bool pfw_cupti_client_enable(void)
{
	uint64_t none = 0;

	atomic_store(&client.enabled, true);
	for (size_t i = 0; i < PFW_ARRAY_LEN(kinds); i++) {
		uint32_t result = client.wanted & kinds[i].wanted ? enable_kind(kinds[i].kind) : 0;

		if (!result)
			continue;
		if (kinds[i].kind == PFW_CUPTI_KIND_KERNEL) {
			pfw_cupti_refuse_call("ActivityEnable(CONCURRENT_KERNEL)", result, "");
			return false;
		}
		if (kinds[i].wanted != ~0u && !client.told)
			pfw_say_number("this CUPTI does not record activities of kind ",
				       kinds[i].kind, ": they are missing in the trace");
	}
	client.told = true;
	choose_calls();
	note_delivered(realtime());
	atomic_compare_exchange_strong(&client.since_ns, &none, realtime());
	return true;
}

void pfw_cupti_client_disable(void)
{
	if (!atomic_load(&client.enabled))
		return;
	atomic_store(&client.enabled, false);
	atomic_store(&client.since_ns, 0);
	for (size_t i = 0; i < PFW_ARRAY_LEN(kinds); i++) {
		if (!(client.wanted & kinds[i].wanted) || pfw_cupti_yield_theirs(kinds[i].kind))
			continue;
		if (client.shared)
			CALLS.ActivityDisable_v2(pfw_cupti_subscriber(), kinds[i].kind, NULL);
		else
			CALLS.ActivityDisable(kinds[i].kind);
	}
	note_delivered(0);
}

/* ---- beginning ---- */

static bool begin(const struct pfw_config *config, bool on)
{
	char holder[PFW_CUPTI_OLD_NAME_BYTES + 1] = "";
	const char *call = "GetVersion";
	uint32_t result = CALLS.GetVersion(&pfw_cupti_lib.version);

	if (!result) {
		call = "Subscribe";
		result = pfw_cupti_subscribe(holder, &client.shared);
	}
	if (!result) {
		pfw_cupti_lib.subscriber = client.shared ? pfw_cupti_subscriber() : NULL;
		CALLS.SetThreadIdType(PFW_CUPTI_THREAD_ID_SYSTEM);
		call = "ActivityRegisterCallbacks";
		result = pfw_cupti_client_register();
	}
	if (result) {
		pfw_cupti_refuse_call(call, result, holder);
		return false;
	}
	pfw_cupti_listen(config->plan.kind == PFW_PLAN_RANGE);
	return !on || pfw_cupti_client_enable();
}

bool pfw_cupti_client_begin(const struct pfw_config *config, bool on)
{
	client.wanted = config->gpu;
	if (begin(config, on))
		return true;
	pfw_cupti_client_disable();
	pfw_cupti_unsubscribe();
	return false;
}

int64_t pfw_cupti_client_clock_offset(void)
{
	int64_t nearest = INT64_MAX, offset = 0;

	for (int i = 0; i < CLOCK_TRIES; i++) {
		uint64_t before = realtime(), theirs = 0, after;
		int64_t width;

		if (CALL(GetTimestamp, &theirs))
			return offset;
		after = realtime();
		width = (int64_t)(after - before);
		if (theirs >= before && theirs <= after)
			return 0;
		if (width >= 0 && width < nearest) {
			nearest = width;
			offset = (int64_t)(before + (uint64_t)width / 2 - theirs);
		}
	}
	return offset;
}

bool pfw_cupti_client_own_clock(void)
{
	pfw_cupti_client_flush(false);
	return CALLS.ActivityRegisterTimestampCallback &&
	       !CALLS.ActivityRegisterTimestampCallback(realtime);
}

/* ---- external ids ---- */

uint32_t pfw_cupti_client_push(uint64_t id)
{
	return CALL(ActivityPushExternalCorrelationId, PFW_CUPTI_EXTERNAL_CUSTOM2, id);
}

uint32_t pfw_cupti_client_pop(uint64_t *id)
{
	return CALL(ActivityPopExternalCorrelationId, PFW_CUPTI_EXTERNAL_CUSTOM2, id);
}
