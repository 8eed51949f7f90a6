/* test_sorter.c - records come out in order, whatever went to the file. */
#include "store/sys/sorter.h"

#include <errno.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <sys/resource.h>

#include <cmocka.h>

struct record {
	uint64_t key, payload[3];
};

static int by_key(const void *a, const void *b)
{
	const struct record *x = a, *y = b;

	return x->key < y->key ? -1 : x->key > y->key;
}

static struct pfw_sorter empty(size_t budget)
{
	struct pfw_sorter sorter = PFW_SORTER_EMPTY;

	sorter.size = sizeof(struct record);
	sorter.budget = budget;
	sorter.compare = by_key;
	return sorter;
}

/* Add so many in some order, and take them. */
static void check(struct pfw_sorter *sorter, uint64_t count, uint64_t step)
{
	const struct record *record;

	for (uint64_t i = 0, key = 0; i < count; i++, key = (key + step) % count)
		assert_int_equal(pfw_sorter_add(sorter, &(struct record){ key, { key, ~key, 7 } }),
				 0);
	assert_int_equal(pfw_sorter_begin(sorter), 0);
	for (uint64_t i = 0; i < count; i++) {
		record = pfw_sorter_next(sorter);
		assert_non_null(record);
		assert_int_equal(record->key, i);
		assert_int_equal(record->payload[1], ~i);
	}
	assert_null(pfw_sorter_next(sorter));
	assert_null(pfw_sorter_next(sorter));
	assert_int_equal(sorter->error, 0);
}

static void test_in_memory(void **state)
{
	static const uint64_t counts[] = { 0, 1, 2, 255, 256, 257, 5003 };

	(void)state;
	for (size_t i = 0; i < sizeof(counts) / sizeof(counts[0]); i++) {
		struct pfw_sorter sorter = empty(1u << 20);

		check(&sorter, counts[i], 1);
		assert_int_equal(sorter.runs, 0);
		assert_int_equal(sorter.fd, -1);
		pfw_sorter_release(&sorter);
	}
}

/* Steps without a divisor of the count: forwards, backwards, mixed up. */
static void test_in_a_file(void **state)
{
	static const uint64_t counts[] = { 257, 512, 513, 10007, 65536 };

	(void)state;
	for (size_t i = 0; i < sizeof(counts) / sizeof(counts[0]); i++) {
		const uint64_t steps[] = { 1, counts[i] - 1, 4099 };

		for (size_t k = 0; k < 3; k++) {
			struct pfw_sorter sorter = empty(256 * sizeof(struct record));

			check(&sorter, counts[i], steps[k]);
			assert_int_equal(sorter.runs, (counts[i] + 255) / 256);
			assert_int_equal(sorter.room, 256);
			pfw_sorter_release(&sorter);
		}
	}
}

static void test_equal_records_all_come(void **state)
{
	struct pfw_sorter sorter = empty(256 * sizeof(struct record));
	uint64_t sums[3] = { 0 };
	const struct record *record;
	size_t count = 0;

	(void)state;
	for (uint64_t i = 0; i < 3000; i++)
		assert_int_equal(pfw_sorter_add(&sorter, &(struct record){ i % 3, { i } }), 0);
	assert_int_equal(pfw_sorter_begin(&sorter), 0);
	for (; (record = pfw_sorter_next(&sorter)); count++) {
		assert_int_equal(record->key, count / 1000);
		sums[record->key] += record->payload[0];
	}
	assert_int_equal(count, 3000);
	for (unsigned i = 0; i < 3; i++)
		assert_int_equal(sums[i], 3 * 499500 + 1000 * i);
	pfw_sorter_release(&sorter);
}

/* More runs than records in memory cannot be merged, and that is said. */
static void test_too_many(void **state)
{
	struct pfw_sorter sorter = empty(0);
	int error = 0;
	uint64_t i = 0;

	(void)state;
	while (!error && i < 100000)
		error = pfw_sorter_add(&sorter, &(struct record){ i++, { 0 } });
	assert_int_equal(error, -EFBIG);
	assert_int_equal(i, 256 * 257 + 1);
	pfw_sorter_release(&sorter);
}

/* A file that cannot grow. */
static void test_no_room(void **state)
{
	struct pfw_sorter sorter = empty(0);
	struct rlimit before, none;
	int error = 0;

	(void)state;
	signal(SIGXFSZ, SIG_IGN);
	assert_int_equal(getrlimit(RLIMIT_FSIZE, &before), 0);
	none = before;
	none.rlim_cur = 20000;
	assert_int_equal(setrlimit(RLIMIT_FSIZE, &none), 0);
	for (uint64_t i = 0; i < 2000 && !error; i++)
		error = pfw_sorter_add(&sorter, &(struct record){ i, { 0 } });
	assert_int_equal(setrlimit(RLIMIT_FSIZE, &before), 0);
	assert_int_equal(error, -EFBIG);
	pfw_sorter_release(&sorter);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_in_memory),
		cmocka_unit_test(test_in_a_file),
		cmocka_unit_test(test_equal_records_all_come),
		cmocka_unit_test(test_too_many),
		cmocka_unit_test(test_no_room),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
