/* test_clock.c - the clock's map, with clocks that the test sets. */
#include "common/format/clock.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cmocka.h>

#define ONE (1ull << PFW_CLOCK_SHIFT)

/* What clock_gettime() below answers with. */
static struct {
	bool on;
	uint64_t mono_ns;  /* at the next reading */
	uint64_t step_ns;  /* each reading takes this long */
	uint64_t noise_ns; /* and one in four up to this much more: the processor was away */
	uint64_t per_tick; /* MONOTONIC goes on with the counter besides: ns a tick << 32 */
	uint64_t since;	   /* the counter when that began */
	uint64_t away;	   /* up to so many ticks pass before and after a reading */
	int64_t real_offset_ns;
} fake;

static uint64_t rnd(void)
{
	static uint64_t state = 88172645463325252u;

	state ^= state << 13;
	state ^= state >> 7;
	state ^= state << 17;
	return state * 0x2545f4914f6cdd1du;
}

static void pass(uint64_t ticks)
{
	uint64_t begin = pfw_clock_ticks();

	while (pfw_clock_ticks() - begin < ticks)
		;
}

/* MONOTONIC at a tick, besides what readings take. */
static uint64_t going_on(uint64_t ticks)
{
	return (uint64_t)((unsigned __int128)(ticks - fake.since) * fake.per_tick >>
			  PFW_CLOCK_SHIFT);
}

/* Stands before libc's, also for clock.c. */
int clock_gettime(clockid_t clock, struct timespec *ts)
{
	uint64_t ns;

	if (!fake.on)
		return (int)syscall(SYS_clock_gettime, clock, ts);
	fake.mono_ns +=
		fake.step_ns + (fake.noise_ns && rnd() % 4 == 0 ? rnd() % fake.noise_ns : 0);
	ns = fake.mono_ns;
	if (fake.away)
		pass(rnd() % fake.away);
	if (fake.per_tick)
		ns += going_on(pfw_clock_ticks());
	if (fake.away)
		pass(rnd() % fake.away);
	if (clock == CLOCK_REALTIME)
		ns += (uint64_t)fake.real_offset_ns;
	ts->tv_sec = (time_t)(ns / 1000000000);
	ts->tv_nsec = (long)(ns % 1000000000);
	return 0;
}

static int setup(void **state)
{
	(void)state;
	memset(&fake, 0, sizeof(fake));
	pfw_clock_is_counter = false;
	return 0;
}

static void fake_monotonic(void)
{
	fake.on = true;
	fake.mono_ns = 5000000000;
	fake.step_ns = 30;
	fake.real_offset_ns = 1795230000000000000;
}

/* ---- the real clocks ---- */

static void test_tick_source(void **state)
{
	char name[64] = "";
	FILE *file = fopen("/sys/devices/system/clocksource/clocksource0/current_clocksource", "r");

	(void)state;
	if (file) {
		assert_true(fgets(name, sizeof(name), file) != NULL);
		fclose(file);
	}
	pfw_clock_init();
	assert_true(pfw_clock_is_counter == !strcmp(name, PFW_CLOCK_SOURCE "\n"));
	assert_string_equal(pfw_clock_name(),
			    pfw_clock_is_counter ? PFW_CLOCK_COUNTER : "monotonic");
	pfw_clock_is_counter = false;
	assert_string_equal(pfw_clock_name(), "monotonic");
}

/* Whatever the ticks are, what they are turned into is the time of day. */
static void test_real_time(void **state)
{
	struct pfw_clock_map map;
	uint64_t from, to;

	(void)state;
	pfw_clock_init();
	pfw_clock_map_init(&map);
	for (int i = 0; i < 100; i++) {
		uint64_t before = pfw_clock_ns(CLOCK_REALTIME);
		uint64_t ticks = pfw_clock_ticks();
		uint64_t after = pfw_clock_ns(CLOCK_REALTIME);
		uint64_t ns;

		pfw_clock_map_update(&map, &from, &to);
		ns = pfw_clock_map_epoch_ns(&map, ticks);
		/* A tenth of a second: this is about being right at all, on any machine. */
		assert_true(ns + 100000000 > before && ns < after + 100000000);
	}
}

/* ---- the map by itself ---- */

