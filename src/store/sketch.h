/* sketch.h - quantiles of durations, to 1 %, in bounded memory; two of them add up exactly.
 *
 * A DDSketch (Masson, Rim, Lee, VLDB 2019): counts of geometric buckets.  The logarithm that finds a
 * bucket is a cubic that is right at powers of two and nowhere steeper than the logarithm needs, so
 * adding takes no log() and 35 buckets an octave are enough.
 */
#ifndef PFW_SKETCH_H
#define PFW_SKETCH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define PFW_SKETCH_OCTAVE 35u
/* Bucket 0 holds 0 and what is below; the others all of 1 to INT64_MAX. */
#define PFW_SKETCH_BUCKETS (1u + 63u * PFW_SKETCH_OCTAVE)
/* What pfw_sketch_encode() writes at most. */
#define PFW_SKETCH_BYTES_MAX (PFW_SKETCH_BUCKETS * 12u)

/* All zero: empty. */
struct pfw_sketch {
	uint64_t total;
	uint64_t *count;      /* of buckets first .. first + room - 1; all others are 0 */
	uint32_t first, room; /* room 0: empty */
	uint32_t capacity;    /* of count[] */
};

/* The bucket of a duration.  Thread: any, as all here; one sketch by one thread at a time. */
static inline uint32_t pfw_sketch_bucket(int64_t ns)
{
	uint64_t part, sum;
	uint32_t octave;

	if (ns <= 0)
		return 0;
	octave = 63 - (uint32_t)__builtin_clzll((uint64_t)ns);
	/* How far from 2^octave to the next power, in 1/2^28. */
	part = ((uint64_t)ns << (63 - octave) & INT64_MAX) >> 35;
	/* 6x^3 - 21x^2 + 50x: 0 at 0, 35 at 1; its slope, relative to the logarithm's, is never less
	 * than 1/ln(1.01/0.99) a natural unit. */
	sum = (UINT64_C(21) << 28) - 6 * part;
	sum = (UINT64_C(50) << 28) - (sum * part >> 28);
	return 1 + octave * PFW_SKETCH_OCTAVE + (uint32_t)(sum * part >> 56);
}

/* Widen the window to that bucket.  Return 0 or -ENOMEM. */
int pfw_sketch_reach(struct pfw_sketch *sketch, uint32_t bucket);

/* Add one duration.  Return 0, or -ENOMEM with nothing added. */
static inline int pfw_sketch_add(struct pfw_sketch *sketch, int64_t ns)
{
	uint32_t bucket = pfw_sketch_bucket(ns);

	if (__builtin_expect(bucket - sketch->first >= sketch->room, 0)) {
		int error = pfw_sketch_reach(sketch, bucket);

		if (error)
			return error;
	}
	sketch->count[bucket - sketch->first]++;
	sketch->total++;
	return 0;
}

/* Add all of `from`.  Without `widen` what lies outside the window of `into` is added to its border,
 * unless it is empty.  Return 0, or -ENOMEM with nothing added. */
int pfw_sketch_merge(struct pfw_sketch *into, const struct pfw_sketch *from, bool widen);

/* The duration below which a share of `quantile` (0 to 1) of them lies: that of rank
 * quantile * (total - 1), rounded down, to 1 % and half a nanosecond; 0 where there is none. */
int64_t pfw_sketch_quantile(const struct pfw_sketch *sketch, double quantile);

/* Write it to `out` (PFW_SKETCH_BYTES_MAX of room); return the bytes.  See docs/index.rst. */
size_t pfw_sketch_encode(const struct pfw_sketch *sketch, uint8_t *out);

/* Add what pfw_sketch_encode() wrote.  Return 0; -EBADMSG where it cannot have, or -ENOMEM, both
 * with nothing added. */
int pfw_sketch_decode(struct pfw_sketch *sketch, const uint8_t *data, size_t bytes);

/* Empty it, and keep the memory for what comes next; or give that back, too. */
void pfw_sketch_clear(struct pfw_sketch *sketch);
void pfw_sketch_release(struct pfw_sketch *sketch);

#endif
