/* test_stats.c - Student's t, Holm's correction, Welch's difference, samples and logarithms, against figures
 * from tables and by hand. */
#include "store/math/stats.h"

#include <float.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>

#include <cmocka.h>

#include "random.h"
#include "store/math/log.h"
#include "store/math/sampled.h"

static void assert_near(double found, double expected, double error)
{
	if (!(fabs(found - expected) <= error * fmax(1, fabs(expected))))
		fail_msg("%.12g is not %.12g", found, expected);
}

/* The two-sided 5 % and 1 % points that every table has, and freedoms that have a formula. */
static void test_student(void **state)
{
	static const struct {
		double freedom, t, p;
	} points[] = { { 1, 12.7062047362, 0.05 }, { 2, 4.3026527297, 0.05 },
		       { 5, 2.5705818356, 0.05 },  { 10, 3.1692726726, 0.01 },
		       { 30, 2.0422724563, 0.05 }, { 100, 2.6258905214, 0.01 },
		       { 2.5, 3.5746548420, 0.05 } };

	(void)state;
	for (size_t i = 0; i < sizeof(points) / sizeof(points[0]); i++) {
		assert_near(pfw_student_p(points[i].t, points[i].freedom), points[i].p, 1e-9);
		assert_near(pfw_student_t(points[i].p, points[i].freedom), points[i].t, 1e-9);
	}
	for (double t = 0.01; t < 1e6; t *= 3) {
		/* Cauchy's distribution, and that of two degrees. */
		assert_near(pfw_student_p(t, 1), 1 - 2 / M_PI * atan(t), 1e-12);
		assert_near(pfw_student_p(-t, 2), 1 - t / sqrt(2 + t * t), 1e-12);
	}
	assert_near(pfw_student_p(1.959963985, 1e7), 0.05, 1e-6);
	assert_true(pfw_student_p(0, 7) == 1 && pfw_student_p(NAN, 7) == 1);
	assert_true(pfw_student_p(1e300, 7) == 0 && pfw_student_p(INFINITY, 3) == 0);
}

static void test_holm(void **state)
{
	double p[] = { 0.01, 0.04, 0.03, 0.005, 0.9 };
	const double expected[] = { 0.04, 0.09, 0.09, 0.025, 0.9 };

	(void)state;
	pfw_holm(p, 5);
	for (size_t i = 0; i < 5; i++)
		assert_near(p[i], expected[i], 1e-12);
	pfw_holm(NULL, 0);
}

/* Welch 1947, with the figures of a worked example: means 20.0 and 26.0 of five each. */
static void test_difference(void **state)
{
	const double a[] = { 18, 19, 20, 21, 22 }, b[] = { 20, 23, 26, 29, 32 };
	struct pfw_estimate of_a = pfw_estimate_mean(a, 5), of_b = pfw_estimate_mean(b, 5);
	struct pfw_estimate one = pfw_estimate_mean(b, 1);
	struct pfw_estimate difference = pfw_estimate_difference(of_a, 5, of_b, 5);

	(void)state;
	assert_near(of_a.error, sqrt(2.5 / 5), 1e-12);
	assert_near(difference.mean, 6, 1e-12);
	assert_near(difference.error, sqrt(2.5 / 5 + 22.5 / 5), 1e-12);
	assert_near(difference.freedom, 25 / (0.25 / 4 + 20.25 / 4), 1e-12);
	assert_near(pfw_estimate_p(difference),
		    pfw_student_p(6 / sqrt(5), 25 / (0.25 / 4 + 20.25 / 4)), 1e-12);
	/* One value has the error of the others. */
	difference = pfw_estimate_difference(of_a, 5, one, 1);
	assert_near(difference.error, sqrt(2.5 / 5 + 2.5), 1e-12);
	assert_near(difference.freedom, 4, 1e-12);
	assert_true(pfw_estimate_p(pfw_estimate_difference(one, 1, one, 1)) == 1);
	assert_true(pfw_estimate_mean(NULL, 0).mean == 0);
}

static void test_median(void **state)
{
	double odd[] = { 5, -1, 3 }, even[] = { 4, 1, 3, 2 };

	(void)state;
	assert_true(pfw_median(odd, 3) == 3 && pfw_median(even, 4) == 2.5);
}

static struct pfw_sample sample_of(uint64_t i, int64_t dur_ns)
{
	return pfw_sample_of(1000 * (int64_t)i, pfw_sample_level(i, 7), (uint64_t)dur_ns);
}

static void assert_same(const struct pfw_sampled *a, const struct pfw_sampled *b)
{
	assert_int_equal(a->count, b->count);
	assert_int_equal(a->level, b->level);
	for (uint32_t i = 0; i < a->count; i++)
		assert_true(a->sample[i].ts_ns == b->sample[i].ts_ns &&
			    a->sample[i].packed == b->sample[i].packed);
}

