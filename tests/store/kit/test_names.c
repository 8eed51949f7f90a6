/* test_names.c - texts numbered in order of their first use. */
#include "store/kit/text_ids.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#define MANY 3000

static int64_t number_of(struct pfw_text_ids *names, int64_t of, const char *text)
{
	return pfw_text_ids_of(names, of, text, strlen(text));
}

static void test_order(void **state)
{
	struct pfw_text_ids names = { 0 };

	(void)state;
	assert_int_equal(number_of(&names, 0, "b"), 0);
	assert_int_equal(number_of(&names, 0, ""), 1);
	assert_int_equal(number_of(&names, 0, "a"), 2);
	assert_int_equal(number_of(&names, 0, "b"), 0);
	assert_int_equal(number_of(&names, 1, "b"), 3);
	assert_int_equal(number_of(&names, -1, "b"), 4);
	assert_int_equal(number_of(&names, 0, ""), 1);
	assert_int_equal(names.count, 5);
	assert_string_equal(names.name[3].text, "b");
	assert_int_equal(names.name[3].of, 1);
	assert_int_equal(names.name[1].bytes, 0);
	pfw_text_ids_release(&names);
}

static void test_many(void **state)
{
	struct pfw_text_ids names = { 0 };
	char text[64];

	(void)state;
	for (unsigned round = 0; round < 2; round++) {
		for (int turn = 0; turn < 2; turn++) {
			for (int i = 0; i < MANY; i++) {
				snprintf(text, sizeof(text), "/data/%d/of-that-kind/%d", i % 7, i);
				assert_int_equal(number_of(&names, i % 3, text), i);
			}
		}
		assert_int_equal(names.count, MANY);
		pfw_text_ids_clear(&names);
		assert_int_equal(names.count, 0);
	}
	pfw_text_ids_release(&names);
}

/* Of a block's names some are known, in any order. */
static void test_map(void **state)
{
	struct pfw_text_ids all = { 0 }, block = { 0 };
	uint32_t number[MANY];
	char text[64];

	(void)state;
	for (int i = MANY; i-- > 0;) {
		snprintf(text, sizeof(text), "/data/of-that-kind/%d", i);
		assert_int_equal(number_of(&block, 0, text), MANY - 1 - i);
		if (i % 2)
			assert_int_equal(number_of(&all, 5, text), MANY / 2 - 1 - i / 2);
	}
	assert_int_equal(pfw_text_ids_map(&all, 5, &block, number), 0);
	assert_int_equal(all.count, MANY);
	for (uint32_t i = 0; i < MANY; i++) {
		assert_int_equal(all.name[number[i]].of, 5);
		assert_string_equal(all.name[number[i]].text, block.name[i].text);
		assert_int_equal(number_of(&all, 5, block.name[i].text), number[i]);
	}
	assert_int_equal(number[0], 0);
	assert_int_equal(number_of(&all, 4, block.name[0].text), MANY);
	pfw_text_ids_release(&all);
	pfw_text_ids_release(&block);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_order),
		cmocka_unit_test(test_many),
		cmocka_unit_test(test_map),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
