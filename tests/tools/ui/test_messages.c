/* test_messages.c - figures for people. */
#include "ui/cli.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "random.h"

static void expect(int64_t ns)
{
	double size = fabs((double)ns), unit = size >= 1e9 ? 1e9 : size >= 1e6 ? 1e6 : 1e3;
	char text[64];

	snprintf(text, sizeof(text), "%.3f%s", (double)ns / unit,
		 unit == 1e9   ? "s"
		 : unit == 1e6 ? "ms"
			       : "us");
	assert_string_equal(cli_time(ns), text);
	assert_int_equal(cli_time_bytes(ns), strlen(text));
}

static void times_are_those_of_printf(void **unused)
{
	static const int64_t some[] = { 0,	  1,	     999,	1000,	   999999,
					1000000,  999999499, 999999500, 1000500,   1001500,
					-1,	  -1500,     INT64_MAX, INT64_MIN, 1000499999999,
					1ll << 53 };

	(void)unused;
	for (size_t i = 0; i < sizeof(some) / sizeof(some[0]); i++)
		expect(some[i]);
	for (unsigned i = 0; i < 200000; i++) {
		int64_t ns = (int64_t)any_below(1ull << (1 + any_below(62)));

		/* Every other one is a tie. */
		if (i % 2)
			ns = ns / 1000 * 1000 + 500;
		if (i % 4 == 1)
			ns = ns / 1000000 * 1000000 + 500000;
		expect(i % 8 ? ns : -ns);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(times_are_those_of_printf) };

	return cmocka_run_group_tests(tests, NULL, NULL);
}
