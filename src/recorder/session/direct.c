/* recorder/session/direct.c - who writes: the recording thread (a direct write) or the writer's.
 *
 *   state                                             who writes
 *   ENDED: the trace has its `end`                    the recording thread finishes it again
 *   ON, direct_left > 0: a forked child's first       the recording thread, each event at once
 *   ON, a fork begins, no writer is on duty           nobody: the end of the fork does it
 *   ON, no writer, and none may or can be started     the recording thread
 *   ON                                                the writer's thread, started or woken
 *
 * Most forked children record little and exit soon.  For them a thread would cost more than all the
 * rest of the recorder, so their first events are written directly.  The next event, or a slow
 * write, starts the writer's thread; nobody waits until it runs.
 */
#include "common/base/os.h"
#include "common/format/clock.h"
#include "recorder/gpu/cupti.h"
#include "recorder/guest/locked.h"
#include "recorder/guest/say.h"
#include "recorder/marks/api.h"
#include "recorder/marks/torch_ops.h"
#include "recorder/session/internal.h"
#include "recorder/spool/ring.h"
#include "recorder/writer/trace_file.h"

/* Append the events that came after `end`, and a new `end`.  The spool is marked live meanwhile, so
 * that `pfw repair` can complete the trace after a kill, if the spool still exists. */
static int finish_again(void)
{
	_Atomic uint32_t *mark = &pfw_session.spool.header->state;
	uint32_t done = PFW_SPOOL_DONE, live = PFW_SPOOL_LIVE;
	int error;

	atomic_compare_exchange_strong(mark, &done, PFW_SPOOL_LIVE);
	error = pfw_writer_finish(&pfw_session.writer, "exit", NULL);
	if (!error)
		atomic_compare_exchange_strong(mark, &live, PFW_SPOOL_DONE);
	return error;
}

#define DIRECT_EVENTS 4u
#define DIRECT_WRITE_NS 5000000ull

static bool needs_writer(void)
{
	return pfw_session.paused || pfw_session.config.plan.kind != PFW_PLAN_ALWAYS ||
	       pfw_session.config.counters_ns || pfw_session.config.torch_ops ||
	       pfw_session.config.keep.bytes || pfw_torch_steps(&pfw_session.config);
}

void pfw_session_begin_direct(void)
{
	/* A thread known to libc has other work than writing; sums are written periodically. */
	bool writer = needs_writer() || pfw_session.writer.worker.known || pfw_session.writer.sums;

	atomic_store(&pfw_session.direct_left, writer ? 0 : DIRECT_EVENTS);
}

void pfw_session_end_direct(void)
{
	if (atomic_exchange(&pfw_session.direct_left, 0))
		pfw_session_switch();
}

static void drain_direct(void)
{
	uint64_t begun = pfw_clock_ns(CLOCK_MONOTONIC);
	uint32_t left = atomic_load(&pfw_session.direct_left);
	int error = pfw_writer_drain(&pfw_session.writer);

	if (left <= 1 || error || pfw_clock_ns(CLOCK_MONOTONIC) - begun > DIRECT_WRITE_NS)
		pfw_session_end_direct();
	else
		atomic_compare_exchange_strong(&pfw_session.direct_left, &left, left - 1);
	if (error && !pfw_thread.forking && !atomic_load(&pfw_session.writer.dead))
		pfw_writer_start(&pfw_session.writer); /* the thread tries again */
}

static void write_direct(void *unused)
{
	uint32_t state = atomic_load(&pfw_session.state);

	(void)unused;
	if (state == ENDED)
		finish_again();
	else if (state == ON && atomic_load(&pfw_session.direct_left))
		drain_direct();
}

void pfw_session_write_direct(void)
{
	pfw_session_do(write_direct, NULL);
}

