/* store/math/batches.h - batch means of a series, in bounded memory.
 *
 * Successive durations are correlated, so the usual standard error of a mean is far too small.
 * Means of long enough batches are nearly independent (batch means; Law and Carson 1979).  The
 * batch length is not known in advance: when there are too many batches, they are joined in pairs
 * (Yeh and Schmeiser 2000).
 */
#ifndef PFW_STORE_MATH_BATCHES_H
#define PFW_STORE_MATH_BATCHES_H

#include <stddef.h>
#include <stdint.h>

#define PFW_BATCHES_MAX 2048u

/* All zero: empty. */
struct pfw_batches {
	float *sum;	  /* of full batches, `size` values each */
	double open;	  /* sum of the last, incomplete batch */
	uint64_t in_open; /* values in it */
	uint64_t size;
	uint64_t count; /* values */
	uint32_t used;
};

/* Add the next value.  0 or -ENOMEM.  Thread: one at a time for one series, as all here. */
int pfw_batches_add(struct pfw_batches *batches, double value);

double pfw_batches_mean(const struct pfw_batches *batches);

/*
 * Store the trimmed mean of each of `parts` equal parts of the series: without the greatest and the
 * least fifth of its batches, because one call that waited would dominate.  `parts` is at most half
 * of PFW_BATCHES_MAX and at most the number of values.  An incomplete last batch is left out.
 */
void pfw_batches_parts(const struct pfw_batches *batches, size_t parts, double *mean);

void pfw_batches_release(struct pfw_batches *batches);

#endif
