/* test_varint.c - integers of an index's blobs: every length, at every distance from the end. */
#include "store/kit/varint.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "random.h"

/* Read `bytes` from memory that ends there, so that a sanitizer sees what reads further. */
static bool get(const uint8_t *from, size_t bytes, uint64_t *value, size_t *used)
{
	uint8_t *copy = malloc(bytes + 1);
	const uint8_t *at = copy + 1;
	bool got;

	assert_non_null(copy);
	memcpy(copy + 1, from, bytes);
	got = pfw_varint_get(&at, copy + 1 + bytes, value);
	*used = (size_t)(at - copy - 1);
	free(copy);
	return got;
}

/* One value before all kinds of bytes, and cut. */
static void check(uint64_t value)
{
	uint8_t data[PFW_VARINT_MAX + 10];
	size_t bytes = (size_t)(pfw_varint_put(data, value) - data), used;
	uint64_t read;

	for (size_t i = bytes; i < sizeof(data); i++)
		data[i] = (uint8_t)any();
	for (size_t i = bytes; i < sizeof(data); i++) {
		assert_true(get(data, i, &read, &used));
		assert_int_equal(read, value);
		assert_int_equal(used, bytes);
	}
	for (size_t i = 0; i < bytes; i++)
		assert_false(get(data, i, &read, &used));
}

static void all_lengths_are_read(void **unused)
{
	(void)unused;
	for (unsigned bit = 0; bit < 64; bit++) {
		uint64_t power = UINT64_C(1) << bit;

		check(power);
		check(power - 1);
		check(power + 1);
		check(power | any_below(power));
	}
	check(UINT64_MAX);
}

static void more_than_64_bits_are_refused(void **unused)
{
	uint8_t data[16];
	uint64_t value;
	size_t used;

	(void)unused;
	memset(data, 0xff, sizeof(data));
	assert_false(get(data, sizeof(data), &value, &used));
	data[9] = 2; /* the tenth byte has one bit */
	assert_false(get(data, sizeof(data), &value, &used));
	data[9] = 1;
	assert_true(get(data, sizeof(data), &value, &used));
	assert_int_equal(value, UINT64_MAX);
}

static void a_sequence_stays_bad(void **unused)
{
	const uint8_t data[] = { 1,    0x80, 1,	   0xff, 0xff, 0xff, 0xff,
				 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 7 };
	struct pfw_varints varints = pfw_varints(data, sizeof(data));

	(void)unused;
	assert_int_equal(pfw_varints_next(&varints), 1);
	assert_int_equal(pfw_varints_next(&varints), 128);
	assert_false(varints.bad);
	assert_int_equal(pfw_varints_next(&varints), 0);
	assert_true(varints.bad);
	assert_int_equal(pfw_varints_next(&varints), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(all_lengths_are_read),
		cmocka_unit_test(more_than_64_bits_are_refused),
		cmocka_unit_test(a_sequence_stays_bad),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
