/* Numbers with units: each unit in each place, and what is none. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "common/base/units.h"

#define LENGTH(array) (sizeof(array) / sizeof((array)[0]))

static const struct {
	const char *name;
	uint64_t one; /* ns or bytes */
	enum pfw_units kind;
} units[] = {
	{ "ns", 1, PFW_UNITS_TIME },
	{ "us", 1000, PFW_UNITS_TIME },
	{ "\xc2\xb5s", 1000, PFW_UNITS_TIME },
	{ "\xce\xbcs", 1000, PFW_UNITS_TIME },
	{ "ms", 1000000, PFW_UNITS_TIME },
	{ "s", 1000000000, PFW_UNITS_TIME },
	{ "m", 60000000000, PFW_UNITS_TIME },
	{ "h", 3600000000000, PFW_UNITS_TIME },
	{ "B", 1, PFW_UNITS_SIZE },
	{ "kB", 1000, PFW_UNITS_SIZE },
	{ "KB", 1000, PFW_UNITS_SIZE },
	{ "MB", 1000000, PFW_UNITS_SIZE },
	{ "GB", 1000000000, PFW_UNITS_SIZE },
	{ "TB", 1000000000000, PFW_UNITS_SIZE },
	{ "K", 1 << 10, PFW_UNITS_SIZE },
	{ "KiB", 1 << 10, PFW_UNITS_SIZE },
	{ "kib", 1 << 10, PFW_UNITS_SIZE },
	{ "M", 1 << 20, PFW_UNITS_SIZE },
	{ "MiB", 1 << 20, PFW_UNITS_SIZE },
	{ "G", 1 << 30, PFW_UNITS_SIZE },
	{ "GiB", 1 << 30, PFW_UNITS_SIZE },
	{ "T", 1ull << 40, PFW_UNITS_SIZE },
	{ "TiB", 1ull << 40, PFW_UNITS_SIZE },
};

static void each_unit_where_it_is_wanted(void **state)
{
	(void)state;
	for (size_t i = 0; i < LENGTH(units); i++) {
		char text[32] = "25";
		uint64_t ns = 1, size = 1, time = units[i].kind == PFW_UNITS_TIME;
		int64_t thousandths;
		bool unit;

		strcat(text, units[i].name);
		/* Where one kind is wanted, m and M are the same. */
		assert_int_equal(pfw_units_ns(text, strlen(text), &ns),
				 time || !strcmp(units[i].name, "M"));
		assert_int_equal(pfw_units_size(text, strlen(text), &size),
				 !time || !strcmp(units[i].name, "m"));
		assert_int_equal(time ? ns : size, 25 * units[i].one);
		assert_int_equal(pfw_units_read(text, strlen(text), PFW_UNITS_TIME | PFW_UNITS_SIZE,
						&thousandths, &unit),
				 strlen(text));
		assert_true(unit);
		assert_int_equal(thousandths, 25 * units[i].one * (time ? 1 : 1000));
	}
}

static void a_letter_s_case_counts_only_where_it_must(void **state)
{
	uint64_t value;

	(void)state;
	assert_true(pfw_units_ns("3M", 2, &value) && value == 180000000000);
	assert_true(pfw_units_ns("3MS", 3, &value) && value == 3000000);
	assert_true(pfw_units_size("3m", 2, &value) && value == 3 << 20);
	assert_true(pfw_units_size("3mb", 3, &value) && value == 3000000);
}

static void fractions_are_exact(void **state)
{
	uint64_t value;

	(void)state;
	assert_true(pfw_units_ns("1.5h", 4, &value) && value == 5400000000000);
	assert_true(pfw_units_ns("0.001us", 7, &value) && value == 1);
	assert_false(pfw_units_ns("0.0001us", 8, &value));
	assert_true(pfw_units_size("0.5KiB", 6, &value) && value == 512);
	assert_false(pfw_units_size("0.1KiB", 6, &value));
	assert_false(pfw_units_size("0.5", 3, &value));
}

static void limits(void **state)
{
	static const char *const bad[] = { "",
					   "x",
					   "-1",
					   "1.",
					   ".5",
					   " 1",
					   "1 ",
					   "1e3",
					   "0x1",
					   "1dB",
					   "1KiBs",
					   "1_000",
					   "1.2.3",
					   "K",
					   "18446744073709551616",
					   "16777216TiB",
					   "00000000000000000000001" };
	uint64_t value;
	int64_t thousandths;
	bool unit;

	(void)state;
	for (size_t i = 0; i < LENGTH(bad); i++)
		if (pfw_units_size(bad[i], strlen(bad[i]), &value))
			fail_msg("\"%s\" is %llu", bad[i], (unsigned long long)value);
	assert_true(pfw_units_size("18446744073709551615", 20, &value) && value == UINT64_MAX);
	assert_true(pfw_units_size("16777215TiB", 11, &value));
	assert_true(pfw_units_ns("18446744073709551615ns", 22, &value) && value == UINT64_MAX);
	assert_false(pfw_units_ns("18446744073709551616ns", 22, &value));
	assert_false(pfw_units_ns("5", 1, &value));
	assert_int_equal(pfw_units_read("9223372036854775.807", 20, PFW_UNITS_TIME, &thousandths,
					&unit),
			 20);
	assert_true(thousandths == INT64_MAX && !unit);
	assert_int_equal(
		pfw_units_read("9223372036854775.808", 20, PFW_UNITS_TIME, &thousandths, &unit), 0);
	/* A unit that is not wanted is left. */
	assert_int_equal(pfw_units_read("5KiB", 4, PFW_UNITS_TIME, &thousandths, &unit), 1);
	assert_false(unit);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(each_unit_where_it_is_wanted),
		cmocka_unit_test(a_letter_s_case_counts_only_where_it_must),
		cmocka_unit_test(fractions_are_exact),
		cmocka_unit_test(limits),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
