/* recorder/gpu/cupti.c - the GPU probe: decides when CUPTI is begun, flushed and left. */
#include "recorder/gpu/cupti.h"

#include <stdlib.h>

#include "common/base/os.h"
#include "common/format/clock.h"
#include "common/settings/config.h"
#include "recorder/gpu/client.h"
#include "recorder/gpu/ranges.h"
#include "recorder/gpu/refusal.h"
#include "recorder/gpu/spans.h"
#include "recorder/gpu/subscription.h"
#include "recorder/gpu/thread.h"
#include "recorder/gpu/yield.h"
#include "recorder/gpu_records/buffers.h"
#include "recorder/gpu_records/decode.h"
#include "recorder/gpu_records/lib.h"
#include "recorder/gpu_records/names.h"
#include "recorder/gpu_records/source.h"
#include "recorder/guest/say.h"
#include "recorder/probe/probe.h"

#define LOOKS_OFTEN 5000u /* 10 s of looks, while the program is inside cuInit */
#define DEMANGLER_FLUSHES 16u
#define MEET_NS 1000000000ull
#define LEAVE_WAIT_NS 1000000000ull

enum state {
	IDLE,	   /* not wanted, or the program does not use CUDA yet */
	BEGINNING, /* a thread is subscribing */
	ON,
	YIELDED,  /* another client has the records, until it stops */
	LEFT,	  /* the program has stopped recording and may start again */
	GIVEN_UP, /* CUPTI cannot be used; a message has said why */
	OVER,	  /* the program ends: CUPTI is never called again */
	FORKED,	  /* the parent used CUDA, which cannot work in this child */
};

static struct {
	_Atomic uint32_t state;
	const struct pfw_config *config;
	_Atomic bool stopped;	    /* pfw_stop() was called */
	_Atomic uint32_t injected;  /* how many looks are still to come in quick succession */
	_Atomic bool asked;	    /* our thread is to begin as soon as it can */
	_Atomic uint32_t switching; /* lock: a thread is switching kinds */
	uint64_t yielded_ns;	    /* time of yielding */
	bool exit_hook;
	bool held; /* a fork holds the dynamic linker */
} gpu;

/* ---- beginning ---- */

/*
 * Whether CUPTI is needed: also while recording is off, if CUPTI is what reports that it goes on.
 */
static bool wanted(void)
{
	return pfw_switches_records() ||
	       (gpu.config->plan.kind == PFW_PLAN_RANGE && !atomic_load(&gpu.stopped));
}

/* The driver is about to free names of kernels: flush the records with these names first. */
static void unloading(void)
{
	if (atomic_load(&gpu.state) == ON)
		pfw_cupti_client_flush(false);
}

static void ranged(bool begins)
{
	if (pfw_probe_host.range)
		pfw_probe_host.range(begins);
}

/* If ranges switch the recording, their calls are redirected until CUPTI reports them. */
static void look_for_ranges(void)
{
	if (gpu.config->plan.kind != PFW_PLAN_RANGE || !pfw_cupti_lib_lock())
		return;
	pfw_cupti_ranged = ranged;
	pfw_cupti_ranges_look();
	pfw_cupti_lib_unlock();
}

static void at_exit(void)
{
	pfw_cupti_end(true);
}

static bool start_thread(void);
static void yield_now(void);
static void come_back(void);
static bool is_ours(uint32_t kind);

/* Set what CUPTI and other clients make us do. */
static void set_hosts(void)
{
	pfw_cupti_subscription_host =
		(struct pfw_cupti_subscription_host){ unloading, ranged, pfw_cupti_spans_catch_up };
	pfw_cupti_yield_host = (struct pfw_cupti_yield_host){ yield_now, come_back, is_ours };
}

static int load(void)
{
	bool locked = pfw_cupti_lib_lock();
	int error = pfw_cupti_load(gpu.config->cupti_lib);

	pfw_cupti_find_demangler();
	if (locked)
		pfw_cupti_lib_unlock();
	return error;
}

/* Names of kernels and calls need the spool. */
static void make_room(void)
{
	pfw_probe_ready(&pfw_switches->api);
}

/* Whether we have made CUPTI call our clock, since another client had made it call its own. */
static bool has_our_clock(void)
{
	return pfw_cupti_yield_clock() && pfw_cupti_client_own_clock();
}

