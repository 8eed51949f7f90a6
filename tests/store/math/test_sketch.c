/* test_sketch.c - quantiles against exact ones, adding up, the written form. */
#include "store/math/sketch.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "random.h"

#define MOST 20000

/* Durations of very different kinds. */
static int64_t duration(unsigned kind)
{
	double octave = (double)(any() >> 11) * 0x1p-53;

	switch (kind) {
	case 0:
		return (int64_t)(any() % 1000);
	case 1: /* each size as likely as any other */
		return (int64_t)exp2(octave * 62.9);
	case 2:
		return 400 + (int64_t)(any() % 40);
	case 3: /* two humps and a far tail */
		return any() % 10 ? 350 + (int64_t)(any() % 100)
				  : (int64_t)(1e9 * exp2(octave * 9));
	default:
		return any() % 3 ? 0 : INT64_MAX - (int64_t)(any() % 1000);
	}
}

static int by_size(const void *a, const void *b)
{
	int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;

	return x < y ? -1 : x > y;
}

/* All quantiles of `count` sorted durations are those of the sketch: of few exactly, of more to 1 %
 * and its rounding. */
static void expect_quantiles(const struct pfw_sketch *sketch, const int64_t *exact, size_t count)
{
	assert_int_equal(sketch->total, count);
	for (int i = 0; i <= 1000; i++) {
		double quantile = i / 1000.;
		int64_t is = pfw_sketch_quantile(sketch, quantile);
		size_t rank = (count * (size_t)i + 999) / 1000;
		int64_t should = exact[rank ? rank - 1 : 0];

		if (count <= PFW_SKETCH_FEW && is != should)
			fail_msg("quantile %g of %zu: %" PRId64 ", and it is %" PRId64, quantile,
				 count, is, should);
		if (fabs((double)is - (double)should) > .01 * (double)should + .5)
			fail_msg("quantile %g of %zu: %" PRId64 ", and it is %" PRId64, quantile,
				 count, is, should);
	}
}

static void quantiles_are_right_to_a_hundredth(void **unused)
{
	static int64_t exact[MOST];
	static const size_t counts[] = { 1, 2, 3, 10, 255, 256, 257, 1000, MOST };

	(void)unused;
	for (unsigned kind = 0; kind < 5; kind++) {
		for (size_t i = 0; i < sizeof(counts) / sizeof(counts[0]); i++) {
			struct pfw_sketch sketch = { 0 };

			for (size_t k = 0; k < counts[i]; k++) {
				exact[k] = duration(kind);
				assert_int_equal(pfw_sketch_add(&sketch, exact[k]), 0);
			}
			qsort(exact, counts[i], sizeof(*exact), by_size);
			expect_quantiles(&sketch, exact, counts[i]);
			pfw_sketch_release(&sketch);
		}
	}
}

static void buckets_rise_and_stay_below_their_number(void **unused)
{
	uint32_t last = 0;

	(void)unused;
	assert_int_equal(pfw_sketch_bucket(INT64_MIN), 0);
	assert_int_equal(pfw_sketch_bucket(0), 0);
	for (int64_t ns = 1; ns < 1 << 20; ns++) {
		assert_in_range(pfw_sketch_bucket(ns), last, PFW_SKETCH_BUCKETS - 1);
		last = pfw_sketch_bucket(ns);
	}
	/* Both sides of each power of two, and of the steps of what is cut off of large ones. */
	for (unsigned octave = 20; octave < 63; octave++) {
		for (int64_t part = 0; part < 4096; part++) {
			int64_t ns = (INT64_C(1) << octave) + (part << (octave - 12));

			assert_true(pfw_sketch_bucket(ns - 1) <= pfw_sketch_bucket(ns));
			assert_true(pfw_sketch_bucket(ns) <= pfw_sketch_bucket(ns + 1));
		}
	}
	assert_int_equal(pfw_sketch_bucket(INT64_MAX), PFW_SKETCH_BUCKETS - 1);
}

/* The widest bucket: no two durations in it differ by more than twice 1 %. */
static void a_bucket_is_narrow(void **unused)
{
	(void)unused;
	for (int i = 0; i < 200000; i++) {
		int64_t ns = (int64_t)exp2((double)(any() >> 11) * 0x1p-53 * 61);
		int64_t more = ns + (int64_t)((double)ns * .0203) + 1;

		assert_true(pfw_sketch_bucket(more) > pfw_sketch_bucket(ns));
	}
}

static bool same(const struct pfw_sketch *a, const struct pfw_sketch *b)
{
	static uint8_t first[PFW_SKETCH_BYTES_MAX], second[PFW_SKETCH_BYTES_MAX];
	size_t bytes = pfw_sketch_encode(a, first);

	return a->total == b->total && pfw_sketch_encode(b, second) == bytes &&
	       memcmp(first, second, bytes) == 0;
}

