/* cupti.c - the GPU probe: when CUPTI is begun, flushed and left. */
#include "cupti.h"

#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include "../clock.h"
#include "../config.h"
#include "../os.h"
#include "../ring.h"
#include "../say.h"
#include "../text.h"
#include "cupti_buffers.h"
#include "cupti_decode.h"
#include "cupti_lib.h"
#include "cupti_names.h"
#include "cupti_yield.h"
#include "probe.h"

#define FLUSH_BUFFERS 4u /* so many finished ones do not wait for the next flush */
#define LOOK_NS 2000000ull
#define LOOKS_OFTEN 5000u /* 10 s: the program is inside cuInit */
#define DEMANGLER_FLUSHES 16u
#define NUDGE_NS 2000000ull
#define MEET_NS 1000000000ull
#define LEAVE_WAIT_NS 1000000000ull
#define STACK_BYTES (256u * 1024u)
#define LOADING_WAIT_NS 1000000000ull
#define CLOCK_TRIES 20
#define CLOCK_NEAR_NS 100000

enum state {
	IDLE,	   /* not wanted, or the program has no CUDA yet */
	BEGINNING, /* a thread is at it */
	ON,
	YIELDED,  /* to another client, until it stops */
	LEFT,	  /* the program has stopped recording: until it starts again */
	GIVEN_UP, /* it cannot be: said */
	OVER,	  /* the program is at its end: CUPTI is never called again */
	FORKED,	  /* the parent had it: nothing of CUDA works in this process */
};

static struct {
	_Atomic uint32_t state;
	const struct pfw_config *config;
	_Atomic uint32_t injected; /* looks that are to come soon */
	_Atomic bool asked;	   /* our thread is to begin, when it can */
	_Atomic uint32_t thread;   /* our thread is there */
	_Atomic uint32_t calling;  /* it is inside CUPTI */
	_Atomic bool leave;	   /* it is to end, without another call */
	_Atomic uint64_t
		flushed;      /* buffers below are read: nothing that belongs to them is to come */
	_Atomic bool last;    /* all are */
	bool shared;	      /* we are one of several subscribers */
	_Atomic bool enabled; /* kinds are: without, another tool's would be switched off */
	bool exit_hook;
	uint64_t yielded_ns;	    /* when */
	_Atomic uint32_t switching; /* lock: kinds are being switched */
	_Atomic uint32_t loading;   /* lock: the dynamic linker is at work for us, or a fork is */
	bool held;		    /* by a fork */
	/* Being read by the writer. */
	uint8_t *buffer;
	const void *at;
	void *subscriber;
} gpu;

_Atomic uint32_t pfw_cupti_spans;
static _Atomic uint32_t begun; /* times */

#define CALLS pfw_cupti_lib.calls

/* ---- what is said ---- */

static void say(const char *what, const char *which, const char *why)
{
	char line[1024];
	struct pfw_text text;

	pfw_text_init(&text, line, sizeof(line));
	pfw_text_add(&text, what);
	pfw_text_add(&text, which);
	pfw_text_add(&text, why);
	pfw_say(line);
}

/* Only once the driver is initialised: without one this call may never return. */
static const char *result_text(uint32_t result)
{
	const char *text = NULL;

	return CALLS.GetResultString(result, &text) == PFW_CUPTI_OK && text ? text
									    : "unknown error";
}

/* Why it cannot be.  Always returns false. */
static bool refused(const char *call, uint32_t result, const char *holder)
{
	char line[768];
	struct pfw_text text;

	pfw_text_init(&text, line, sizeof(line));
	pfw_text_add(&text, "GPU work is not recorded: ");
	switch (result) {
	case PFW_CUPTI_MULTIPLE_SUBSCRIBERS:
		pfw_text_add(&text,
			     *holder ? holder : "another tool (nsys, ncu, cuda-gdb, a profiler)");
		pfw_text_add(&text,
			     " holds CUPTI, which takes one tool at a time below CUDA 13.3; run "
			     "without it, or set PFW_CUPTI=0");
		break;
	case PFW_CUPTI_INSUFFICIENT_PRIVILEGES:
	case PFW_CUPTI_VIRTUALIZED_PRIVILEGES:
		pfw_text_add(&text, "the driver keeps profiling to administrators (CUPTI error ");
		pfw_text_add_u64(&text, result, 1);
		pfw_text_add(&text,
			     "): load it with NVreg_RestrictProfilingToAdminUsers=0, or give a "
			     "container --cap-add=SYS_ADMIN");
		break;
	default:
		pfw_text_add(&text, "cupti");
		pfw_text_add(&text, call);
		pfw_text_add(&text, " in ");
		pfw_text_add(&text, pfw_cupti_lib.path);
		pfw_text_add(&text, ": ");
		pfw_text_add(&text, result_text(result));
		pfw_text_add(&text, " (");
		pfw_text_add_u64(&text, result, 1);
		pfw_text_add(&text, "); set PFW_CUPTI_LIB to the libcupti of the driver's CUDA, or "
				    "PFW_CUPTI=0");
	}
	pfw_say(line);
	return false;
}

