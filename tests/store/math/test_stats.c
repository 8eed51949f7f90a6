/* test_stats.c - Student's t, Holm's correction, Welch's difference and batch means, against figures
 * from tables and by hand. */
#include "store/math/stats.h"

#include <float.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>

#include <cmocka.h>

#include "store/math/batches.h"

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
	/* 13.36 and 18.15 by tables. */
	assert_near(pfw_chi_squared(8, 1.2815515655), 13.3616, 0.01);
	assert_near(pfw_chi_squared(1, 0), 0.4549, 0.05);
	assert_near(pfw_chi_squared(20, 0), 19.337, 0.001);
}

/* Of values that grow evenly the parts do, too, whatever their number, and the mean is exact. */
static void test_batches(void **state)
{
	(void)state;
	for (size_t count = 32; count < 200000; count = count * 5 / 3) {
		struct pfw_batches batches = { 0 };
		double mean[32];

		for (size_t i = 0; i < count; i++)
			assert_int_equal(pfw_batches_add(&batches, (double)i), 0);
		assert_near(pfw_batches_mean(&batches), ((double)count - 1) / 2, 1e-9);
		assert_true(batches.used < PFW_BATCHES_MAX && batches.used >= 32);
		assert_true(batches.count == count);
		pfw_batches_parts(&batches, 32, mean);
		for (size_t i = 0; i < 32; i++)
			assert_true(fabs(mean[i] - ((double)i + 0.5) / 32 * (double)count) <=
				    (double)batches.size * 2.5 + 1);
		pfw_batches_release(&batches);
	}
}

/* One value in a thousand that is immense leaves the parts as they are. */
static void test_outliers(void **state)
{
	struct pfw_batches batches = { 0 };
	double mean[32];

	(void)state;
	for (size_t i = 0; i < 1000; i++)
		assert_int_equal(pfw_batches_add(&batches, i % 101 == 50 ? 1e9 : 7), 0);
	pfw_batches_parts(&batches, 32, mean);
	for (size_t i = 0; i < 32; i++)
		assert_true(mean[i] == 7);
	pfw_batches_release(&batches);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_student),	   cmocka_unit_test(test_holm),
		cmocka_unit_test(test_difference), cmocka_unit_test(test_median),
		cmocka_unit_test(test_batches),	   cmocka_unit_test(test_outliers),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
