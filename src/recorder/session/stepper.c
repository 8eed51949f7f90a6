/* recorder/session/stepper.c - runs the schedule: counts steps and switches the recording.
 *
 * pfw_step() keeps torch.profiler's order: the open step ends, the number is advanced, a finished
 * cycle is written and its hook called, the recording is switched, the next step opens.
 */
#define PFW_BUILDING
#include "recorder/session/stepper.h"

#include <string.h>

#include "common/base/os.h"
#include "common/encode/text.h"
#include "common/format/clock.h"
#include "recorder/guest/say.h"
#include "recorder/marks/span.h"
#include "recorder/session/internal.h"

#define TRY_AGAIN_NS 10000000ull
#define TOGETHER_TICKS 2000	/* about 0.7 µs; two readings take about 0.05 */
#define LEADER_NS 1000000000ull /* how often to check that the leader is alive */

/* A request from outside that overrides the plan. */
enum force { FORCE_NOTHING, FORCE_ON, FORCE_OFF };

static struct stepper {
	_Atomic int32_t holder; /* lock: tid of the stepping thread, 0 = none */
	_Atomic bool begun;	/* pfw_stepper_begin() has run */
	bool counting;		/* a step is open */
	bool between;		/* none is: `step` is the number of the next one */
	bool scheduled;		/* by plan.steps; else every step is recorded */
	bool recording;		/* probes are on */
	bool called;		/* pfw_step() was called: automatic steps are ignored */
	bool named;		/* PFW_STEP: the first step begins with a name */
	bool asking;		/* `asked` is not in force yet */
	enum force force;
	struct pfw_plan plan;
	struct pfw_plan asked; /* of pfw_set_schedule() */
	uint64_t plan_ns;      /* when it came in force (MONOTONIC) */
	struct pfw_control *own;
	const struct pfw_spool_header *leader; /* the process that this one follows, or NULL */
	uint64_t step;			       /* number of the open step */
	uint64_t begun_ns; /* when it began; before step 0, when the process did */
	uint64_t begun_ticks;
	uint64_t cycle; /* finished cycles */
	uint64_t first; /* first recorded step of this cycle */
	bool in_cycle;	/* it has recorded steps; or a range is open */
	pfw_trace_ready *hook;
	void *user;
} stepper;

static bool try_enter(void)
{
	int32_t nobody = 0;

	return atomic_compare_exchange_strong(&stepper.holder, &nobody, pfw_os_gettid());
}

/* False: this thread is stepping already (its hook, or an interrupting handler). */
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
		pfw_session_record(record);
	stepper.recording = record;
}

static uint64_t elapsed_ns(void)
{
	return pfw_clock_ns(CLOCK_MONOTONIC) - stepper.plan_ns;
}

