/* store/math/stats.c - statistical tests; see stats.h. */
#include "store/math/stats.h"

#include <float.h>
#include <math.h>
#include <stdlib.h>

/* ---- Student's t ---- */

/* The continued fraction of the incomplete beta function (DLMF 8.17.22), by Lentz's method. */
static double beta_fraction(double a, double b, double x)
{
	const double tiny = 1e-300;
	double c = 1, d = 1 - (a + b) * x / (a + 1), result;

	d = 1 / (fabs(d) < tiny ? tiny : d);
	result = d;
	for (int m = 1; m < 10000; m++) {
		double even = m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m));
		double odd = -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1));
		double factor;

		d = 1 + even * d;
		d = 1 / (fabs(d) < tiny ? tiny : d);
		c = 1 + even / c;
		c = fabs(c) < tiny ? tiny : c;
		result *= d * c;
		d = 1 + odd * d;
		d = 1 / (fabs(d) < tiny ? tiny : d);
		c = 1 + odd / c;
		c = fabs(c) < tiny ? tiny : c;
		factor = d * c;
		result *= factor;
		if (fabs(factor - 1) < 4 * DBL_EPSILON)
			break;
	}
	return result;
}

static double log_gamma(double x)
{
	int sign;

	return lgamma_r(x, &sign); /* lgamma() writes to a global */
}

/* The regularized incomplete beta function I_x(a, b). */
static double beta(double a, double b, double x)
{
	double front;

	if (x <= 0 || x >= 1)
		return x > 0;
	front = exp(log_gamma(a + b) - log_gamma(a) - log_gamma(b) + a * log(x) + b * log1p(-x));
	/* The fraction converges fast only on this side. */
	if (x < (a + 1) / (a + b + 2))
		return front * beta_fraction(a, b, x) / a;
	return 1 - front * beta_fraction(b, a, 1 - x) / b;
}

double pfw_student_p(double t, double freedom)
{
	if (isnan(t))
		return 1;
	return beta(freedom / 2, 0.5, freedom / (freedom + t * t));
}

double pfw_student_t(double p, double freedom)
{
	double low = 0, high = 1;

	while (high < 1e9 && pfw_student_p(high, freedom) > p)
		high *= 2;
	for (int i = 0; i < 200 && high - low > 1e-12 * high; i++) {
		double middle = (low + high) / 2;

		if (pfw_student_p(middle, freedom) > p)
			low = middle;
		else
			high = middle;
	}
	return (low + high) / 2;
}

/* ---- estimates ---- */

struct pfw_estimate pfw_estimate_mean(const double *value, size_t count)
{
	struct pfw_estimate estimate = { 0 };
	double squares = 0;

	if (!count)
		return estimate;
	for (size_t i = 0; i < count; i++)
		estimate.mean += value[i] / (double)count;
	for (size_t i = 0; i < count; i++)
		squares += (value[i] - estimate.mean) * (value[i] - estimate.mean);
	if (count > 1) {
		estimate.freedom = (double)count - 1;
		estimate.error = sqrt(squares / estimate.freedom / (double)count);
	}
	return estimate;
}

struct pfw_estimate pfw_estimate_difference(struct pfw_estimate a, size_t a_count,
					    struct pfw_estimate b, size_t b_count)
{
	struct pfw_estimate difference = { .mean = b.mean - a.mean };
	double va = a.error * a.error, vb = b.error * b.error;

	if (a.freedom > 0 && b.freedom > 0) {
		difference.freedom = va + vb > 0
					     ? (va + vb) * (va + vb) /
						       (va * va / a.freedom + vb * vb / b.freedom)
					     : a.freedom + b.freedom;
	} else if (a.freedom > 0) {
		vb = va * (double)a_count / (double)b_count;
		difference.freedom = a.freedom;
	} else if (b.freedom > 0) {
		va = vb * (double)b_count / (double)a_count;
		difference.freedom = b.freedom;
	}
	difference.error = sqrt(va + vb);
	return difference;
}

double pfw_estimate_p(struct pfw_estimate estimate)
{
	if (!(estimate.freedom > 0) || estimate.mean == 0)
		return 1;
	if (!(estimate.error > 0))
		return 0;
	return pfw_student_p(estimate.mean / estimate.error, estimate.freedom);
}

/* ---- multiple tests ---- */

static int by_value(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

static int by_pointed(const void *a, const void *b)
{
	return by_value(*(double *const *)a, *(double *const *)b);
}

void pfw_holm(double *p, size_t count)
{
	double **order = count ? malloc(count * sizeof(*order)) : NULL;
	double least = 0;

	for (size_t i = 0; i < count && !order; i++)
		p[i] = fmin(1,
			    /* no memory: use Bonferroni's correction, which is stricter */
			    p[i] * (double)count);
	for (size_t i = 0; i < count && order; i++)
		order[i] = &p[i];
	if (order)
		qsort(order, count, sizeof(*order), by_pointed);
	for (size_t i = 0; i < count && order; i++) {
		least = fmax(least, fmin(1, *order[i] * (double)(count - i)));
		*order[i] = least;
	}
	free(order);
}

double pfw_median(double *value, size_t count)
{
	qsort(value, count, sizeof(*value), by_value);
	return (value[(count - 1) / 2] + value[count / 2]) / 2;
}

double pfw_trimmed_mean(double *value, size_t count)
{
	size_t drop = count / 5;
	double sum = 0;

	qsort(value, count, sizeof(*value), by_value);
	for (size_t i = drop; i < count - drop; i++)
		sum += value[i];
	return sum / (double)(count - 2 * drop);
}