static bool begin(void)
{
	int error = load();
	bool clock, on;

	if (error) {
		pfw_cupti_refuse_library(error, gpu.config->cupti_lib);
		return false;
	}
	if (pfw_cupti_buffers_init(gpu.config->on_full == PFW_ON_FULL_DROP)) {
		pfw_say("GPU work is not recorded: no memory for buffers (RLIMIT_AS?)");
		return false;
	}
	set_hosts();
	clock = has_our_clock();
	/* The program may have switched recording on since the look. */
	on = pfw_switches_records();
	if (on)
		make_room();
	if (!pfw_cupti_client_begin(gpu.config, on))
		return false;
	pfw_cupti_decoding.clock_offset_ns = clock ? 0 : pfw_cupti_client_clock_offset();
	return true;
}

/* Run before libcuda's exit handlers: handlers registered later run earlier. */
static void hook_exit(void)
{
	if (!gpu.exit_hook)
		gpu.exit_hook = !atexit(at_exit);
}

static void say_useless(int error)
{
	static bool said; /* inherited by children, so that a child does not repeat the message */

	if (said)
		return;
	said = true;
	pfw_say_number("GPU work is not recorded: the driver finds no device (CUDA error ",
		       (uint64_t)error, "); `pfw doctor` says more");
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
		/* The program goes on without a GPU and so does the recorder.  A user who asked for
		 * GPU records gets a message. */
		if (gpu.config->gpu & PFW_GPU_ASKED || gpu.config->plan.kind == PFW_PLAN_RANGE)
			say_useless(error);
		atomic_store(&gpu.state, GIVEN_UP);
		return;
	case PFW_CUDA_READY:
		break;
	}
	if (!begin()) {
		atomic_store(&gpu.state, GIVEN_UP);
		return;
	}
	hook_exit();
	pfw_cupti_source_last(false);
	atomic_store(&gpu.asked, false);
	start_thread();
	if (pfw_cupti_client_enabled())
		pfw_cupti_spans_begin();
	/* Last, since a waiting thread goes on launching then.  The state stays OVER if the program
	 * has ended meanwhile. */
	atomic_compare_exchange_strong(&gpu.state, &beginning, ON);
}

static void look(void)
{
	uint32_t idle = IDLE;

	if (gpu.config && gpu.config->gpu && atomic_load(&gpu.state) == IDLE &&
	    !pfw_cupti_yield_taken() && (pfw_probe_ready(&pfw_switches->api) || wanted()) &&
	    atomic_compare_exchange_strong(&gpu.state, &idle, BEGINNING))
		try_begin();
}

/* The program may have initialised CUDA just now.  Another thread of ours may still be acting on an
 * earlier look: wait for it. */
static void look_and_wait(void)
{
	uint64_t deadline = pfw_clock_ns(CLOCK_MONOTONIC) + MEET_NS;
	uint32_t left = LEFT;

	if (gpu.config && wanted())
		atomic_compare_exchange_strong(&gpu.state, &left, IDLE);
	look();
	while (atomic_load(&gpu.state) == BEGINNING && pfw_clock_ns(CLOCK_MONOTONIC) < deadline) {
		pfw_os_sleep_ns(20000);
		look();
	}
	pfw_cupti_spans_catch_up();
}

void pfw_cupti_started(void)
{
	atomic_store(&gpu.stopped, false);
	look_and_wait();
}

bool pfw_cupti_ask(void)
{
	look_and_wait();
	return atomic_load(&gpu.state) == ON;
}

/* ---- recording off and on ---- */

static void deliver(bool forced)
{
	pfw_cupti_client_flush(forced);
	pfw_cupti_source_flushed();
}

static void switch_off(void)
{
	pfw_cupti_spans_end();
	deliver(false);
	pfw_cupti_client_disable();
}

static void switch_on(void)
{
	make_room();
	pfw_cupti_client_enable();
	pfw_cupti_spans_begin();
}

/* While recording is off, CUPTI must cost nothing.  Another thread may be switching on an older
 * wish: wait until `deadline`, then apply only what is wanted now. */
static void follow_until(uint64_t deadline)
{
	bool on;

	if (atomic_load(&gpu.state) != ON)
		return;
	while (atomic_exchange(&gpu.switching, 1)) {
		if (pfw_clock_ns(CLOCK_MONOTONIC) >= deadline)
			return;
		pfw_os_sleep_ns(20000);
	}
	on = pfw_switches_records();
	if (atomic_load(&gpu.state) == ON && on != pfw_cupti_client_enabled()) {
		if (on)
			switch_on();
		else
			switch_off();
	}
	atomic_store(&gpu.switching, 0);
}

