/* store/math/stats.h - Student's t, and Holm's correction for multiple tests.  Thread: any. */
#pragma once

#include <stddef.h>

/* The two-sided p-value of `t`; `freedom` > 0 may be a fraction. */
double pfw_student_p(double t, double freedom);

/* The t > 0 whose two-sided p-value is `p`, 0 < p < 1. */
double pfw_student_t(double p, double freedom);

/* A mean with its standard error, such as the difference of two runs. */
struct pfw_estimate {
	double mean;
	double error;	/* the standard error of `mean` */
	double freedom; /* degrees of freedom; 0: `error` is unknown */
};

/* The mean of values and its error, which is unknown for one value. */
struct pfw_estimate pfw_estimate_mean(const double *value, size_t count);

/* b - a, of independent estimates (Welch).  If only one has an error, it is used for both. */
struct pfw_estimate pfw_estimate_difference(struct pfw_estimate a, size_t a_count,
					    struct pfw_estimate b, size_t b_count);

/* The p-value of an estimate against 0; 1 if its error is unknown. */
double pfw_estimate_p(struct pfw_estimate estimate);

/* Correct the p-values of `count` tests for multiple testing (Holm 1979). */
void pfw_holm(double *p, size_t count);

/* The median; reorders the values. count > 0. */
double pfw_median(double *value, size_t count);

/* The mean without the greatest and the least fifth; as above. */
double pfw_trimmed_mean(double *value, size_t count);