/* Decide by the table above.  False: nothing could be written. */
static bool get_written(void)
{
	uint32_t state = atomic_load(&pfw_session.state);
	uint32_t forking = pfw_thread.forking;

	if (state == ENDED)
		return !finish_again();
	if (state != ON)
		return false;
	/* A thread that asks for its first ring has no event yet. */
	if (atomic_load(&pfw_session.direct_left))
		return pfw_ring_wanted() || !pfw_writer_drain(&pfw_session.writer);
	if (forking == PFW_FORK_BEGINS && !atomic_load(&pfw_session.writer.thread_wanted))
		return true;
	if (!atomic_load(&pfw_session.writer.thread_wanted) &&
	    (forking || pfw_writer_start(&pfw_session.writer)))
		return !pfw_writer_drain(&pfw_session.writer);
	return pfw_writer_wake(&pfw_session.writer);
}

/* Else a thread without a ring would ask with each event. */
#define NO_RINGS_PAUSE_NS 100000000ull

/* Threads that have a ring go on; the events of others are counted as lost. */
static bool no_rings(void)
{
	if (pfw_ring_first()) {
		atomic_store(&pfw_session.no_rings_ns,
			     pfw_clock_ns(CLOCK_MONOTONIC) + NO_RINGS_PAUSE_NS);
		return false;
	}
	atomic_store(&pfw_session.writer.dead, 1);
	pfw_session_writer_failed();
	pfw_say(atomic_load(&pfw_locked)
			? "no memory for events: nothing is recorded; after mlockall(MCL_FUTURE) "
			  "RLIMIT_MEMLOCK leaves too little, raise it (ulimit -l)"
			: "no memory for events (spool directory full, or ulimit -d, -f, -n or -v?): "
			  "nothing is recorded; set PFW_SPOOL_DIR to a directory with room");
	return false;
}

/* This thread wants a ring, and a moment ago there was no memory for one. */
static bool no_ring_now(bool wanted)
{
	uint64_t until_ns = atomic_load(&pfw_session.no_rings_ns);

	return wanted && !pfw_thread.ring && until_ns && pfw_clock_ns(CLOCK_MONOTONIC) < until_ns;
}

/* Before the first event: if the trace can probably not be made, try at once.  A program that ends soon
 * may close standard error first (coreutils do), and the message would be lost.  A forked child writes
 * its first event at once anyway. */
static bool can_begin(void)
{
	struct pfw_writer *writer = &pfw_session.writer;

	if (pfw_session.forked || pfw_session.config.keep.bytes ||
	    atomic_load(&writer->spool->header->file_made) ||
	    !pfw_output_may_create(pfw_spool_trace_path(writer->spool->header)))
		return true;
	pfw_writer_anchor(writer, true);
	atomic_store(&writer->anchored, 0);
	return !atomic_load(&writer->dead);
}

struct wake {
	bool wanted, awake;
};

static void wake(void *arg)
{
	struct wake *wake = arg;
	bool rings = true;

	/* Asked again: of a thousand threads that waited for the lock, the first one has tried. */
	if (no_ring_now(wake->wanted)) {
		wake->awake = false;
		return;
	}
	if (wake->wanted && !pfw_ring_first() && !can_begin()) {
		wake->awake = false;
		return;
	}
	if (wake->wanted && pfw_writer_make_rings(&pfw_session.writer))
		rings = no_rings();
	/* A thread that has a ring can go on. */
	wake->awake = get_written() && (rings || pfw_thread.ring);
}

bool pfw_session_wake(void)
{
	struct wake call = { .wanted = pfw_ring_wanted() != 0,
			     .awake = pfw_writer_wake(&pfw_session.writer) };

	if (no_ring_now(call.wanted))
		return false;
	if ((call.wanted || !call.awake) && !atomic_load(&pfw_session.writer.stalled) &&
	    !atomic_load(&pfw_session.writer.dead))
		pfw_session_do(wake, &call);
	return call.awake;
}

