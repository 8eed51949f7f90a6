/* test_keep.c - PFW_KEEP and PFW_DUMP_ON as text, and the median of the newest steps by sorting. */
#include "common/settings/keep.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "random.h"

static void keep_takes_a_time_a_size_or_both(void **state)
{
	static const struct {
		const char *text;
		uint64_t bytes, ns;
	} good[] = {
		{ "30s", PFW_KEEP_USUAL_BYTES, 30000000000 },
		{ "64MiB", 64 << 20, 0 },
		{ "30s,64MiB", 64 << 20, 30000000000 },
		{ "1GiB,100ms", 1 << 30, 100000000 },
		{ "1048576", 1 << 20, 0 },
	};
	static const char *const bad[] = { "",		"5",	"30",	    "99ms",
					   "1023KiB",	"30s,", ",30s",	    "30s,5s",
					   "1MiB,2MiB", "x",	"30s 1MiB", "-30s" };
	struct pfw_keep keep;

	(void)state;
	for (size_t i = 0; i < sizeof(good) / sizeof(*good); i++) {
		assert_true(pfw_keep_parse(&keep, good[i].text));
		/* It grows where no size is given. */
		assert_int_equal(keep.grows, good[i].bytes == PFW_KEEP_USUAL_BYTES);
		assert_int_equal(keep.bytes, good[i].bytes);
		assert_int_equal(keep.ns, good[i].ns);
	}
	keep = (struct pfw_keep){ 1, 2, false };
	for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++)
		assert_false(pfw_keep_parse(&keep, bad[i]));
	assert_true(keep.bytes == 1 && keep.ns == 2);
}

static void dump_on_takes_conditions_and_a_number(void **state)
{
	static const char *const bad[] = { "",		"max=3",    "step>1x",
					   "step>2",	"step>x",   "call>0s",
					   "call>5",	"step>2x,", "call>1s,max=0",
					   "step>2x,y", "call>1s;", "max=3,max" };
	struct pfw_dump_on on;

	(void)state;
	assert_true(pfw_dump_on_parse(&on, "step>2.5x"));
	assert_true(on.step_thousandths == 2500 && !on.call_ns && on.max == 10);
	assert_true(pfw_dump_on_parse(&on, "max=3,call>10ms,step>2x"));
	assert_true(on.step_thousandths == 2000 && on.call_ns == 10000000 && on.max == 3);
	for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++)
		assert_false(pfw_dump_on_parse(&on, bad[i]));
	assert_int_equal(on.max, 3);
}

static int by_size(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return (x > y) - (x < y);
}

static void the_median_is_of_the_newest_steps(void **state)
{
	static struct pfw_step_times times;
	static uint64_t all[2000];

	(void)state;
	for (unsigned n = 0; n < 2000; n++) {
		unsigned count = n < PFW_STEPS_MEDIAN ? n : PFW_STEPS_MEDIAN;
		uint64_t sorted[PFW_STEPS_MEDIAN], median = 0;

		memcpy(sorted, all + n - count, count * sizeof(*sorted));
		qsort(sorted, count, sizeof(*sorted), by_size);
		if (count >= PFW_STEPS_LEAST)
			median = sorted[count / 2];
		all[n] = any_below(50);
		assert_int_equal(pfw_step_times_add(&times, all[n]), median);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(keep_takes_a_time_a_size_or_both),
		cmocka_unit_test(dump_on_takes_conditions_and_a_number),
		cmocka_unit_test(the_median_is_of_the_newest_steps),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
