/* test_schedule.c - the schedule against a second, step-by-step telling of it, and its text form. */
#include "common/settings/schedule.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

/*
 * The same as a walk: no division, no modulo.  A phase is entered with the number of steps it has
 * left; a phase of none is passed through.
 */
struct walk {
	const struct pfw_schedule *schedule;
	enum { SKIP, WAIT, WARMUP, ACTIVE, OVER } phase;
	uint64_t left, cycles;
};

static void enter(struct walk *walk, int phase)
{
	const struct pfw_schedule *s = walk->schedule;
	uint64_t steps[] = { s->skip_first, s->wait, s->warmup, s->active, UINT64_MAX };

	walk->phase = phase;
	walk->left = steps[phase];
	if (phase == WAIT && s->skip_first_wait && walk->cycles == 0)
		walk->left = 0;
	if (!walk->left)
		enter(walk, phase + 1);
}

static enum pfw_action walk_on(struct walk *walk)
{
	enum pfw_action action = walk->phase == WARMUP	 ? PFW_ACTION_WARMUP
				 : walk->phase != ACTIVE ? PFW_ACTION_NONE
				 : walk->left == 1	 ? PFW_ACTION_RECORD_AND_SAVE
							 : PFW_ACTION_RECORD;

	if (--walk->left)
		return action;
	if (walk->phase != ACTIVE)
		enter(walk, walk->phase + 1);
	else if (++walk->cycles == walk->schedule->repeat)
		enter(walk, OVER);
	else
		enter(walk, WAIT);
	return action;
}

static void every_small_schedule_is_as_walked(void **state)
{
	(void)state;
	for (unsigned n = 0; n < 2 * 4 * 4 * 4 * 4 * 4; n++) {
		struct pfw_schedule schedule = {
			.skip_first_wait = n & 1,
			.skip_first = n >> 1 & 3,
			.wait = n >> 3 & 3,
			.warmup = n >> 5 & 3,
			.active = (n >> 7 & 3) + 1,
			.repeat = n >> 9 & 3,
		};
		struct walk walk = { .schedule = &schedule };

		enter(&walk, SKIP);
		for (uint64_t step = 0; step < 50; step++)
			assert_int_equal(pfw_schedule_action(&schedule, step), walk_on(&walk));
	}
}

static void the_greatest_figures_do_not_overflow(void **state)
{
	uint64_t most = PFW_SCHEDULE_MAX;
	struct pfw_schedule schedule = {
		(uint32_t)most, (uint32_t)most, (uint32_t)most, (uint32_t)most, (uint32_t)most, 0, 0
	};

	(void)state;
	assert_int_equal(pfw_schedule_action(&schedule, 2 * most - 1), PFW_ACTION_NONE);
	assert_int_equal(pfw_schedule_action(&schedule, 2 * most), PFW_ACTION_WARMUP);
	assert_int_equal(pfw_schedule_action(&schedule, 3 * most), PFW_ACTION_RECORD);
	assert_int_equal(pfw_schedule_action(&schedule, 4 * most - 1), PFW_ACTION_RECORD_AND_SAVE);
	assert_int_equal(pfw_schedule_action(&schedule, most + 3 * most * most - 1),
			 PFW_ACTION_RECORD_AND_SAVE);
	assert_int_equal(pfw_schedule_action(&schedule, most + 3 * most * most), PFW_ACTION_NONE);
	schedule.wait++;
	assert_false(pfw_schedule_valid(&schedule));
	assert_int_equal(pfw_schedule_action(&schedule, 3 * most), PFW_ACTION_NONE);
	schedule = (struct pfw_schedule){ .wait = 1 };
	assert_false(pfw_schedule_valid(&schedule));
}

static void steps_are_read(void **state)
{
	struct pfw_plan plan;

	(void)state;
	assert_true(pfw_plan_parse(&plan, "wait=1,warmup=2,active=3,repeat=4"));
	assert_int_equal(plan.kind, PFW_PLAN_STEPS);
	assert_memory_equal(&plan.steps, &((struct pfw_schedule){ 0, 1, 2, 3, 4, 0, 0 }),
			    sizeof(plan.steps));
	assert_true(
		pfw_plan_parse(&plan, "discard_warmup=1,skip_first=7,skip_first_wait=1,active=1"));
	assert_memory_equal(&plan.steps, &((struct pfw_schedule){ 7, 0, 0, 1, 0, 1, 1 }),
			    sizeof(plan.steps));
}

