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

#define TRY_AGAIN_NS 10000000ull
#define TOGETHER_TICKS 2000	/* some 0.7 µs; two readings take some 0.05 */
#define LEADER_NS 1000000000ull /* how often to see whether it is there at all */

struct pfw_stepper_host pfw_stepper_host;

/* What somebody outside has said, where the plan says otherwise. */
enum force { FORCE_NOTHING, FORCE_ON, FORCE_OFF };

static struct stepper {
	_Atomic int32_t holder; /* lock: the tid of who steps, 0 = nobody */
	bool counting;		/* a step is open */
	bool scheduled;		/* by plan.steps; else every step is recorded */
	bool recording;		/* probes are on */
	bool called;		/* the program calls pfw_step(): nothing else says what a step is */
	bool named;		/* the first step begins with a name: PFW_STEP */
	enum force force;
	struct pfw_plan plan;
	uint64_t plan_ns; /* since when it is in force (MONOTONIC) */
	struct pfw_control *own;
	const struct pfw_spool_header *leader; /* whom this process follows; NULL = nobody */
	uint64_t step;			       /* number of the open step */
	uint64_t begun_ns; /* when it began; before the first one, when the process did */
	uint64_t begun_ticks;
	uint64_t cycle; /* finished ones */
	uint64_t first; /* first recorded step of this cycle */
	bool in_cycle;	/* steps have been recorded since the last one ended; or a range is open */
	pfw_trace_ready *hook;
	void *user;
} stepper;

static bool try_enter(void)
{
	int32_t nobody = 0;

	return atomic_compare_exchange_strong(&stepper.holder, &nobody, pfw_os_gettid());
}