/* Our thread's turn: it does not wait for another thread that is switching. */
static void follow(void)
{
	follow_until(0);
}

void pfw_cupti_switched(bool by_writer)
{
	if (!gpu.config || !gpu.config->gpu)
		return;
	if (by_writer) {
		atomic_store(&gpu.asked, true);
		pfw_cupti_thread_ring();
		return;
	}
	look_and_wait();
	follow_until(pfw_clock_ns(CLOCK_MONOTONIC) + MEET_NS);
	pfw_cupti_spans_catch_up();
}

/* ---- other clients ---- */

/* Forced, since buffers that CUPTI still holds would reach the other client. */
static void yield_now(void)
{
	uint32_t on = ON;

	if (pfw_cupti_client_shared() || !atomic_compare_exchange_strong(&gpu.state, &on, YIELDED))
		return;
	pfw_cupti_spans_end();
	gpu.yielded_ns = pfw_clock_ns(CLOCK_MONOTONIC);
	if (!atomic_fetch_add(&pfw_cupti_figures.yielded, 1))
		pfw_say("another profiler of this process takes CUPTI over: GPU work is in its "
			"profile, not in the trace, until it stops");
	deliver(true);
	pfw_cupti_client_count_dropped();
	pfw_cupti_client_disable();
}

/* CUPTI hands the other client's last buffers to our callback, which passes them on. */
static void come_back(void)
{
	uint32_t yielded = YIELDED;

	if (!atomic_compare_exchange_strong(&gpu.state, &yielded, BEGINNING)) {
		pfw_cupti_thread_ring(); /* it may have waited to begin */
		return;
	}
	atomic_fetch_add(&pfw_cupti_figures.yielded_us,
			 (pfw_clock_ns(CLOCK_MONOTONIC) - gpu.yielded_ns) / 1000);
	if (has_our_clock())
		pfw_cupti_decoding.clock_offset_ns = 0;
	if (!pfw_cupti_client_register() && pfw_switches_records())
		switch_on();
	yielded = BEGINNING;
	atomic_compare_exchange_strong(&gpu.state, &yielded, ON);
}

uint64_t pfw_cupti_shares_since(void)
{
	return atomic_load(&gpu.state) == ON && pfw_cupti_client_shared() &&
			       pfw_cupti_client_wants(PFW_CUPTI_KIND_KERNEL)
		       ? pfw_cupti_client_since()
		       : 0;
}

static bool is_ours(uint32_t kind)
{
	return !pfw_cupti_client_shared() && pfw_cupti_client_wants(kind) &&
	       pfw_cupti_client_enabled() && atomic_load(&gpu.state) == ON;
}

/* The program may have loaded another client since the last look. */
static void look_for_others(void)
{
	if (pfw_cupti_client_shared() || !pfw_cupti_lib_lock())
		return;
	pfw_cupti_yield_look();
	pfw_cupti_lib_unlock();
}

/* The thread that initialises CUDA may be about to begin a profile: its calls are redirected before
 * it returns. */
static void meet_others(void)
{
	if (gpu.config->cupti_lib || !pfw_cupti_lib_lock())
		return;
	if (!pfw_cupti_load_present()) {
		set_hosts();
		pfw_cupti_yield_look();
	}
	pfw_cupti_lib_unlock();
}

/* ---- our thread ---- */

static bool look_in_thread(void)
{
	pfw_cupti_yield_overdue();
	if (atomic_load(&gpu.asked))
		look();
	return atomic_load(&gpu.state) != GIVEN_UP;
}

static void flush_once(void)
{
	if (atomic_load(&gpu.state) != ON)
		return;
	deliver(false);
	pfw_cupti_client_count_dropped();
}

/* The program may load another client, or libstdc++, after CUDA. */
static void look_around(void)
{
	static unsigned times;

	if (atomic_load(&gpu.state) == ON)
		look_for_others();
	if (times++ % DEMANGLER_FLUSHES || !pfw_cupti_lib_lock())
		return;
	pfw_cupti_find_demangler();
	pfw_cupti_lib_unlock();
}

static bool hurries(void)
{
	if (atomic_load(&gpu.state) != IDLE || !atomic_load(&gpu.injected))
		return false;
	atomic_fetch_sub(&gpu.injected, 1);
	return true;
}

