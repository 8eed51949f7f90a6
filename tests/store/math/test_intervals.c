/* test_intervals.c - unions of stretches of time, held against one bit for each instant. */
#include "store/math/intervals.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "random.h"

#define ROOM 2000

static void mark(bool *instant, int64_t begin, int64_t end)
{
	for (; begin < end; begin++)
		instant[begin] = true;
}

/* In order, none touching the next, and just these instants. */
static void judge(const struct pfw_interval *at, size_t count, const bool *instant)
{
	bool found[ROOM] = { false };

	for (size_t i = 0; i < count; i++) {
		assert_true(at[i].begin < at[i].end);
		assert_true(!i || at[i - 1].end < at[i].begin);
		mark(found, at[i].begin, at[i].end);
	}
	assert_memory_equal(found, instant, sizeof(found));
}

/* In about the order of time, or in none. */
static void fill(struct pfw_intervals *intervals, bool *instant, unsigned count, bool wild)
{
	int64_t now = (int64_t)any_below(ROOM / 2);

	for (unsigned i = 0; i < count; i++) {
		int64_t begin = wild ? (int64_t)any_below(ROOM) : now - (int64_t)any_below(10), end;

		begin = begin < 0 ? 0 : begin;
		end = begin + (int64_t)any_below(any_below(4) ? 6 : 60);
		end = end > ROOM ? ROOM : end;
		now += (int64_t)any_below(9);
		now = now < ROOM ? now : ROOM - 1;
		mark(instant, begin, end);
		assert_int_equal(pfw_intervals_add(intervals, begin, end), 0);
	}
}

static void lists_are_unions(void **unused)
{
	struct pfw_intervals intervals = { 0 };

	(void)unused;
	for (unsigned i = 0; i < 3000; i++) {
		bool instant[ROOM] = { false };

		fill(&intervals, instant, (unsigned)any_below(200), i % 2);
		pfw_intervals_settle(&intervals);
		judge(intervals.at, intervals.count, instant);
		pfw_intervals_clear(&intervals);
	}
	pfw_intervals_release(&intervals);
}

static void unions_of_many_lists(void **unused)
{
	struct pfw_intervals list = { 0 };

	(void)unused;
	for (unsigned i = 0; i < 1000; i++) {
		bool instant[ROOM] = { false };
		struct pfw_union set = { .runs = 0 };
		const struct pfw_interval *at;
		size_t count;

		for (uint64_t left = any_below(60); left; left--) {
			pfw_intervals_clear(&list);
			fill(&list, instant, (unsigned)any_below(40), any_below(2));
			pfw_intervals_settle(&list);
			assert_int_equal(pfw_union_add(&set, &list), 0);
		}
		assert_int_equal(pfw_union_settle(&set, &at, &count), 0);
		judge(at, count, instant);
		pfw_union_release(&set);
	}
	pfw_intervals_release(&list);
}

/* What was dropped stays so, and what comes then is not joined with it. */
static void dropping(void **unused)
{
	struct pfw_intervals list = { 0 };

	(void)unused;
	for (unsigned i = 0; i < 1000; i++) {
		bool instant[ROOM] = { false };
		struct pfw_union set = { .runs = 0 };
		const struct pfw_interval *at;
		int64_t gone = 0;
		size_t count;

		for (uint64_t left = any_below(30); left; left--) {
			pfw_intervals_clear(&list);
			fill(&list, instant, (unsigned)any_below(40), any_below(2));
			pfw_intervals_settle(&list);
			assert_int_equal(pfw_union_add(&set, &list), 0);
			assert_int_equal(pfw_union_settle(&set, &at, &count), 0);
			gone += (int64_t)any_below(ROOM / 30);
			pfw_union_drop(&set, gone);
		}
		assert_int_equal(pfw_union_settle(&set, &at, &count), 0);
		memset(instant, 0, (size_t)gone);
		/* Of what lies across that time the whole is kept, and late ones before it too. */
		pfw_intervals_clear(&list);
		for (size_t j = 0; j < count; j++)
			pfw_intervals_add(&list, at[j].begin < gone ? gone : at[j].begin,
					  at[j].end < gone ? gone : at[j].end);
		judge(list.at, list.count, instant);
		pfw_union_release(&set);
	}
	pfw_intervals_release(&list);
}

/* Far out of order, as one file behind the other: still about n log n. */
static void files_one_behind_the_other(void **unused)
{
	struct pfw_union set = { .runs = 0 };
	struct pfw_intervals list = { 0 };
	const struct pfw_interval *at;
	size_t count;

	(void)unused;
	for (int64_t file = 0; file < 8; file++) {
		for (int64_t block = 0; block < 100; block++) {
			pfw_intervals_clear(&list);
			for (int64_t i = 0; i < 500; i++) {
				int64_t begin = (block * 500 + i) * 100 + file * 10;

				assert_int_equal(pfw_intervals_add(&list, begin, begin + 5), 0);
			}
			assert_int_equal(pfw_union_add(&set, &list), 0);
			assert_true(set.runs < 20);
		}
	}
	assert_int_equal(pfw_union_settle(&set, &at, &count), 0);
	assert_int_equal(count, 8 * 100 * 500);
	for (size_t i = 1; i < count; i++)
		assert_true(at[i - 1].end < at[i].begin);
	pfw_union_release(&set);
	pfw_intervals_release(&list);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(lists_are_unions),
		cmocka_unit_test(unions_of_many_lists),
		cmocka_unit_test(dropping),
		cmocka_unit_test(files_one_behind_the_other),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