/* ---- beginning ---- */

/* CUPTI's callbacks; it calls the second kind where there are several subscribers. */
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

/* A call of the driver after which names of kernels are gone: have the records first.  Inside such
 * a callback a flush is allowed. */
static void unloading(void *user, uint32_t domain, uint32_t cbid, const void *data)
{
	const struct pfw_cupti_call *call = data;

	(void)user;
	(void)cbid;
	if (domain == PFW_CUPTI_DOMAIN_DRIVER && call->site == PFW_CUPTI_SITE_ENTER &&
	    atomic_load(&gpu.state) == ON)
		CALLS.ActivityFlushAll(0);
}

/* Alone where the library or the driver cannot do otherwise.  The holder's name, where it says. */
static uint32_t subscribe(char *holder)
{
	struct pfw_cupti_subscriber how = { .struct_bytes = sizeof(how),
					    .name = "pfw",
					    .old_name = holder,
					    .old_name_bytes = PFW_CUPTI_OLD_NAME_BYTES };

	gpu.shared = false;
	if (pfw_cupti_lib.shares && pfw_cupti_lib.version >= PFW_CUPTI_13_3) {
		how.several = 1;
		gpu.shared = !CALLS.Subscribe_v2(&gpu.subscriber, unloading, NULL, &how);
		if (gpu.shared)
			return PFW_CUPTI_OK;
		how.several = 0;
	}
	if (CALLS.Subscribe_v2)
		return CALLS.Subscribe_v2(&gpu.subscriber, unloading, NULL, &how);
	return CALLS.Subscribe(&gpu.subscriber, unloading, NULL);
}

static const struct {
	uint32_t wanted; /* enum pfw_gpu */
	uint32_t kind;
} kinds[] = {
	{ PFW_GPU_KERNEL, PFW_CUPTI_KIND_KERNEL },
	{ PFW_GPU_MEMCPY, PFW_CUPTI_KIND_MEMCPY },
	{ PFW_GPU_MEMCPY, PFW_CUPTI_KIND_MEMCPY_P2P },
	{ PFW_GPU_MEMSET, PFW_CUPTI_KIND_MEMSET },
	{ PFW_GPU_RUNTIME, PFW_CUPTI_KIND_RUNTIME },
	{ PFW_GPU_DRIVER, PFW_CUPTI_KIND_DRIVER },
	{ PFW_GPU_SYNC | PFW_GPU_EVENT, PFW_CUPTI_KIND_SYNC }, /* events need it, too */
	{ PFW_GPU_EVENT, PFW_CUPTI_KIND_CUDA_EVENT },
	{ PFW_GPU_OVERHEAD, PFW_CUPTI_KIND_OVERHEAD },
	{ PFW_GPU_MEMORY, PFW_CUPTI_KIND_MEMORY },
	{ PFW_GPU_MEMORY, PFW_CUPTI_KIND_MEMORY_POOL },
	{ PFW_GPU_GRAPH, PFW_CUPTI_KIND_GRAPH },
	{ PFW_GPU_JIT, PFW_CUPTI_KIND_JIT },
	{ ~0u, PFW_CUPTI_KIND_EXTERNAL },
};

static uint32_t enable_kind(uint32_t kind)
{
	return gpu.shared ? CALLS.ActivityEnable_v2(gpu.subscriber, kind, NULL)
			  : CALLS.ActivityEnable(kind);
}