/* Any split of the calls, merged by any tree, gives the same sample; also if the pieces had more room. */
static void test_sample_of_random_splits(void **state)
{
	enum { PIECES = 9 };

	(void)state;
	for (uint64_t round = 0; round < 60; round++) {
		uint64_t count = 1 + any() % 20000;
		uint32_t most = 128u << any() % 4;
		struct pfw_sampled all = { 0 }, piece[PIECES] = { 0 };

		for (uint64_t i = 0; i < count; i++) {
			struct pfw_sample sample = sample_of(i, (int64_t)(i % 97));

			assert_int_equal(pfw_sampled_add(&all, sample, most), 0);
			assert_int_equal(pfw_sampled_add(&piece[any_below(PIECES)], sample,
							 PFW_SAMPLED_MAX),
					 0);
		}
		for (unsigned left = PIECES; left > 1; left--) {
			unsigned into = (unsigned)any_below(left - 1);

			pfw_sampled_limit(&piece[into], most);
			assert_int_equal(pfw_sampled_merge(&piece[into], &piece[left - 1], most),
					 0);
			pfw_sampled_release(&piece[left - 1]);
		}
		pfw_sampled_limit(&piece[0], most);
		assert_true(all.count <= most);
		assert_true(count <= most ? all.count == count : all.count >= most / 4);
		pfw_sampled_sort(&all);
		pfw_sampled_sort(&piece[0]);
		assert_same(&all, &piece[0]);
		pfw_sampled_release(&all);
		pfw_sampled_release(&piece[0]);
	}
}

/* Calls that cannot be told apart are all in the sample or none is: memory is bounded in any case. */
static void test_sample_of_equal_calls(void **state)
{
	struct pfw_sampled sampled = { 0 };

	(void)state;
	for (unsigned level = 0; level < PFW_SAMPLE_LEVELS; level++) {
		struct pfw_sample sample = pfw_sample_of(1000, level, 5);

		for (unsigned i = 0; i < 5000; i++)
			assert_int_equal(pfw_sampled_add(&sampled, sample, PFW_SAMPLED_MAX), 0);
		assert_int_equal(sampled.count, 0);
		assert_int_equal(sampled.level, level + 1);
	}
	pfw_sampled_release(&sampled);
}

/* Of durations that grow by a factor the logarithms grow evenly, and so do the parts. */
static void test_parts(void **state)
{
	(void)state;
	for (uint64_t count = 32; count < 200000; count = count * 5 / 3) {
		struct pfw_sampled sampled = { 0 };
		double mean[32];

		for (uint64_t i = 0; i < count; i++) {
			struct pfw_sample sample =
				sample_of(i, llround(1e6 * exp(10 * (double)i / (double)count)));

			assert_int_equal(pfw_sampled_add(&sampled, sample, PFW_SAMPLED_MAX), 0);
		}
		pfw_sampled_sort(&sampled);
		pfw_sampled_parts(&sampled, 32, mean);
		for (size_t i = 0; i < 32; i++)
			assert_true(fabs(mean[i] - log(1e6) - 10 * ((double)i + 0.5) / 32) < 0.7);
		pfw_sampled_release(&sampled);
	}
}

/* One value in a hundred that is immense leaves the parts as they are. */
static void test_outliers(void **state)
{
	struct pfw_sampled sampled = { 0 };
	double mean[32];

	(void)state;
	for (uint64_t i = 0; i < 1000; i++) {
		struct pfw_sample sample = sample_of(i, i % 101 == 50 ? 1000000000 : 7);

		assert_int_equal(pfw_sampled_add(&sampled, sample, PFW_SAMPLED_MAX), 0);
	}
	pfw_sampled_sort(&sampled);
	pfw_sampled_parts(&sampled, 32, mean);
	for (size_t i = 0; i < 32; i++)
		assert_near(mean[i], log(7), 1e-8);
	pfw_sampled_release(&sampled);
}

static void test_log(void **state)
{
	(void)state;
	assert_true(pfw_log_ns(INT64_MIN) == 0 && pfw_log_ns(0) == 0 && pfw_log_ns(1) == 0);
	for (int64_t ns = 2; ns < INT64_MAX / 3 * 2; ns += 1 + ns / 777)
		assert_near((double)pfw_log_ns(ns) / PFW_LOG_UNIT, log((double)ns), 3e-9);
	assert_near((double)pfw_log_ns(INT64_MAX) / PFW_LOG_UNIT, log(0x1p63), 3e-9);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_student),
		cmocka_unit_test(test_holm),
		cmocka_unit_test(test_difference),
		cmocka_unit_test(test_median),
		cmocka_unit_test(test_sample_of_random_splits),
		cmocka_unit_test(test_sample_of_equal_calls),
		cmocka_unit_test(test_parts),
		cmocka_unit_test(test_outliers),
		cmocka_unit_test(test_log),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