static void test_lines(void **state)
{
	/* first at tick 1000, pairs at 2000 and 3000; half a ns a tick, then two, then one. */
	struct pfw_clock_map map = { .first = { 1000, 10000, 0, ONE / 2 },
				     .count = 2,
				     .real_offset_ns = 7000000 };
	static const struct {
		uint64_t ticks, ns;
	} cases[] = { { 1000, 7010000 },
		      { 1500, 7010250 },
		      { 1999, 7010499 },
		      { 2000, 7010500 },
		      { 2500, 7011500 },
		      { 3000, 7012500 },
		      { 4000, 7013500 },
		      { 998, 7009999 },
		      { 3000 + (1ull << 40), 7012500 + (1ull << 40) },
		      { UINT64_MAX, INT64_MAX } };

	(void)state;
	map.pair[0] = (struct pfw_clock_pair){ 2000, 10500, 0, ONE * 2 };
	map.pair[1] = (struct pfw_clock_pair){ 3000, 12500, 0, ONE };
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
		assert_true(pfw_clock_map_epoch_ns(&map, cases[i].ticks) == cases[i].ns);
	map.first.ticks = 1ull << 62; /* no clock gave this: as far back as there is time */
	map.first.mult = ONE;
	map.pair[0].ticks = map.pair[1].ticks = map.first.ticks + 1;
	assert_true(pfw_clock_map_epoch_ns(&map, 0) == 0);
	map.first.mult = UINT64_MAX;
	map.pair[1].mult = UINT64_MAX;
	assert_true(pfw_clock_map_epoch_ns(&map, 0) == 0);
	assert_true(pfw_clock_map_epoch_ns(&map, UINT64_MAX) == INT64_MAX);
}

static void test_restore(void **state)
{
	const struct pfw_clock_pair first = { 1000, 500, 40, ONE },
				    last = { 3000, 4500, 50, ONE * 3 };
	struct pfw_clock_map map;

	(void)state;
	pfw_clock_map_restore(&map, &first, &last);
	assert_true(pfw_clock_map_epoch_ns(&map, 1000) == 550);
	assert_true(pfw_clock_map_epoch_ns(&map, 2000) == 2550); /* between the two */
	assert_true(pfw_clock_map_epoch_ns(&map, 3000) == 4550);
	assert_true(pfw_clock_map_epoch_ns(&map, 3001) == 4553); /* as the last one says */
	pfw_clock_map_restore(&map, &last, &last);		 /* killed before its second pair */
	assert_true(pfw_clock_map_epoch_ns(&map, 2999) == 4547);
	pfw_clock_map_restore(&map, &last, &first); /* made up: any answer, no division by zero */
	assert_true(pfw_clock_map_epoch_ns(&map, 1000) == 550 - 10);
}

/* ---- steps ---- */

/* The processor taken away between any two readings is no step of the clock. */
static void test_noise_is_no_step(void **state)
{
	struct pfw_clock_map map;
	uint64_t from, to;

	(void)state;
	fake_monotonic();
	fake.noise_ns = 20000000;
	pfw_clock_map_init(&map);
	for (int i = 0; i < 20000; i++)
		assert_false(pfw_clock_map_update(&map, &from, &to));
	assert_true(llabs(map.real_offset_ns - fake.real_offset_ns) <= 60);
}

static void test_steps(void **state)
{
	static const int64_t steps[] = { 1000000, -1000000,	 50000,
					 -50000,  3600000000000, -7200000000000 };
	struct pfw_clock_map map;
	uint64_t from, to, ticks;

	(void)state;
	fake_monotonic();
	pfw_clock_map_init(&map);
	for (size_t i = 0; i < sizeof(steps) / sizeof(steps[0]); i++) {
		uint64_t before;

		assert_false(pfw_clock_map_update(&map, &from, &to));
		ticks = pfw_clock_ticks();
		before = pfw_clock_map_epoch_ns(&map, ticks);
		assert_true(llabs((int64_t)(before - ticks) - fake.real_offset_ns) <= 60);
		fake.real_offset_ns += steps[i];
		assert_true(pfw_clock_map_update(&map, &from, &to));
		assert_true(llabs((int64_t)(to - from) - steps[i]) <= 120);
		assert_true(llabs((int64_t)(to - fake.mono_ns) - fake.real_offset_ns) <= 60);
		/* What was before the step moves with it: a span across it keeps its length. */
		assert_true(pfw_clock_map_epoch_ns(&map, ticks) - before == to - from);
		assert_true(map.pair[map.count - 1].real_offset_ns == map.real_offset_ns);
		assert_false(pfw_clock_map_update(&map, &from, &to));
	}
	/* Below the threshold: kept until it adds up. */
	fake.real_offset_ns += 6000;
	assert_false(pfw_clock_map_update(&map, &from, &to));
	fake.real_offset_ns += 6000;
	assert_true(pfw_clock_map_update(&map, &from, &to));
	assert_true(llabs((int64_t)(to - from) - 12000) <= 120);
}

/* Ticks are ns: whatever the history, they are turned into themselves. */
static void test_monotonic_is_exact(void **state)
{
	struct pfw_clock_map map;
	uint64_t from, to, start;

	(void)state;
	fake_monotonic();
	start = fake.mono_ns;
	pfw_clock_map_init(&map);
	for (int i = 0; i < 1000; i++) {
		uint64_t ticks;

		fake.mono_ns += rnd() >> (30 + rnd() % 30);
		pfw_clock_map_update(&map, &from, &to);
		ticks = start + rnd() % (fake.mono_ns - start);
		/* A slope is rounded down: a ns at most. */
		assert_true(pfw_clock_map_epoch_ns(&map, ticks) - (uint64_t)map.real_offset_ns -
				    ticks + 1 <=
			    1);
	}
}

/* ---- history ---- */