static void enable_call(bool driver, uint32_t cbid, bool on)
{
	if (gpu.shared && driver)
		CALLS.ActivityEnableDriverApi_v2(gpu.subscriber, cbid, on);
	else if (gpu.shared)
		CALLS.ActivityEnableRuntimeApi_v2(gpu.subscriber, cbid, on);
	else if (driver && CALLS.ActivityEnableDriverApi)
		CALLS.ActivityEnableDriverApi(cbid, on);
	else if (!driver && CALLS.ActivityEnableRuntimeApi)
		CALLS.ActivityEnableRuntimeApi(cbid, on);
}

/* Leave out what is only noise, where the library can, and take of the driver's calls only launches:
 * those of programs that do without the runtime. */
static void choose_calls(void)
{
#define X(name, cbid) enable_call(false, cbid, false);
	if (gpu.config->gpu & PFW_GPU_RUNTIME) {
		PFW_CUPTI_RUNTIME_NOISE(X)
	}
#undef X
#define X(name, cbid) enable_call(true, cbid, true);
	if (gpu.config->gpu & PFW_GPU_LAUNCH && !(gpu.config->gpu & PFW_GPU_DRIVER)) {
		PFW_CUPTI_DRIVER_LAUNCHES(X)
	}
#undef X
#define X(name, cbid) CALLS.EnableCallback(1, gpu.subscriber, PFW_CUPTI_DOMAIN_DRIVER, cbid);
	PFW_CUPTI_DRIVER_UNLOADS(X)
#undef X
}

/* Switch on what is wanted.  Kernels must be; another kind that cannot be is named. */
static bool enable_kinds(void)
{
	for (size_t i = 0; i < PFW_ARRAY_LEN(kinds); i++) {
		uint32_t result = gpu.config->gpu & kinds[i].wanted ? enable_kind(kinds[i].kind)
								    : 0;

		if (!result)
			continue;
		if (kinds[i].kind == PFW_CUPTI_KIND_KERNEL)
			return refused("ActivityEnable(CONCURRENT_KERNEL)", result, "");
		if (kinds[i].wanted != ~0u && !atomic_load(&begun))
			pfw_say_number("this CUPTI does not record activities of kind ",
				       kinds[i].kind, ": they are missing in the trace");
	}
	choose_calls();
	return true;
}

/* Both are CLOCK_REALTIME, as measured; where one is not, the difference is added to its times. */
static void compare_clocks(void)
{
	int64_t nearest = INT64_MAX;

	pfw_cupti_decoding.clock_offset_ns = 0;
	for (int i = 0; i < CLOCK_TRIES; i++) {
		uint64_t before = pfw_clock_ns(CLOCK_REALTIME), theirs = 0, after;
		int64_t width;

		if (gpu.shared ? CALLS.GetTimestamp_v2(gpu.subscriber, &theirs)
			       : CALLS.GetTimestamp(&theirs))
			return;
		after = pfw_clock_ns(CLOCK_REALTIME);
		width = (int64_t)(after - before);
		if (theirs >= before && theirs <= after) {
			pfw_cupti_decoding.clock_offset_ns = 0;
			return;
		}
		if (width >= 0 && width < nearest) {
			nearest = width;
			pfw_cupti_decoding.clock_offset_ns =
				(int64_t)(before + (uint64_t)width / 2 - theirs);
		}
	}
}

static uint32_t register_buffers(void)
{
	size_t bytes = sizeof(uint8_t);
	uint8_t no = 0;

	/* A buffer for each thread that launches would be memory without a bound. */
	if (gpu.shared) {
		CALLS.ActivitySetAttribute_v2(gpu.subscriber, PFW_CUPTI_ATTR_PER_THREAD_BUFFER,
					      &bytes, &no);
		return CALLS.ActivityRegisterCallbacks_v2(gpu.subscriber, requested_shared,
							  completed_shared);
	}
	CALLS.ActivitySetAttribute(PFW_CUPTI_ATTR_PER_THREAD_BUFFER, &bytes, &no);
	return CALLS.ActivityRegisterCallbacks(pfw_cupti_requested_buffer, completed);
}