static void start_writer(void *unused)
{
	(void)unused;
	if (atomic_load(&pfw_session.state) == ON &&
	    !atomic_load(&pfw_session.writer.thread_wanted))
		pfw_writer_start(&pfw_session.writer);
}

void pfw_session_keep_writer(void)
{
	atomic_store(&pfw_session.writer.stay, needs_writer());
	/* The writer's thread may be about to end, and the holder of the lock may wait for that. */
	if (atomic_load(&pfw_session.writer.stay) &&
	    !atomic_load(&pfw_session.writer.thread_wanted) &&
	    !pfw_writer_is_here(&pfw_session.writer) && !atomic_load(&pfw_session.writer.dead))
		pfw_session_do(start_writer, NULL);
}

int pfw_session_flush(uint64_t timeout_ns)
{
	int error = -ESRCH;

	for (unsigned tries = 0; tries < 3 && error == -ESRCH; tries++) {
		if (!pfw_writer_is_here(&pfw_session.writer))
			pfw_session_wake();
		error = pfw_writer_flush(&pfw_session.writer, timeout_ns);
	}
	return error;
}

/* ---- the schedule ---- */

bool pfw_session_drain(void)
{
	pfw_session_end_direct();
	return (pfw_writer_is_here(&pfw_session.writer) || pfw_session_wake()) &&
	       !pfw_session_flush(1000000000);
}

/* pfw_session_do(); in the writer's thread, and where `life` is held, just the call. */
static void do_anywhere(void (*work)(void *arg), void *arg)
{
	if (pfw_writer_is_here(&pfw_session.writer) || !pfw_session_do(work, arg))
		work(arg);
}

static void make_steps(void *steps)
{
	*(struct pfw_steps_chunk **)steps = pfw_writer_steps(&pfw_session.writer);
}

/* If all marks are in use, events come faster than they are written, and this thread waits as for a
 * full ring. */
void pfw_session_mark_step(uint64_t ticks, uint64_t step)
{
	struct pfw_steps_chunk *steps = pfw_session.writer.steps;
	struct pfw_step_mark *mark;
	uint64_t head;

	if (!steps)
		do_anywhere(make_steps, &steps);
	if (!steps)
		return;
	head = atomic_load_explicit(&steps->head, memory_order_relaxed);
	while (head - atomic_load_explicit(&steps->seen, memory_order_acquire) >=
	       PFW_STEP_MARKS - 1)
		if (!pfw_session_drain())
			break;
	/* The cell is another step's until head was stored: see step_of() in common/encode/encode.c. */
	atomic_thread_fence(memory_order_release);
	mark = &steps->mark[head & (PFW_STEP_MARKS - 1)];
	atomic_store_explicit(&mark->ticks, ticks, memory_order_relaxed);
	atomic_store_explicit(&mark->step, step, memory_order_relaxed);
	atomic_store_explicit(&steps->head, head + 1, memory_order_release);
}

void pfw_session_put(const struct pfw_compute *event)
{
	struct pfw_record record[4];
	unsigned slots = pfw_api_compute_record(record, PFW_ARRAY_LEN(record), event);

	if (!slots || pfw_writer_put(&pfw_session.writer, record, slots))
		pfw_ring_count_lost(PFW_LOST_WRITE, 1);
}

struct segment_call {
	struct pfw_segment *segment;
	int error;
};

static void write_segment(void *arg)
{
	struct segment_call *call = arg;

	call->error = pfw_writer_segment(&pfw_session.writer, call->segment);
}

int pfw_session_segment(struct pfw_segment *segment)
{
	struct segment_call call = { .segment = segment };

	/* The holder of `life` may be waiting until the writer's thread ends. */
	if (pfw_writer_is_here(&pfw_session.writer))
		return pfw_writer_segment(&pfw_session.writer, segment);
	pfw_cupti_flush(false);
	return pfw_session_do(write_segment, &call) ? call.error : -EBUSY;
}