static bool start_thread(void)
{
	static struct pfw_cupti_duties duties = { 0,	      look_in_thread, follow,
						  flush_once, look_around,    hurries };

	duties.flush_ns = gpu.config->flush_ns;
	return pfw_cupti_thread_start(&duties);
}

/* Only our thread begins: if it cannot be started, CUPTI is not begun. */
static void begin_in_thread(void)
{
	uint32_t idle = IDLE;

	atomic_store(&gpu.asked, true);
	if (!start_thread())
		atomic_compare_exchange_strong(&gpu.state, &idle, GIVEN_UP);
}

/* The writer never waits here, because a thread that forks or exits waits for the writer. */
bool pfw_cupti_tick(void)
{
	int error;

	if (!gpu.config || !gpu.config->gpu || atomic_load(&gpu.state) != IDLE || !wanted())
		return false;
	look_for_ranges();
	if (pfw_cuda_look(&error) <= PFW_CUDA_WAITING)
		return gpu.config->plan.kind == PFW_PLAN_RANGE;
	begin_in_thread();
	return false;
}

bool pfw_cupti_was_used(void)
{
	return gpu.exit_hook;
}

void pfw_cupti_injected(void)
{
	if (!gpu.config || !gpu.config->gpu)
		return;
	look_and_wait();
	if (atomic_load(&gpu.state) == ON)
		return;
	meet_others();
	/* The driver says that cuInit has not finished, or recording is off for now. */
	atomic_store(&gpu.injected, LOOKS_OFTEN);
	begin_in_thread();
}

/* ---- the end ---- */

void pfw_cupti_flush(bool everything)
{
	if (atomic_load(&gpu.state) != ON || !pfw_cupti_client_enabled())
		return;
	deliver(everything);
}

void pfw_cupti_exits(void)
{
	int error = 0;

	if (gpu.config && gpu.config->gpu & PFW_GPU_ASKED && atomic_load(&gpu.state) == IDLE &&
	    pfw_cuda_look(&error) == PFW_CUDA_USELESS)
		say_useless(error);
}

void pfw_cupti_end(bool good)
{
	uint64_t deadline = pfw_clock_ns(CLOCK_MONOTONIC) + LEAVE_WAIT_NS;
	uint32_t on = ON;
	bool flush;

	atomic_store(&gpu.stopped, !good);
	while (atomic_load(&gpu.state) == BEGINNING && pfw_clock_ns(CLOCK_MONOTONIC) < deadline)
		pfw_os_sleep_ns(100000);
	if (!atomic_compare_exchange_strong(&gpu.state, &on, BEGINNING)) {
		if (on == YIELDED)
			pfw_cupti_unsubscribe();
		if (on != FORKED && (good || on == YIELDED))
			atomic_store(&gpu.state, good ? OVER : LEFT);
		pfw_cupti_source_last(true);
		return;
	}
	pfw_cupti_spans_end();
	pfw_cupti_thread_send_home();
	flush = good || pfw_cupti_client_enabled();
	if (!good)
		pfw_cupti_client_disable();
	if (flush)
		pfw_cupti_client_flush(true);
	pfw_cupti_client_count_dropped();
	pfw_cupti_unsubscribe();
	pfw_cupti_source_last(true);
	atomic_store(&gpu.state, good ? OVER : LEFT);
}

void pfw_cupti_forked(void)
{
	pfw_cupti_spans_end();
	pfw_cupti_thread_forget();
	pfw_cupti_client_forked();
	atomic_store(&gpu.switching, 0);
	atomic_store(&gpu.state, pfw_cupti_spans_begun() ? FORKED : IDLE);
	pfw_cupti_source_forget();
	pfw_cupti_buffers_forget();
	if (pfw_cupti_spans_begun()) /* otherwise a child would copy pages for nothing */
		pfw_cupti_names_forget();
}

/* A child that is forked while another thread loads a library would find the dynamic linker locked
 * for ever. */
void pfw_cupti_hold(void)
{
	gpu.held = gpu.config && gpu.config->gpu && pfw_cupti_lib_lock();
}

void pfw_cupti_release(void)
{
	if (!gpu.held)
		return;
	pfw_cupti_lib_unlock();
	gpu.held = false;
}

void pfw_cupti_init(const struct pfw_config *config, uint16_t template)
{
	gpu.config = config;
	pfw_cupti_decoding.template = template;
	pfw_cupti_decoding.driver = config->gpu & PFW_GPU_DRIVER;
	if (config->gpu)
		look_for_ranges();
}