/* Whether the plan, or the leader, wants the recording. */
static bool planned(void)
{
	uint64_t until;

	if (stepper.leader)
		return !atomic_load(&stepper.leader->control.paused);
	if (stepper.plan.kind == PFW_PLAN_RANGE)
		return stepper.in_cycle;
	if (stepper.counting || stepper.between)
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

/* The state that `pfw ctl status` shows. */
static void publish(void)
{
	struct pfw_control *control = stepper.own;

	atomic_store(&control->action, action_of(stepper.step));
	atomic_store(&control->step, stepper.step);
	atomic_store(&control->cycles, stepper.cycle);
	atomic_store(&control->stepping, stepper.counting);
}

/* Note for the writer that a step begins. */
static void mark_at(uint64_t ticks, enum pfw_phase phase)
{
	pfw_session_mark_step(ticks, stepper.step << 2 | (uint64_t)phase);
}

static void mark(enum pfw_phase phase)
{
	mark_at(stepper.begun_ticks, phase);
}

/* ---- steps and cycles ---- */

/* Read both clocks at one moment: the step's line has the first, its events are assigned by the
 * second.  Repeat if the thread was preempted in between. */
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
	stepper.between = false;
	record = wanted();
	/* The mark of a recorded step comes before its events; the mark of an unrecorded step comes
	 * after the events of the step before. */
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

/* The line of the open step, which ends at now_ns, with torch.profiler's name and phase.  Static,
 * as the event has 500 bytes: the stepper's lock is held. */
static void close_step(uint64_t now_ns)
{
	static char name[40];
	static struct pfw_compute event;
	enum pfw_phase phase = phase_of(action_of(stepper.step));

	memcpy(name, "ProfilerStep#", sizeof("ProfilerStep#"));
	event = (struct pfw_compute){
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
	pfw_append_u64(name + strlen(name), stepper.step)[0] = '\0';
	if (pfw_writer_is_here(&pfw_session.writer))
		pfw_session_put(&event);
	else
		pfw_compute_event(&event);
	pfw_session_step_took(stepper.step, event.dur_ns);
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

/* The open step is none. */
static void take_back(void)
{
	stepper.counting = false;
	stepper.between = true;
	if (stepper.plan.kind != PFW_PLAN_RANGE && stepper.first == stepper.step)
		stepper.in_cycle = false;
	mark(PFW_PHASE_NONE); /* from its begin on: of two marks of one time the later one counts */
	publish();
}

/*
 * The end of a step that is open at the end of the trace.  A step that a name began ends with the
 * last span or operator, because the program's own end does not belong to the step; 0: there was
 * none.
 */
static uint64_t last_step_ends(void)
{
	uint64_t last = atomic_load_explicit(&pfw_span_last, memory_order_relaxed);
	uint64_t now_ns = pfw_clock_ns(CLOCK_REALTIME), now = pfw_clock_ticks();
	unsigned __int128 part;

	if (!stepper.named || stepper.called)
		return now_ns;
	if (last <= stepper.begun_ticks || now_ns <= stepper.begun_ns)
		return 0;
	/* A bit later than the event, whose times are computed more finely. */
	last = last + TOGETHER_TICKS < now ? last + TOGETHER_TICKS : now;
	part = (unsigned __int128)(now_ns - stepper.begun_ns) * (last - stepper.begun_ticks);
	return stepper.begun_ns + (uint64_t)(part / (now - stepper.begun_ticks));
}

/* A cycle of `steps` recorded steps is over: write all of it, then call the hook. */
static void finish_cycle(uint64_t steps, bool call)
{
	struct pfw_segment segment = segment_of(steps);

	stepper.cycle++;
	stepper.in_cycle = false;
	if (!pfw_session_segment(&segment) && call && stepper.hook)
		stepper.hook(&segment, stepper.user);
}

/* The hook belongs to no step.  It is recorded only if the next step is. */
static void between_cycles(void)
{
	if (phase_of(action_of(stepper.step)) == PFW_PHASE_NONE && stepper.force != FORCE_ON)
		switch_to(false);
	mark(PFW_PHASE_NONE);
	finish_cycle(stepper.step - stepper.first, !pfw_writer_is_here(&pfw_session.writer));
	note_time();
}

/* Steps of the cycle or range so far, with the open one; 0: no steps are counted. */
static uint64_t open_steps(void)
{
	if (stepper.between)
		return stepper.step - stepper.first;
	return stepper.counting ? stepper.step - stepper.first + 1 : 0;
}

/* Events of the open step belong to the range from here on. */
static void begin_range(void)
{
	stepper.leader = NULL;
	stepper.in_cycle = true;
	stepper.first = stepper.step;
	if (stepper.counting)
		mark_at(pfw_clock_ticks(), phase_of(action_of(stepper.step)));
	switch_to(wanted());
}

/* The hook belongs to no range. */
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

static bool in_cycle(void)
{
	enum pfw_action action = action_of(stepper.step);

	return stepper.in_cycle && (stepper.plan.kind == PFW_PLAN_RANGE || stepper.between ||
				    (stepper.counting && (action == PFW_ACTION_RECORD ||
							  action == PFW_ACTION_RECORD_AND_SAVE)));
}

static bool in_period(void)
{
	return stepper.plan.kind == PFW_PLAN_TIME && !stepper.leader && stepper.recording;
}

/* End the open step, and a cycle or a range that is being recorded. */
static void cut_short(bool call)
{
	uint64_t ends_ns = stepper.counting ? last_step_ends() : 0, steps;
	bool cycle;

	if (stepper.counting && !ends_ns)
		take_back();
	steps = open_steps();
	cycle = in_cycle();
	if (stepper.counting)
		close_step(ends_ns);
	if (cycle && stepper.plan.kind == PFW_PLAN_RANGE)
		end_range(steps, call);
	else if (cycle)
		finish_cycle(steps, call);
}

bool pfw_stepper_unnamed(void)
{
	return stepper.named && !stepper.counting && !stepper.between && !stepper.called &&
	       atomic_load_explicit(&pfw_span_last, memory_order_relaxed);
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
	atomic_store(&stepper.begun, true);
	leave();
}

void pfw_stepper_end(bool call)
{
	/* A thread in its hook has written its cycle already; an exit must not wait for it. */
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
		pfw_session_segment(&segment);
	leave();
}

void pfw_stepper_forked(const struct pfw_spool_header *leader)
{
	atomic_store(&stepper.holder, 0);
	stepper.counting = stepper.between = stepper.in_cycle = false;
	stepper.leader = leader;
	note_time();
}

/* The first step, or the next one where none is open. */
static void begin_step(void)
{
	if (stepper.between)
		open_step();
	else
		start();
}

static void step(void)
{
	enum pfw_action before;

	if (!stepper.counting)
		begin_step(); /* step 0 is everything done so far */
	before = action_of(stepper.step);
	close_step(pfw_clock_ns(CLOCK_REALTIME));
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

static int carry_out(enum pfw_request wish)
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
		return pfw_session_drain() ? 0 : -EIO;
	case PFW_WISH_DUMP:
		return pfw_session_dump("ctl", PFW_CONTROL_DUMP_NS);
	default:
		return -EINVAL;
	}
}

/* If the leader has ended or was killed, this process uses the plan itself. */
static bool leader_has_gone(void)
{
	return atomic_load(&stepper.leader->state) != PFW_SPOOL_LIVE ||
	       pfw_syscall6(SYS_kill, stepper.leader->pid, 0, 0, 0, 0, 0) == -ESRCH;
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

/* A period of a TIME plan is a segment without steps. */
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
	enum pfw_request wish;

	*watch = (struct pfw_watch){ .word = NULL };
	*nap_ns = TRY_AGAIN_NS;
	if (!stepper.own || !try_enter())
		return; /* the program is stepping at the moment */
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

/* Whether this process records, or may after a pause. */
static bool is_ready(void)
{
	return atomic_load(&stepper.begun) && pfw_session_is_on() && !pfw_session.stopped;
}

int pfw_step(void)
{
	int error = errno;

	if (!is_ready())
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

	if (!is_ready() || !enter())
		return;
	if (!automatic || !stepper.called) {
		if (stepper.counting) {
			step();
		} else {
			note_time();
			begin_step();
		}
	}
	leave();
	errno = error;
}

void pfw_stepper_none(void)
{
	int error = errno;

	if (!is_ready() || !enter())
		return;
	if (stepper.counting && !stepper.called)
		take_back();
	leave();
	errno = error;
}

void pfw_stepper_range(bool inside)
{
	int error = errno;

	if (!is_ready() || !enter())
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

/* Put the program's schedule in force, or keep it until this process records. */
static void take_asked(void)
{
	if (!stepper.asking || !is_ready())
		return;
	stepper.asking = false;
	cut_short(true);
	stepper.plan = stepper.asked;
	stepper.scheduled = stepper.plan.kind == PFW_PLAN_STEPS;
	if (stepper.scheduled && !stepper.plan.steps.warmup)
		pfw_say(PFW_SCHEDULE_NO_WARMUP);
	note_time();
	start();
}

int pfw_set_schedule(const struct pfw_schedule *schedule)
{
	int error = errno;

	if (schedule && !pfw_schedule_valid(schedule)) {
		pfw_say(schedule->active ? "pfw_set_schedule: " PFW_SCHEDULE_INVALID
					   ": a figure is negative or above 2147483647"
					 : "pfw_set_schedule: " PFW_SCHEDULE_INVALID
					   ": active=0: it must be 1 or more");
		return -EINVAL;
	}
	if (!enter())
		return -EDEADLK;
	stepper.asked = (struct pfw_plan){ .kind = PFW_PLAN_ALWAYS };
	if (schedule)
		stepper.asked = (struct pfw_plan){ .kind = PFW_PLAN_STEPS, .steps = *schedule };
	stepper.asking = true;
	take_asked();
	leave();
	errno = error;
	return 0;
}

void pfw_stepper_started(void)
{
	if (!enter())
		return;
	take_asked();
	leave();
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
