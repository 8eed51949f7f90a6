/* stepper.c - the schedule in force: counts the program's steps and switches the recording.
 *
 * The order of things inside pfw_step() is torch.profiler's: the step that was open ends, the number
 * is advanced, a finished cycle is written and its hook called, the recording is switched, the next
 * step opens.
 */
#define PFW_BUILDING
#include "stepper.h"

#include <string.h>

#include "clock.h"
#include "json.h"
#include "os.h"
#include "say.h"

struct pfw_stepper_host pfw_stepper_host;

static struct stepper {
	_Atomic int32_t holder; /* lock: the tid of who steps, 0 = nobody */
	bool counting;		/* a step is open */
	bool scheduled;		/* by plan.steps; else every step is recorded */
	bool recording;		/* probes are on */
	struct pfw_plan plan;
	uint64_t step;	   /* number of the open step */
	uint64_t begun_ns; /* when it began; before the first one, when the process did */
	uint64_t begun_ticks;
	uint64_t cycle; /* finished ones */
	uint64_t first; /* first recorded step of this cycle */
	bool in_cycle;	/* steps have been recorded since the last one ended */
	pfw_trace_ready *hook;
	void *user;
} stepper;

/* False where this very thread is stepping: its hook, or a handler that interrupted it. */
static bool enter(void)
{
	int32_t self = pfw_os_gettid(), nobody = 0;

	if (atomic_load(&stepper.holder) == self)
		return false;
	while (!atomic_compare_exchange_strong(&stepper.holder, &nobody, self)) {
		pfw_os_sleep_ns(100000);
		nobody = 0;
	}
	return true;
}

static void leave(void)
{
	atomic_store(&stepper.holder, 0);
}

static enum pfw_action action_of(uint64_t step)
{
	return stepper.scheduled ? pfw_schedule_action(&stepper.plan.steps, step)
				 : PFW_ACTION_RECORD;
}

static enum pfw_phase phase_of(enum pfw_action action)
{
	if (action == PFW_ACTION_WARMUP)
		return stepper.plan.steps.discard_warmup ? PFW_PHASE_NONE : PFW_PHASE_WARMUP;
	return action == PFW_ACTION_NONE ? PFW_PHASE_NONE : PFW_PHASE_ACTIVE;
}

/* ---- marks ---- */

/*
 * Note for the writer that a step begins.  Where marks are all still needed, events are coming faster
 * than they are written, and this thread waits like one whose ring is full.
 */
static void mark(enum pfw_phase phase)
{
	struct pfw_steps_chunk *steps = pfw_stepper_host.marks();
	struct pfw_step_mark *mark;
	uint64_t head;

	if (!steps)
		return;
	head = atomic_load_explicit(&steps->head, memory_order_relaxed);
	while (head - atomic_load_explicit(&steps->seen, memory_order_acquire) >=
	       PFW_STEP_MARKS - 1)
		if (!pfw_stepper_host.drain())
			break;
	/* The cell is another step's until head was stored: see find() in json_steps.c. */
	atomic_thread_fence(memory_order_release);
	mark = &steps->mark[head & (PFW_STEP_MARKS - 1)];
	atomic_store_explicit(&mark->ticks, stepper.begun_ticks, memory_order_relaxed);
	atomic_store_explicit(&mark->step, stepper.step << 2 | (uint64_t)phase,
			      memory_order_relaxed);
	atomic_store_explicit(&steps->head, head + 1, memory_order_release);
}

/* ---- steps and cycles ---- */

static void note_time(void)
{
	stepper.begun_ns = pfw_clock_ns(CLOCK_REALTIME);
	stepper.begun_ticks = pfw_clock_ticks();
}

static void open_step(void)
{
	enum pfw_action action = action_of(stepper.step);
	enum pfw_phase phase = phase_of(action);
	bool record = phase != PFW_PHASE_NONE, was = stepper.recording;

	/* The mark of a step that is recorded stands before its events, that of another one behind
	 * those of the step before. */
	if (was && !record)
		pfw_stepper_host.record(false);
	if (record || was)
		mark(phase);
	if (record && !was)
		pfw_stepper_host.record(true);
	stepper.recording = record;
	if (phase == PFW_PHASE_ACTIVE && !stepper.in_cycle) {
		stepper.in_cycle = true;
		stepper.first = stepper.step;
	}
	stepper.counting = true;
}