static bool begin_cupti(void)
{
	uint32_t result;
	char holder[PFW_CUPTI_OLD_NAME_BYTES + 1] = "";

	result = CALLS.GetVersion(&pfw_cupti_lib.version);
	if (result)
		return refused("GetVersion", result, "");
	result = subscribe(holder);
	if (result)
		return refused("Subscribe", result, holder);
	pfw_cupti_lib.subscriber = gpu.shared ? gpu.subscriber : NULL;
	CALLS.SetThreadIdType(PFW_CUPTI_THREAD_ID_SYSTEM);
	result = register_buffers();
	if (result)
		return refused("ActivityRegisterCallbacks", result, "");
	gpu.enabled = true;
	return enable_kinds();
}

static void disable_kinds(void)
{
	if (!gpu.enabled)
		return;
	gpu.enabled = false;
	for (size_t i = 0; i < PFW_ARRAY_LEN(kinds); i++) {
		if (!(gpu.config->gpu & kinds[i].wanted) || pfw_cupti_yield_theirs(kinds[i].kind))
			continue;
		if (gpu.shared)
			CALLS.ActivityDisable_v2(gpu.subscriber, kinds[i].kind, NULL);
		else
			CALLS.ActivityDisable(kinds[i].kind);
	}
#define X(name, cbid) enable_call(true, cbid, false);
	if (gpu.config->gpu & PFW_GPU_LAUNCH && !(gpu.config->gpu & PFW_GPU_DRIVER)) {
		PFW_CUPTI_DRIVER_LAUNCHES(X)
	}
#undef X
}

static void unsubscribe(void)
{
	if (gpu.subscriber)
		CALLS.Unsubscribe(gpu.subscriber);
	gpu.subscriber = NULL;
}

static void at_exit(void)
{
	pfw_cupti_end(true);
}

static void look_for_others(void);
static void start_thread(void);

/* A child forked while another thread loads something would find the dynamic linker locked for ever. */
static bool lock_loading(void)
{
	uint64_t deadline = pfw_clock_ns(CLOCK_MONOTONIC) + LOADING_WAIT_NS;

	while (atomic_exchange(&gpu.loading, 1)) {
		if (pfw_clock_ns(CLOCK_MONOTONIC) > deadline)
			return false; /* this thread may be why the other one does not get on */
		pfw_os_sleep_ns(20000);
	}
	return true;
}

static int load(void)
{
	bool locked = lock_loading();
	int error = pfw_cupti_load(gpu.config->cupti_lib);

	pfw_cupti_find_demangler();
	if (locked)
		atomic_store(&gpu.loading, 0);
	return error;
}

void pfw_cupti_hold(void)
{
	gpu.held = gpu.config && gpu.config->gpu && lock_loading();
}

void pfw_cupti_release(void)
{
	if (gpu.held)
		atomic_store(&gpu.loading, 0);
	gpu.held = false;
}

static bool begin(void)
{
	int error = load();

	if (error == -ENOENT && gpu.config->cupti_lib) {
		say("GPU work is not recorded: PFW_CUPTI_LIB=", gpu.config->cupti_lib,
		    " cannot be loaded: name the libcupti.so.12 or .13 that fits the driver");
		return false;
	}
	if (error == -ENOENT) {
		say("GPU work is not recorded: no libcupti that fits the driver is in the process, ",
		    "beside its CUDA runtime, in the system's or in /usr/local/cuda",
		    ": pip install nvidia-cuda-cupti, or set PFW_CUPTI_LIB to one");
		return false;
	}
	if (error) {
		say("GPU work is not recorded: ", pfw_cupti_lib.path,
		    " lacks calls of CUPTI 12.0: set PFW_CUPTI_LIB to a newer one");
		return false;
	}
	if (pfw_cupti_buffers_init(gpu.config->on_full == PFW_ON_FULL_DROP)) {
		pfw_say("GPU work is not recorded: no memory for buffers (RLIMIT_AS?)");
		return false;
	}
	if (begin_cupti())
		return true;
	disable_kinds();
	unsubscribe();
	return false;
}

/* Before libcuda's own: it was loaded earlier, so its handlers run later. */
static void hook_exit(void)
{
	if (!gpu.exit_hook)
		gpu.exit_hook = !atexit(at_exit);
}