/* False where this very thread is stepping: its hook, or a handler that interrupted it. */
static bool enter(void)
{
	if (atomic_load(&stepper.holder) == pfw_os_gettid())
		return false;
	while (!try_enter())
		pfw_os_sleep_ns(100000);
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

/* ---- on and off ---- */

static void switch_to(bool record)
{
	if (record != stepper.recording)
		pfw_stepper_host.record(record);
	stepper.recording = record;
}

static uint64_t elapsed_ns(void)
{
	return pfw_clock_ns(CLOCK_MONOTONIC) - stepper.plan_ns;
}

/* Whether the plan, or whom this process follows, wants the recording. */
static bool planned(void)
{
	uint64_t until;

	if (stepper.leader)
		return !atomic_load(&stepper.leader->control.paused);
	if (stepper.plan.kind == PFW_PLAN_RANGE)
		return stepper.in_cycle;
	if (stepper.counting)
		return phase_of(action_of(stepper.step)) != PFW_PHASE_NONE;
	if (stepper.scheduled && stepper.named)
		return phase_of(action_of(0)) != PFW_PHASE_NONE;
	return stepper.plan.kind != PFW_PLAN_TIME ||
	       pfw_plan_records_at(&stepper.plan, elapsed_ns(), &until);
}

static bool wanted(void)
{
	return stepper.force == FORCE_NOTHING ? planned() : stepper.force == FORCE_ON;
}

/* What `pfw ctl status` shows. */
static void publish(void)
{
	struct pfw_control *control = stepper.own;

	atomic_store(&control->action, action_of(stepper.step));
	atomic_store(&control->step, stepper.step);
	atomic_store(&control->cycles, stepper.cycle);
	atomic_store(&control->stepping, stepper.counting);
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

/* By both clocks, of one moment: the step's line has the one, its events are told by the other.  Where
 * the thread is put aside between the two, once more. */
static void note_time(void)
{
	uint64_t before;

	for (int tries = 0; tries < 3; tries++) {
		before = pfw_clock_ticks();
		stepper.begun_ns = pfw_clock_ns(CLOCK_REALTIME);
		stepper.begun_ticks = pfw_clock_ticks();
		if (stepper.begun_ticks - before < TOGETHER_TICKS)
			break;
	}
}

static void open_step(void)
{
	enum pfw_phase phase = phase_of(action_of(stepper.step));
	bool was = stepper.recording, record;

	stepper.counting = true;
	record = wanted();
	/* The mark of a step that is recorded stands before its events, that of another one behind
	 * those of the step before. */
	if (!record)
		switch_to(false);
	if (was || record)
		mark(phase);
	switch_to(record);
	if (phase == PFW_PHASE_ACTIVE && !stepper.in_cycle && stepper.plan.kind != PFW_PLAN_RANGE) {
		stepper.in_cycle = true;
		stepper.first = stepper.step;
	}
	publish();
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
	if (phase == PFW_PHASE_NONE || !stepper.recording)
		return;
	pfw_json_u64(name + strlen(name), stepper.step)[0] = '\0';
	if (pfw_stepper_host.is_writer())
		pfw_stepper_host.put(&event);
	else
		pfw_compute_event(&event);
}

static struct pfw_segment segment_of(uint64_t steps)
{
	return (struct pfw_segment){
		.struct_bytes = sizeof(struct pfw_segment),
		.cycle = stepper.cycle,
		.first_step = stepper.first,
		.steps = steps,
		.step = stepper.step,
	};
}

/* A cycle is over: all of it to the file, then the hook.  `steps` of them were recorded. */
static void finish_cycle(uint64_t steps, bool call)
{
	struct pfw_segment segment = segment_of(steps);

	stepper.cycle++;
	stepper.in_cycle = false;
	if (!pfw_stepper_host.segment(&segment) && call && stepper.hook)
		stepper.hook(&segment, stepper.user);
}

/* The hook is part of no step, and where the next one is not recorded, neither is the hook. */
static void between_cycles(void)
{
	if (phase_of(action_of(stepper.step)) == PFW_PHASE_NONE && stepper.force != FORCE_ON)
		switch_to(false);
	mark(PFW_PHASE_NONE);
	finish_cycle(stepper.step - stepper.first, !pfw_stepper_host.is_writer());
	note_time();
}

/* Steps of the cycle or range so far, the open one among them; 0: none is open. */
static uint64_t open_steps(void)
{
	return stepper.counting ? stepper.step - stepper.first + 1 : 0;
}

/* The events of the step that is open are its own from here on. */
static void begin_range(void)
{
	stepper.leader = NULL;
	stepper.in_cycle = true;
	stepper.first = stepper.step;
	if (stepper.counting) {
		stepper.begun_ticks = pfw_clock_ticks();
		mark(phase_of(action_of(stepper.step)));
	}
	switch_to(wanted());
}

/* The hook is in no range. */
static void end_range(uint64_t steps, bool call)
{
	stepper.in_cycle = false;
	switch_to(wanted());
	finish_cycle(steps, call);
}

static void start(void)
{
	stepper.step = 0;
	stepper.leader = NULL;
	/* A range may be open already. */
	if (stepper.plan.kind != PFW_PLAN_RANGE) {
		stepper.cycle = 0;
		stepper.in_cycle = false;
	}
	open_step();
}

/* Whether a cycle or a range is being recorded. */
static bool in_cycle(void)
{
	enum pfw_action action = action_of(stepper.step);

	return stepper.in_cycle && (stepper.plan.kind == PFW_PLAN_RANGE ||
				    (stepper.counting && (action == PFW_ACTION_RECORD ||
							  action == PFW_ACTION_RECORD_AND_SAVE)));
}

static bool in_period(void)
{
	return stepper.plan.kind == PFW_PLAN_TIME && !stepper.leader && stepper.recording;
}

/* The open step ends, and with it a cycle or a range that is being recorded. */
static void cut_short(bool call)
{
	uint64_t steps = open_steps();
	bool cycle = in_cycle();

	if (stepper.counting)
		close_step();
	if (cycle && stepper.plan.kind == PFW_PLAN_RANGE)
		end_range(steps, call);
	else if (cycle)
		finish_cycle(steps, call);
}

void pfw_stepper_page(struct pfw_control *own)
{
	stepper.own = own;
}

void pfw_stepper_begin(const struct pfw_plan *plan, const struct pfw_spool_header *leader,
		       bool named)
{
	if (!enter())
		return;
	note_time();
	stepper.leader = leader;
	stepper.named = named;
	stepper.recording = true; /* as every process begins */
	stepper.plan = *plan;
	stepper.plan_ns = pfw_clock_ns(CLOCK_MONOTONIC);
	stepper.scheduled = plan->kind == PFW_PLAN_STEPS;
	if (stepper.scheduled && !plan->steps.warmup && !leader)
		pfw_say(PFW_SCHEDULE_NO_WARMUP);
	if (stepper.scheduled && !leader && !named)
		start();
	else
		switch_to(wanted());
	leave();
}

void pfw_stepper_end(bool call)
{
	/* A thread whose hook is at work has its cycle written; an exit must not wait for it. */
	if (!try_enter())
		return;
	cut_short(call);
	if (in_period())
		finish_cycle(0, false);
	leave();
}

void pfw_stepper_exec(void)
{
	struct pfw_segment segment;

	if (!try_enter())
		return;
	segment = segment_of(in_period() ? 0 : open_steps());
	if (in_cycle() || in_period())
		pfw_stepper_host.segment(&segment);
	leave();
}

void pfw_stepper_forked(const struct pfw_spool_header *leader)
{
	atomic_store(&stepper.holder, 0);
	stepper.counting = stepper.in_cycle = false;
	stepper.leader = leader;
	note_time();
}

/* The open step ends and the next one begins. */
static void step(void)
{
	enum pfw_action before;

	if (!stepper.counting)
		start(); /* nobody has begun step 0: it is what was done so far */
	before = action_of(stepper.step);
	close_step();
	note_time();
	stepper.step++;
	if (before == PFW_ACTION_RECORD_AND_SAVE)
		between_cycles();
	open_step();
}

/* ---- without the program ---- */

static int force(enum force force)
{
	stepper.force = FORCE_NOTHING;
	if (wanted() != (force == FORCE_ON))
		stepper.force = force;
	switch_to(force == FORCE_ON);
	return 0;
}

static int carry_out(enum pfw_wish wish)
{
	switch (wish) {
	case PFW_WISH_START:
		return force(FORCE_ON);
	case PFW_WISH_STOP:
		return force(FORCE_OFF);
	case PFW_WISH_STEP:
		step();
		return 0;
	case PFW_WISH_FLUSH:
		return pfw_stepper_host.drain() ? 0 : -EIO;
	default:
		return -EINVAL;
	}
}

/* It has ended, or was killed: from now on the plan is this process's own. */
static bool leader_has_gone(void)
{
	return atomic_load(&stepper.leader->state) != PFW_SPOOL_LIVE ||
	       pfw_os_kill(stepper.leader->pid, 0) == -ESRCH;
}

static void follow(struct pfw_watch *watch)
{
	const struct pfw_control *control = &stepper.leader->control;

	watch->seen = atomic_load(&control->paused);
	watch->word = (const uint32_t *)&control->paused;
	if (leader_has_gone()) {
		stepper.leader = NULL;
		watch->word = NULL;
		stepper.plan_ns = pfw_clock_ns(CLOCK_MONOTONIC);
		if (stepper.scheduled && !stepper.named)
			start();
	}
	switch_to(wanted());
}

/* A period of the clock's plan is a segment, too; it has no steps. */
static void keep_time(uint64_t *nap_ns)
{
	uint64_t elapsed = elapsed_ns(), until;
	bool record = pfw_plan_records_at(&stepper.plan, elapsed, &until), was = stepper.recording;

	*nap_ns = until == UINT64_MAX ? 0 : until - elapsed;
	switch_to(wanted());
	if (was && !record && !stepper.recording)
		finish_cycle(0, false);
}

void pfw_stepper_tick(struct pfw_watch *watch, uint64_t *nap_ns)
{
	enum pfw_wish wish;

	*watch = (struct pfw_watch){ .word = NULL };
	*nap_ns = TRY_AGAIN_NS;
	if (!stepper.own || !try_enter())
		return; /* the program is stepping just now */
	*nap_ns = stepper.leader && !stepper.recording ? LEADER_NS : 0;
	wish = pfw_control_wish(stepper.own);
	if (wish != PFW_WISH_NONE)
		pfw_control_answer(stepper.own, carry_out(wish));
	if (stepper.leader)
		follow(watch);
	else if (stepper.plan.kind == PFW_PLAN_TIME && !stepper.counting)
		keep_time(nap_ns);
	leave();
}

/* ---- pfw.h ---- */

int pfw_step(void)
{
	int error = errno;

	if (!pfw_stepper_host.ready || !pfw_stepper_host.ready())
		return 0;
	if (!enter())
		return -EDEADLK;
	stepper.called = true;
	step();
	leave();
	errno = error;
	return 0;
}

void pfw_stepper_named(bool automatic)
{
	int error = errno;

	if (!pfw_stepper_host.ready || !pfw_stepper_host.ready() || !enter())
		return;
	if (automatic && stepper.called) {
		leave();
		return;
	}
	if (stepper.counting) {
		step();
	} else {
		note_time();
		start();
	}
	leave();
	errno = error;
}

void pfw_stepper_range(bool inside)
{
	int error = errno;

	if (!pfw_stepper_host.ready || !pfw_stepper_host.ready() || !enter())
		return;
	if (stepper.plan.kind == PFW_PLAN_RANGE && inside != stepper.in_cycle) {
		if (inside)
			begin_range();
		else
			end_range(open_steps(), true);
	}
	leave();
	errno = error;
}

bool pfw_stepper_ranged(void)
{
	return stepper.plan.kind == PFW_PLAN_RANGE && (stepper.cycle || stepper.in_cycle);
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
	stepper.plan = (struct pfw_plan){ .kind = PFW_PLAN_ALWAYS };
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