static void parts_add_up_to_the_whole(void **unused)
{
	(void)unused;
	for (int round = 0; round < 100; round++) {
		struct pfw_sketch whole = { 0 }, part[4] = { 0 }, sum = { 0 };

		for (int i = 0; i < 300; i++) {
			int64_t ns = duration((unsigned)(any() % 5));

			pfw_sketch_add(&whole, ns);
			pfw_sketch_add(&part[any() % 4], ns);
		}
		/* In any order; one of them twice emptied and used again. */
		pfw_sketch_clear(&sum);
		for (int i = 3; i >= 0; i--)
			assert_int_equal(pfw_sketch_merge(&sum, &part[i], true), 0);
		assert_true(same(&whole, &sum));
		pfw_sketch_clear(&sum);
		for (int i = 0; i < 4; i++)
			assert_int_equal(pfw_sketch_merge(&sum, &part[i], true), 0);
		assert_true(same(&whole, &sum));
		for (int i = 0; i < 4; i++)
			pfw_sketch_release(&part[i]);
		pfw_sketch_release(&whole);
		pfw_sketch_release(&sum);
	}
}

static void what_may_not_widen_loses_no_count(void **unused)
{
	struct pfw_sketch narrow = { 0 }, wide = { 0 };
	uint32_t capacity;

	(void)unused;
	pfw_sketch_add(&narrow, 1000);
	capacity = narrow.capacity;
	for (int i = 0; i < 1000; i++)
		pfw_sketch_add(&wide, duration(1));
	assert_int_equal(pfw_sketch_merge(&narrow, &wide, false), 0);
	assert_int_equal(narrow.total, 1001);
	assert_int_equal(narrow.capacity, capacity);
	assert_true(pfw_sketch_quantile(&narrow, 1) < 2000);
	pfw_sketch_release(&narrow);
	pfw_sketch_release(&wide);
}

static void written_and_read_it_is_the_same(void **unused)
{
	static uint8_t bytes[PFW_SKETCH_BYTES_MAX];

	(void)unused;
	for (int round = 0; round < 200; round++) {
		struct pfw_sketch sketch = { 0 }, copy = { 0 };
		size_t length, count = any() % 500;

		for (size_t i = 0; i < count; i++)
			pfw_sketch_add(&sketch, duration((unsigned)round % 5));
		length = pfw_sketch_encode(&sketch, bytes);
		assert_in_range(length, 0, 12 * count + 2);
		assert_int_equal(pfw_sketch_decode(&copy, bytes, length), 0);
		assert_true(same(&sketch, &copy));
		/* Reading adds. */
		assert_int_equal(pfw_sketch_decode(&copy, bytes, length), 0);
		assert_int_equal(copy.total, 2 * count);
		pfw_sketch_release(&sketch);
		pfw_sketch_release(&copy);
	}
}

static void what_was_not_written_is_refused(void **unused)
{
	static const struct {
		uint8_t byte[24];
		size_t bytes;
	} bad[] = {
		{ { 0x80 }, 1 },       /* cut */
		{ { 2 }, 1 },	       /* two durations, and none */
		{ { 2, 7 }, 2 },       /* and one */
		{ { 2, 7, 7, 7 }, 4 }, /* and three */
		{ { 0x81, 2, 1 }, 3 }, /* more than few */
		/* Durations beyond the largest. */
		{ { 2, 1, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x7f }, 11 },
		{ { 0, 2 }, 2 },			    /* no count */
		{ { 0, 2, 1 }, 3 },			    /* 1 is written otherwise */
		{ { 0, 2, 0 }, 3 },			    /* no empty bucket is */
		{ { 0, 0xff, 0xff, 0xff, 0xff, 0x0f }, 6 }, /* no such bucket */
		{ { 0, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1 }, 13 },
		/* Counts that overflow together. */
		{ { 0, 2, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1, 1 }, 13 },
	};
	struct pfw_sketch sketch = { 0 };

	(void)unused;
	pfw_sketch_add(&sketch, 77);
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		assert_int_equal(pfw_sketch_decode(&sketch, bad[i].byte, bad[i].bytes), -EBADMSG);
	assert_int_equal(sketch.total, 1);
	assert_int_equal(pfw_sketch_quantile(&sketch, .5), 77);
	for (int i = 0; i < 20000; i++) {
		uint8_t noise[64];
		size_t bytes = any() % sizeof(noise);

		for (size_t k = 0; k < bytes; k++)
			noise[k] = (uint8_t)any();
		pfw_sketch_clear(&sketch);
		pfw_sketch_decode(&sketch, noise, bytes); /* whatever it says: no crash */
	}
	pfw_sketch_release(&sketch);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(quantiles_are_right_to_a_hundredth),
		cmocka_unit_test(buckets_rise_and_stay_below_their_number),
		cmocka_unit_test(a_bucket_is_narrow),
		cmocka_unit_test(parts_add_up_to_the_whole),
		cmocka_unit_test(what_may_not_widen_loses_no_count),
		cmocka_unit_test(written_and_read_it_is_the_same),
		cmocka_unit_test(what_was_not_written_is_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