static void try_begin(void)
{
	uint32_t beginning = BEGINNING;
	int error = 0;

	switch (pfw_cuda_look(&error)) {
	case PFW_CUDA_ABSENT:
	case PFW_CUDA_WAITING:
		atomic_store(&gpu.state, IDLE);
		return;
	case PFW_CUDA_USELESS:
		/* The program goes on without a GPU, and so do we; who asked is told. */
		if (gpu.config->gpu & PFW_GPU_ASKED)
			pfw_say_number("GPU work is not recorded: the driver finds no device (CUDA "
				       "error ",
				       (uint64_t)error, "); `pfw doctor` says more");
		atomic_store(&gpu.state, GIVEN_UP);
		return;
	case PFW_CUDA_READY:
		break;
	}
	if (!begin()) {
		atomic_store(&gpu.state, GIVEN_UP);
		return;
	}
	compare_clocks();
	hook_exit();
	atomic_store(&gpu.last, false);
	atomic_store(&gpu.asked, false);
	look_for_others();
	start_thread();
	atomic_store(&pfw_cupti_spans, atomic_fetch_add(&begun, 1) + 1);
	/* Last: who waits for it goes on launching.  Not, where the program has ended meanwhile. */
	atomic_compare_exchange_strong(&gpu.state, &beginning, ON);
}

static void look(void)
{
	uint32_t idle = IDLE;

	if (gpu.config && gpu.config->gpu && atomic_load(&gpu.state) == IDLE &&
	    !pfw_cupti_yield_taken() && pfw_probe_ready(&pfw_live->api) &&
	    atomic_compare_exchange_strong(&gpu.state, &idle, BEGINNING))
		try_begin();
}

/* Another thread of ours may be at it, from an earlier moment on. */
void pfw_cupti_look(void)
{
	uint64_t deadline = pfw_clock_ns(CLOCK_MONOTONIC) + MEET_NS;
	uint32_t left = LEFT;

	if (pfw_live_records())
		atomic_compare_exchange_strong(&gpu.state, &left, IDLE);
	look();
	while (atomic_load(&gpu.state) == BEGINNING && pfw_clock_ns(CLOCK_MONOTONIC) < deadline) {
		pfw_os_sleep_ns(20000);
		look();
	}
	/* A span of this thread that was open before. */
	if (pfw_thread.span && atomic_load(&pfw_cupti_spans) != pfw_thread.gpu_begun)
		pfw_cupti_push(pfw_thread.span, 0);
}

/* ---- recording off and on ---- */

static void switch_off(void)
{
	atomic_store(&pfw_cupti_spans, 0);
	CALLS.ActivityFlushAll(0);
	atomic_store(&gpu.flushed, pfw_cupti_buffers_order());
	disable_kinds();
}

static void switch_on(void)
{
	gpu.enabled = true;
	enable_kinds();
	atomic_store(&pfw_cupti_spans, atomic_fetch_add(&begun, 1) + 1);
}

/* Off means off: while nothing is recorded CUPTI costs nothing. */
static void follow(void)
{
	bool on = pfw_live_records();

	if (atomic_load(&gpu.state) != ON || on == gpu.enabled ||
	    atomic_exchange(&gpu.switching, 1))
		return;
	if (on && !gpu.enabled)
		switch_on();
	else if (!on && gpu.enabled)
		switch_off();
	atomic_store(&gpu.switching, 0);
}

void pfw_cupti_switched(bool by_writer)
{
	if (!gpu.config || !gpu.config->gpu)
		return;
	if (by_writer) {
		atomic_store(&gpu.asked, true);
		atomic_fetch_add(&pfw_cupti_bell, 1);
		pfw_os_futex_wake((const uint32_t *)&pfw_cupti_bell, 1);
		return;
	}
	pfw_cupti_look();
	follow();
	if (pfw_thread.span && atomic_load(&pfw_cupti_spans))
		pfw_cupti_push(pfw_thread.span, 0);
}

/* ---- other clients ---- */

static void count_dropped(void)
{
	size_t dropped = 0;

	if (!(gpu.shared ? CALLS.ActivityGetNumDroppedRecords_v2(gpu.subscriber, NULL, 0, &dropped)
			 : CALLS.ActivityGetNumDroppedRecords(NULL, 0, &dropped)))
		pfw_ring_count_lost(PFW_LOST_GPU, dropped);
}