static void fake_counter(void)
{
	pfw_clock_is_counter = true;
	fake_monotonic();
	fake.since = pfw_clock_ticks();
	fake.per_tick = ONE / 3;
}

static void assert_monotone(const struct pfw_clock_map *map, uint64_t start)
{
	uint64_t end = pfw_clock_ticks() * 2 - start, step = (end - start) / 2000 + 1, last = 0;

	for (uint64_t ticks = start - step * 10; ticks < end; ticks += step) {
		uint64_t ns = pfw_clock_map_epoch_ns(map, ticks);

		assert_true(ns >= last);
		last = ns;
	}
	for (uint32_t i = 0; i < map->count; i++) {
		const struct pfw_clock_pair *pair = &map->pair[i];
		uint64_t at = pfw_clock_map_epoch_ns(map, pair->ticks);

		assert_true(at == pair->mono_ns + (uint64_t)map->real_offset_ns);
		assert_true(pfw_clock_map_epoch_ns(map, pair->ticks - 1) <= at);
		assert_true(pfw_clock_map_epoch_ns(map, pair->ticks + 1) >= at);
	}
}

/* Time that runs unevenly against the ticks still never runs backwards. */
static void test_monotone(void **state)
{
	struct pfw_clock_map map;
	uint64_t from, to, start;

	(void)state;
	fake_counter();
	start = fake.since;
	fake.noise_ns = 5000000;
	pfw_clock_map_init(&map);
	for (int i = 0; i < 500; i++) {
		pfw_clock_map_update(&map, &from, &to);
		assert_monotone(&map, start);
	}
	assert_int_equal(map.count, PFW_CLOCK_HISTORY);
}

/* A pass has calls that end after its pair was read.  The next pair may put them earlier by no more
 * than the noise of two readings, however long the pass takes: else the next calls would begin
 * before these end. */
static void test_next_pair_moves_little_back(void **state)
{
	struct pfw_clock_map map;
	uint64_t from, to, ticks, before, noise_ns;

	(void)state;
	/* Where the kernel does not use the counter, neither does pfw_clock_init() below. */
	pfw_clock_init();
	if (!pfw_clock_is_counter)
		skip();
	fake_counter();
	fake.step_ns = 0;
	fake.away = 2000;
	noise_ns = going_on(fake.since + fake.away);
	for (int i = 0; i < 300; i++) {
		pfw_clock_init();
		pfw_clock_is_counter = true;
		pfw_clock_map_init(&map);
		pass(100000);
		pfw_clock_map_update(&map, &from, &to);
		pass(1000000);
		ticks = pfw_clock_ticks();
		before = pfw_clock_map_epoch_ns(&map, ticks);
		pfw_clock_map_update(&map, &from, &to);
		assert_true(before <= pfw_clock_map_epoch_ns(&map, ticks) + noise_ns);
	}
}

/* 32 pairs reach back to the start of a long run, and are dense where it matters: near its end. */
static void test_history(void **state)
{
	struct pfw_clock_map map;
	uint64_t from, to, start;

	(void)state;
	fake_counter();
	fake.step_ns = 100000; /* 20 readings each time: 2 ms between pairs */
	pfw_clock_map_init(&map);
	start = map.pair[0].mono_ns;
	for (int i = 0; i < 50000; i++)
		pfw_clock_map_update(&map, &from, &to);
	assert_int_equal(map.count, PFW_CLOCK_HISTORY);
	assert_true(map.pair[0].mono_ns == start);
	for (uint32_t i = 1; i < map.count; i++) {
		uint64_t age = map.pair[map.count - 1].mono_ns - map.pair[i - 1].mono_ns;

		assert_true(map.pair[i].ticks > map.pair[i - 1].ticks);
		/* A span is found between two pairs no further apart than this part of its age. */
		assert_true(map.pair[i].mono_ns - map.pair[i - 1].mono_ns < age * 2 / 3 + 10000000);
	}
}

/* The machine was moved: the processor counts from somewhere else. */
static void test_ticks_anew(void **state)
{
	struct pfw_clock_map map;
	uint64_t from, to;

	(void)state;
	fake_counter();
	pfw_clock_map_init(&map);
	for (int i = 0; i < 10; i++)
		pfw_clock_map_update(&map, &from, &to);
	for (uint32_t i = 0; i < map.count; i++)
		map.pair[i].ticks += 1ull << 62; /* what was before was ahead */
	map.first.ticks += 1ull << 62;
	pfw_clock_map_update(&map, &from, &to);
	assert_int_equal(map.count, 1);
	assert_monotone(&map, fake.since);
}

#define TEST(name) cmocka_unit_test_setup(name, setup)

int main(void)
{
	static const struct CMUnitTest tests[] = {
		TEST(test_tick_source),
		TEST(test_real_time),
		TEST(test_lines),
		TEST(test_restore),
		TEST(test_noise_is_no_step),
		TEST(test_steps),
		TEST(test_monotonic_is_exact),
		TEST(test_monotone),
		TEST(test_next_pair_moves_little_back),
		TEST(test_history),
		TEST(test_ticks_anew),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