static void times_are_read(void **state)
{
	struct pfw_plan plan;

	(void)state;
	assert_true(pfw_plan_parse(&plan, "delay=60s,duration=1500ms,every=10m"));
	assert_int_equal(plan.kind, PFW_PLAN_TIME);
	assert_int_equal(plan.delay_ns, 60000000000);
	assert_int_equal(plan.duration_ns, 1500000000);
	assert_int_equal(plan.every_ns, 600000000000);
	assert_true(pfw_plan_parse(&plan, "duration=2h"));
	assert_int_equal(plan.duration_ns, 7200000000000);
	assert_int_equal(plan.delay_ns, 0);
	assert_true(pfw_plan_parse(&plan, "duration=500us,delay=0.25ms,every=1.5h"));
	assert_int_equal(plan.duration_ns, 500000);
	assert_int_equal(plan.delay_ns, 250000);
	assert_int_equal(plan.every_ns, 5400000000000);
	assert_true(pfw_plan_parse(&plan, "range"));
	assert_int_equal(plan.kind, PFW_PLAN_RANGE);
}

static void what_is_no_plan_changes_nothing(void **state)
{
	static const char *const bad[] = { "",
					   "wait=1",
					   "active=0",
					   "active=1,",
					   ",active=1",
					   "active",
					   "active=",
					   "active=-1",
					   "active=1 ",
					   "active=2147483648",
					   "active=99999999999999999999",
					   "actives=1",
					   "active=1,skip_first_wait=2",
					   "active=1,duration=1s",
					   "duration=0s",
					   "duration=1",
					   "duration=1d",
					   "duration=1KiB",
					   "duration=10s,every=9s",
					   "duration=9999999999h",
					   "delay=1s",
					   "range,active=1",
					   "ranges" };
	struct pfw_plan plan, before;

	(void)state;
	memset(&plan, 0x5a, sizeof(plan));
	before = plan;
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		if (pfw_plan_parse(&plan, bad[i]))
			fail_msg("\"%s\" was taken for a plan", bad[i]);
		assert_memory_equal(&plan, &before, sizeof(plan));
	}
}

static void the_clock_s_phases(void **state)
{
	struct pfw_plan plan;
	uint64_t until;

	(void)state;
	assert_true(pfw_plan_parse(&plan, "delay=60s,duration=30s,every=10m"));
	assert_false(pfw_plan_records_at(&plan, 0, &until));
	assert_int_equal(until, 60000000000);
	for (uint64_t cycle = 0; cycle < 3; cycle++) {
		uint64_t begin = 60000000000 + cycle * 600000000000;

		assert_true(pfw_plan_records_at(&plan, begin, &until));
		assert_int_equal(until, begin + 30000000000);
		assert_true(pfw_plan_records_at(&plan, until - 1, &until));
		assert_false(pfw_plan_records_at(&plan, begin + 30000000000, &until));
		assert_int_equal(until, begin + 600000000000);
	}
	assert_true(pfw_plan_parse(&plan, "duration=30s"));
	assert_true(pfw_plan_records_at(&plan, 29999999999, &until));
	assert_false(pfw_plan_records_at(&plan, 30000000000, &until));
	assert_true(until == UINT64_MAX);
	assert_true(pfw_plan_parse(&plan, "duration=30s,every=30s"));
	assert_true(pfw_plan_records_at(&plan, 30000000000, &until));
	assert_true(until == UINT64_MAX);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_small_schedule_is_as_walked),
		cmocka_unit_test(the_greatest_figures_do_not_overflow),
		cmocka_unit_test(steps_are_read),
		cmocka_unit_test(times_are_read),
		cmocka_unit_test(what_is_no_plan_changes_nothing),
		cmocka_unit_test(the_clock_s_phases),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