/* Also what is not whole: the buffers that CUPTI holds would reach the other client. */
static void yield_now(void)
{
	uint32_t on = ON;

	if (gpu.shared || !atomic_compare_exchange_strong(&gpu.state, &on, YIELDED))
		return;
	atomic_store(&pfw_cupti_spans, 0);
	gpu.yielded_ns = pfw_clock_ns(CLOCK_MONOTONIC);
	if (!atomic_fetch_add(&pfw_cupti_figures.yielded, 1))
		pfw_say("another profiler of this process takes CUPTI over: GPU work is in its "
			"profile, not in the trace, until it stops");
	CALLS.ActivityFlushAll(0);
	CALLS.ActivityFlushAll(PFW_CUPTI_FLUSH_FORCED);
	atomic_store(&gpu.flushed, pfw_cupti_buffers_order());
	count_dropped();
	disable_kinds();
}

/* What CUPTI still has of the other client's comes to our callback, which hands it on. */
static void come_back(void)
{
	uint32_t yielded = YIELDED;

	if (!atomic_compare_exchange_strong(&gpu.state, &yielded, BEGINNING))
		return;
	atomic_fetch_add(&pfw_cupti_figures.yielded_us,
			 (pfw_clock_ns(CLOCK_MONOTONIC) - gpu.yielded_ns) / 1000);
	if (!register_buffers() && pfw_live_records())
		switch_on();
	yielded = BEGINNING;
	atomic_compare_exchange_strong(&gpu.state, &yielded, ON);
}

static bool is_ours(uint32_t kind)
{
	for (size_t i = 0; i < PFW_ARRAY_LEN(kinds); i++)
		if (kinds[i].kind == kind)
			return gpu.config->gpu & kinds[i].wanted && gpu.enabled &&
			       atomic_load(&gpu.state) == ON;
	return false;
}

static void look_for_others(void)
{
	if (gpu.shared || !lock_loading())
		return;
	pfw_cupti_yield_host = (struct pfw_cupti_yield_host){ yield_now, come_back, is_ours };
	pfw_cupti_yield_look();
	atomic_store(&gpu.loading, 0);
}

/* ---- our thread ---- */

/*
 * CUPTI hands over a buffer when it is full, or in a flush.  A flush waits for CUPTI's locks, whose
 * holder may wait for the writer (a full ring, a full buffer): so it is not the writer that flushes.
 */
static void flush_once(void)
{
	atomic_store(&gpu.calling, 1);
	if (!atomic_load(&gpu.leave) && atomic_load(&gpu.state) == ON) {
		CALLS.ActivityFlushAll(0);
		atomic_store(&gpu.flushed, pfw_cupti_buffers_order());
		count_dropped();
	}
	atomic_store(&gpu.calling, 0);
}

/* The program may load libstdc++ after CUDA. */
static void look_for_demangler(void)
{
	if (!lock_loading())
		return;
	pfw_cupti_find_demangler();
	atomic_store(&gpu.loading, 0);
}

static uint64_t nap_ns(uint64_t flush_ns)
{
	if (atomic_load(&gpu.state) == IDLE && atomic_load(&gpu.injected)) {
		atomic_fetch_sub(&gpu.injected, 1);
		return LOOK_NS;
	}
	return pfw_cupti_buffers_waiting() ? NUDGE_NS : flush_ns;
}

static void *thread_main(void *arg)
{
	uint64_t flush_ns = gpu.config->flush_ns, flushed_at = 0, now, flushes = 0;

	atomic_store(&pfw_os_own_table_guest, arg ? pfw_os_gettid() : 0);
	pfw_syscall6(SYS_prctl, 15 /* PR_SET_NAME */, (long)"pfw-gpu", 0, 0, 0, 0);
	while (!atomic_load(&gpu.leave) && atomic_load(&gpu.state) != GIVEN_UP) {
		uint32_t seen = atomic_load(&pfw_cupti_bell);

		if (atomic_load(&gpu.asked))
			look();
		atomic_store(&gpu.calling, 1);
		if (!atomic_load(&gpu.leave))
			follow();
		atomic_store(&gpu.calling, 0);
		now = pfw_clock_ns(CLOCK_MONOTONIC);
		if (now - flushed_at >= flush_ns || pfw_cupti_buffers_waiting() >= FLUSH_BUFFERS) {
			flush_once();
			flushed_at = now;
			if (atomic_load(&gpu.state) == ON)
				look_for_others();
			if (flushes++ % DEMANGLER_FLUSHES == 0)
				look_for_demangler();
		}
		if (pfw_cupti_buffers_waiting() && pfw_ring_host.wake)
			pfw_ring_host.wake();
		pfw_os_futex_wait((const uint32_t *)&pfw_cupti_bell, seen, nap_ns(flush_ns));
	}
	atomic_store(&gpu.thread, 0);
	return NULL;
}