/* The line of the open step, named and marked as torch.profiler does. */
static void close_step(void)
{
	char name[40] = "ProfilerStep#";
	enum pfw_phase phase = phase_of(action_of(stepper.step));
	uint64_t now_ns = pfw_clock_ns(CLOCK_REALTIME);
	struct pfw_compute event = {
		.struct_bytes = sizeof(event),
		.fields = PFW_HAS(kind) | PFW_HAS(device) | PFW_HAS(device_index) | PFW_HAS(step),
		.name = name,
		.kind = PFW_KIND_STEP,
		.device_index = -1,
		.step = (int64_t)stepper.step,
		.phase = phase,
		.ts_ns = stepper.begun_ns,
		.dur_ns = now_ns > stepper.begun_ns ? now_ns - stepper.begun_ns : 0,
	};

	stepper.counting = false;
	if (phase == PFW_PHASE_NONE)
		return;
	pfw_json_u64(name + strlen(name), stepper.step)[0] = '\0';
	pfw_compute_event(&event);
}

/* A cycle is over: all of it to the file, then the hook.  `steps` of them were recorded. */
static void finish_cycle(uint64_t steps, bool call)
{
	struct pfw_segment segment = {
		.struct_bytes = sizeof(segment),
		.cycle = stepper.cycle++,
		.first_step = stepper.first,
		.steps = steps,
		.step = stepper.step,
	};

	stepper.in_cycle = false;
	if (!pfw_stepper_host.segment(&segment) && call && stepper.hook)
		stepper.hook(&segment, stepper.user);
}

/* The hook is part of no step, and where the next one is not recorded, neither is the hook. */
static void between_cycles(void)
{
	if (phase_of(action_of(stepper.step)) == PFW_PHASE_NONE) {
		pfw_stepper_host.record(false);
		stepper.recording = false;
	}
	mark(PFW_PHASE_NONE);
	finish_cycle(stepper.step - stepper.first, true);
	note_time();
}

static void start(void)
{
	stepper.step = stepper.cycle = 0;
	stepper.in_cycle = false;
	open_step();
}

/* The open step ends, and with it a cycle that is being recorded. */
static void cut_short(bool call)
{
	enum pfw_action action = action_of(stepper.step);

	if (!stepper.counting)
		return;
	close_step();
	if (stepper.in_cycle &&
	    (action == PFW_ACTION_RECORD || action == PFW_ACTION_RECORD_AND_SAVE))
		finish_cycle(stepper.step - stepper.first + 1, call);
}

void pfw_stepper_begin(const struct pfw_plan *plan)
{
	if (!enter())
		return;
	note_time();
	stepper.recording = true; /* as every process begins */
	stepper.plan = *plan;
	stepper.scheduled = plan->kind == PFW_PLAN_STEPS;
	if (stepper.scheduled && !plan->steps.warmup)
		pfw_say(PFW_SCHEDULE_NO_WARMUP);
	if (stepper.scheduled)
		start();
	leave();
}

void pfw_stepper_end(bool call)
{
	if (!stepper.counting || !enter())
		return;
	cut_short(call);
	leave();
}

void pfw_stepper_forked(void)
{
	atomic_store(&stepper.holder, 0);
	stepper.counting = stepper.in_cycle = false;
	note_time();
}

/* ---- pfw.h ---- */

int pfw_step(void)
{
	int error = errno;
	enum pfw_action before;

	if (!pfw_stepper_host.ready || !pfw_stepper_host.ready())
		return 0;
	if (!enter())
		return -EDEADLK;
	if (!stepper.counting)
		start(); /* nobody has begun step 0: it is what was done so far */
	before = action_of(stepper.step);
	close_step();
	note_time();
	stepper.step++;
	if (before == PFW_ACTION_RECORD_AND_SAVE)
		between_cycles();
	open_step();
	leave();
	errno = error;
	return 0;
}

int pfw_set_schedule(const struct pfw_schedule *schedule)
{
	int error = errno;

	if (schedule && !pfw_schedule_valid(schedule)) {
		pfw_say("pfw_set_schedule: " PFW_SCHEDULE_INVALID
			": active must be 1 or more, and no figure above 2147483647");
		return -EINVAL;
	}
	if (!pfw_stepper_host.ready || !pfw_stepper_host.ready())
		return 0;
	if (!enter())
		return -EDEADLK;
	if (schedule && !schedule->warmup)
		pfw_say(PFW_SCHEDULE_NO_WARMUP);
	cut_short(true);
	stepper.scheduled = schedule != NULL;
	if (schedule)
		stepper.plan = (struct pfw_plan){ .kind = PFW_PLAN_STEPS, .steps = *schedule };
	note_time();
	start();
	leave();
	errno = error;
	return 0;
}

int pfw_on_trace_ready(pfw_trace_ready *hook, void *user)
{
	if (!enter())
		return -EDEADLK;
	stepper.hook = hook;
	stepper.user = user;
	leave();
	return 0;
}
