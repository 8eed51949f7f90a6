/* stats.h - tests of a difference: Student's t, and Holm's correction where many are made at once.
 *
 * Thread: any, for all here.
 */
#ifndef PFW_STATS_H
#define PFW_STATS_H

#include <stddef.h>

/* How likely a t of that size or more, of either sign, is by chance; `freedom` > 0, any fraction. */
double pfw_student_p(double t, double freedom);

/* The t > 0 for which that is `p`, 0 < p < 1. */
double pfw_student_t(double p, double freedom);

/* A mean with its error: what the difference of two runs is told as. */
struct pfw_estimate {
	double mean;
	double error;	/* the standard error of `mean` */
	double freedom; /* of the error; 0: the error is not known */
};

/* The mean of values and its error; one value has none. */
struct pfw_estimate pfw_estimate_mean(const double *value, size_t count);

/* b - a, of independent estimates (Welch).  Where only one has an error it stands for both. */
struct pfw_estimate pfw_estimate_difference(struct pfw_estimate a, size_t a_count,
					    struct pfw_estimate b, size_t b_count);

/* How likely an estimate as far from 0 is by chance; 1 where its error is not known. */
double pfw_estimate_p(struct pfw_estimate estimate);

/* Make the probabilities of `count` tests those of all of them together (Holm 1979). */
void pfw_holm(double *p, size_t count);

/* Their median; changes their order.  count > 0. */
double pfw_median(double *value, size_t count);

/* What chi-squared stays below as often as a normal value stays below `z`, to some percent; at least
 * one degree of freedom. */
double pfw_chi_squared(double freedom, double z);

#endif