static void start_thread(void)
{
	uint32_t none = 0;
	pthread_attr_t attr;
	pthread_t thread;
	sigset_t all, old;
	/* Made by the writer's thread, it is in the writer's table of descriptors. */
	bool guest = pfw_os_own_table == pfw_os_gettid();
	int error;

	atomic_store(&gpu.leave, false);
	if (!atomic_compare_exchange_strong(&gpu.thread, &none, 1))
		return;
	pthread_attr_init(&attr);
	pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
	pthread_attr_setstacksize(&attr, STACK_BYTES);
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &old);
	error = pthread_create(&thread, &attr, thread_main, guest ? &gpu : NULL);
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	pthread_attr_destroy(&attr);
	if (error) {
		atomic_store(&gpu.thread, 0);
		if (atomic_load(&gpu.state) != ON)
			atomic_store(&gpu.state, GIVEN_UP);
		pfw_say("no thread for the GPU's records (RLIMIT_NPROC?): they reach the trace when a "
			"buffer is full, and at the end");
	}
}

unsigned pfw_cupti_threads(void)
{
	return atomic_load(&gpu.thread) != 0;
}

/* Never waits: whoever forks or ends waits for the writer. */
void pfw_cupti_tick(void)
{
	int error;

	if (!gpu.config || !gpu.config->gpu || atomic_load(&gpu.state) != IDLE ||
	    !pfw_live_records() || pfw_cuda_look(&error) <= PFW_CUDA_WAITING)
		return;
	atomic_store(&gpu.asked, true);
	start_thread();
}

void pfw_cupti_injected(void)
{
	if (!gpu.config || !gpu.config->gpu)
		return;
	pfw_cupti_look();
	if (atomic_load(&gpu.state) == ON)
		return;
	/* cuInit has not finished yet, as far as the driver says, or recording is off for now. */
	atomic_store(&gpu.injected, LOOKS_OFTEN);
	atomic_store(&gpu.asked, true);
	start_thread();
}

/* ---- the end ---- */

void pfw_cupti_flush(void)
{
	if (atomic_load(&gpu.state) != ON || !gpu.enabled)
		return;
	CALLS.ActivityFlushAll(0);
	atomic_store(&gpu.flushed, pfw_cupti_buffers_order());
}

/* Our thread makes no call after this; where it hangs in one, it is not waited for any longer. */
static void send_thread_home(void)
{
	uint64_t deadline = pfw_clock_ns(CLOCK_MONOTONIC) + LEAVE_WAIT_NS;

	atomic_store(&gpu.leave, true);
	atomic_fetch_add(&pfw_cupti_bell, 1);
	pfw_os_futex_wake((const uint32_t *)&pfw_cupti_bell, 1);
	while (atomic_load(&gpu.calling) && pfw_clock_ns(CLOCK_MONOTONIC) < deadline)
		pfw_os_sleep_ns(100000);
}

void pfw_cupti_end(bool good)
{
	uint64_t deadline = pfw_clock_ns(CLOCK_MONOTONIC) + LEAVE_WAIT_NS;
	uint32_t on = ON;

	while (atomic_load(&gpu.state) == BEGINNING && pfw_clock_ns(CLOCK_MONOTONIC) < deadline)
		pfw_os_sleep_ns(100000);
	if (!atomic_compare_exchange_strong(&gpu.state, &on, BEGINNING)) {
		if (on == YIELDED)
			unsubscribe();
		if (on != FORKED && (good || on == YIELDED))
			atomic_store(&gpu.state, good ? OVER : LEFT);
		atomic_store(&gpu.last, true);
		return;
	}
	atomic_store(&pfw_cupti_spans, 0);
	send_thread_home();
	if (!good)
		disable_kinds();
	if (gpu.enabled || good) {
		CALLS.ActivityFlushAll(0);
		CALLS.ActivityFlushAll(PFW_CUPTI_FLUSH_FORCED);
	}
	count_dropped();
	unsubscribe();
	atomic_store(&gpu.last, true);
	atomic_store(&gpu.state, good ? OVER : LEFT);
}

