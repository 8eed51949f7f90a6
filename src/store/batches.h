/* batches.h - means of a series, batch by batch, in bounded memory whatever its length.
 *
 * Durations of calls come in good and bad times: neighbours are alike, and the error of a mean that
 * takes them for independent is far too small.  Means of long enough stretches are nearly independent
 * (batch means; Law and Carson 1979).  The length is not known beforehand: batches are joined in
 * pairs each time there are too many of them (Yeh and Schmeiser 2000).
 */
#ifndef PFW_BATCHES_H
#define PFW_BATCHES_H

#include <stddef.h>
#include <stdint.h>

#define PFW_BATCHES_MAX 2048u

/* All zero: empty. */
struct pfw_batches {
	float *sum;	  /* of whole batches of `size` values each */
	double open;	  /* of the one that is being filled */
	uint64_t in_open; /* values in it */
	uint64_t size;
	uint64_t count; /* values */
	uint32_t used, room;
};

/* Add the next value.  0 or -ENOMEM.  Thread: one at a time for one series, as all here. */
int pfw_batches_add(struct pfw_batches *batches, double value);

double pfw_batches_mean(const struct pfw_batches *batches);

/* The mean of each of `parts` parts of the series, at most half of PFW_BATCHES_MAX and no more than
 * there are values, without the fifth of its batches that are greatest and least: a call that waited
 * for something else would drown them all.  A last batch that is not full counts for nothing. */
void pfw_batches_parts(const struct pfw_batches *batches, size_t parts, double *mean);

void pfw_batches_release(struct pfw_batches *batches);

#endif
