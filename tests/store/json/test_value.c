/* store/json/value: numbers as doubles, whatever the locale. */
#include <locale.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "store/json/value.h"

static void check(const char *text)
{
	struct pfw_slice number = { .at = text, .bytes = strlen(text) };
	double wanted = strtod(text, NULL), got = pfw_slice_f64(&number);

	if (memcmp(&wanted, &got, sizeof(got)) != 0)
		fail_msg("%s: %.17g instead of %.17g", text, got, wanted);
}

static void test_every_form(void **state)
{
	static const char *const texts[] = {
		"0",
		"-0",
		"-0.0",
		"1",
		"0.1",
		"-12.5",
		"123456789.123456789",
		"1e22",
		"1e23",
		"1e-5",
		"1E+3",
		"1e400",
		"-1e400",
		"1e-400",
		"9007199254740993",
		"0.30000000000000004",
		"2.2250738585072014e-308",
		"123456789012345678901234567890",
		"0.000000000000001",
		"0.0000000000000001",
		/* longer than what is copied to the stack */
		"0.10000000000000000000000000000000000000000000000000000000000000000000000000001",
	};

	(void)state;
	for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++)
		check(texts[i]);
}

static void test_random_numbers(void **state)
{
	uint64_t seed = 1;
	char text[64];

	(void)state;
	for (unsigned i = 0; i < 200000; i++) {
		double number;

		seed = seed * 6364136223846793005u + 1442695040888963407u;
		snprintf(text, sizeof(text), "%.*f", (int)(seed >> 60), (double)(seed >> 20) / 1e9);
		check(text);
		memcpy(&number, &seed, sizeof(number));
		snprintf(text, sizeof(text), "%.17g", number);
		if (text[strspn(text, "-")] <= '9') /* neither inf nor nan */
			check(text);
	}
}

/* The number is followed by others, and a program may have a comma in place of the point. */
static void test_inside_a_text_in_any_locale(void **state)
{
	struct pfw_slice number = { .at = "0.12345678901234567895,6", .bytes = 21 };

	(void)state;
	setlocale(LC_ALL, "de_DE.UTF-8"); /* or "C", where there is none */
	assert_true(pfw_slice_f64(&number) == 0x1.f9add3746f65fp-4);
	setlocale(LC_ALL, "C");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_every_form),
		cmocka_unit_test(test_random_numbers),
		cmocka_unit_test(test_inside_a_text_in_any_locale),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