void pfw_cupti_forked(void)
{
	bool used = atomic_load(&begun) != 0;

	atomic_store(&pfw_cupti_spans, 0);
	atomic_store(&gpu.thread, 0);
	atomic_store(&gpu.calling, 0);
	atomic_store(&gpu.state, used ? FORKED : IDLE);
	gpu.buffer = NULL;
	gpu.at = NULL;
	pfw_cupti_buffers_forget();
	pfw_cupti_names_forget();
}

/* ---- what the writer drains ---- */

static const struct pfw_record *next(unsigned *slots)
{
	const struct pfw_record *record;
	uint64_t upto;

	for (;;) {
		while (gpu.at) {
			record = pfw_cupti_decode(gpu.at, slots);
			gpu.at = pfw_cupti_noted_next(gpu.at);
			if (record)
				return record;
		}
		if (gpu.buffer)
			pfw_cupti_buffer_free(gpu.buffer);
		upto = atomic_load(&gpu.last) ? UINT64_MAX : atomic_load(&gpu.flushed);
		gpu.at = gpu.buffer = pfw_cupti_buffer_oldest(upto);
		if (!gpu.buffer)
			return NULL;
		pfw_cupti_decoding.now_ns = pfw_clock_ns(CLOCK_REALTIME);
	}
}

static unsigned figures(struct pfw_source_figure *figure, unsigned room)
{
	unsigned count = 0;

#define X(name)                                                               \
	if (count < room && atomic_load(&pfw_cupti_figures.name)) {           \
		figure[count].key = #name;                                    \
		figure[count++].value = atomic_load(&pfw_cupti_figures.name); \
	}
	PFW_CUPTI_FIGURES(X)
#undef X
	return count;
}

const struct pfw_source pfw_cupti_source = { "gpu", next, figures };

void pfw_cupti_init(const struct pfw_config *config, uint16_t template)
{
	gpu.config = config;
	pfw_cupti_decoding.template = template;
}

/* ---- spans ---- */

/* What an earlier time has left on this thread's stack is no span of this one. */
static void renew(uint32_t spans)
{
	uint64_t id;

	if (pfw_thread.gpu_begun)
		while (!(gpu.shared ? CALLS.ActivityPopExternalCorrelationId_v2(
					      gpu.subscriber, PFW_CUPTI_EXTERNAL_CUSTOM2, &id)
				    : CALLS.ActivityPopExternalCorrelationId(
					      PFW_CUPTI_EXTERNAL_CUSTOM2, &id)))
			;
	pfw_thread.gpu_begun = spans;
	pfw_thread.gpu_pushed = 0;
}

static void push_one(uint64_t id)
{
	uint32_t result =
		gpu.shared
			? CALLS.ActivityPushExternalCorrelationId_v2(gpu.subscriber,
								     PFW_CUPTI_EXTERNAL_CUSTOM2, id)
			: CALLS.ActivityPushExternalCorrelationId(PFW_CUPTI_EXTERNAL_CUSTOM2, id);

	pfw_thread.gpu_pushed += !result;
}

void pfw_cupti_push(uint64_t id, uint64_t parent)
{
	uint32_t spans = atomic_load_explicit(&pfw_cupti_spans, memory_order_acquire);
	int error = errno;

	if (spans && pfw_thread.gpu_begun != spans)
		renew(spans);
	/* The parent was there before CUPTI was. */
	if (spans && parent && !pfw_thread.gpu_pushed)
		push_one(parent);
	if (spans)
		push_one(id);
	errno = error;
}

void pfw_cupti_pop(uint64_t id, uint64_t parent)
{
	uint32_t spans = atomic_load_explicit(&pfw_cupti_spans, memory_order_acquire);
	uint64_t last = 0;
	int error = errno;

	if (spans && pfw_thread.gpu_begun != spans)
		renew(spans);
	while (spans && pfw_thread.gpu_pushed && last != id) {
		pfw_thread.gpu_pushed--;
		if (gpu.shared ? CALLS.ActivityPopExternalCorrelationId_v2(
					 gpu.subscriber, PFW_CUPTI_EXTERNAL_CUSTOM2, &last)
			       : CALLS.ActivityPopExternalCorrelationId(PFW_CUPTI_EXTERNAL_CUSTOM2,
									&last))
			break;
	}
	if (spans && parent && !pfw_thread.gpu_pushed)
		push_one(parent);
	errno = error;
}
