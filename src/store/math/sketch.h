/* store/math/sketch.h - quantile sketches of durations: bounded memory, exact merge; quantiles of
 * few durations are exact, of more they have an error of 1 %.
 *
 * Up to PFW_SKETCH_FEW durations are kept as they are.  More become a DDSketch (Masson, Rim, Lee,
 * VLDB 2019): counts in geometric buckets.  A cubic replaces the logarithm: it is exact at powers
 * of two and nowhere steeper than necessary, so 35 buckets an octave are enough, and adding needs
 * no log().
 *
 * Room store/math: statistics: sketches, batch means, intervals, tests.  Uses store/kit.  Pure
 * functions of their arguments.  Start here or with stats.h.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define PFW_SKETCH_OCTAVE 35u
/* Bucket 0 holds durations up to 0; the others cover 1 to INT64_MAX. */
#define PFW_SKETCH_BUCKETS (1u + 63u * PFW_SKETCH_OCTAVE)
/* The most bytes that pfw_sketch_encode() writes. */
#define PFW_SKETCH_BYTES_MAX (PFW_SKETCH_BUCKETS * 12u)
#define PFW_SKETCH_FEW 256u

/* All zero: empty. */
struct pfw_sketch {
	uint64_t total;
	/* Counts of buckets first .. first + room - 1; all others are 0.  Room 0: the `total`
	 * durations themselves, sorted when their order is needed. */
	uint64_t *count;
	uint32_t first, room;
	uint32_t capacity; /* of count[] */
	bool unsorted;
};

/* The bucket of a duration.  Thread: any, as all here; one sketch by one thread at a time. */
static inline uint32_t pfw_sketch_bucket(int64_t ns)
{
	uint64_t part, sum;
	uint32_t octave;

	if (ns <= 0)
		return 0;
	octave = 63 - (uint32_t)__builtin_clzll((uint64_t)ns);
	/* Distance from 2^octave, as a part of the octave, in 1/2^28. */
	part = ((uint64_t)ns << (63 - octave) & INT64_MAX) >> 35;
	/* 6x^3 - 21x^2 + 50x is 0 at 0 and 35 at 1; its slope, relative to the logarithm's, is
	 * never less than 1/ln(1.01/0.99) per natural unit. */
	sum = (UINT64_C(21) << 28) - 6 * part;
	sum = (UINT64_C(50) << 28) - (sum * part >> 28);
	return 1 + octave * PFW_SKETCH_OCTAVE + (uint32_t)(sum * part >> 56);
}

/* Add one duration that is in no bucket of the window.  Return 0 or -ENOMEM. */
int pfw_sketch_add_outside(struct pfw_sketch *sketch, int64_t ns);

/* Add one duration.  Return 0, or -ENOMEM with nothing added. */
static inline int pfw_sketch_add(struct pfw_sketch *sketch, int64_t ns)
{
	uint32_t bucket;

	if (!sketch->room) { /* a few durations have no buckets yet */
		uint64_t few = sketch->total, duration = ns > 0 ? (uint64_t)ns : 0;

		if (few >= PFW_SKETCH_FEW || few >= sketch->capacity)
			return pfw_sketch_add_outside(sketch, ns);
		sketch->unsorted |= few && duration < sketch->count[few - 1];
		sketch->count[sketch->total++] = duration;
		return 0;
	}
	bucket = pfw_sketch_bucket(ns);
	if (__builtin_expect(bucket - sketch->first >= sketch->room, 0))
		return pfw_sketch_add_outside(sketch, ns);
	sketch->count[bucket - sketch->first]++;
	sketch->total++;
	return 0;
}

/* Add all of `from`.  Without `widen`, counts outside the window of `into` go to its border cells,
 * unless `into` is empty.  Return 0, or -ENOMEM with nothing added. */
int pfw_sketch_merge(struct pfw_sketch *into, const struct pfw_sketch *from, bool widen);

/* Whether its quantiles are those of the durations themselves, or of so many that they need not be. */
static inline bool pfw_sketch_is_exact(const struct pfw_sketch *sketch)
{
	return !sketch->room || sketch->total > PFW_SKETCH_FEW;
}

/* The duration of the nearest rank: of the least rank that is not below quantile * total, where
 * ranks begin with 1; quantile is 0 to 1.  It is exact up to PFW_SKETCH_FEW durations, beyond the
 * error is at most 1 % and half a nanosecond. 0 if the sketch is empty. */
int64_t pfw_sketch_quantile(const struct pfw_sketch *sketch, double quantile);

/* Write it to `out` (PFW_SKETCH_BYTES_MAX bytes); return the bytes used.  See
 * docs/index_format.rst. */
size_t pfw_sketch_encode(const struct pfw_sketch *sketch, uint8_t *out);

/* The same, with the exact durations of very few only: of blocks, where they would take most of an index. */
size_t pfw_sketch_encode_block(const struct pfw_sketch *sketch, uint8_t *out);

/* Add what pfw_sketch_encode() wrote.  Return 0; -EBADMSG if the data is invalid, or -ENOMEM, both
 * with nothing added. */
int pfw_sketch_decode(struct pfw_sketch *sketch, const uint8_t *data, size_t bytes);

/* Empty it and keep the memory; or free the memory, too. */
void pfw_sketch_clear(struct pfw_sketch *sketch);
void pfw_sketch_release(struct pfw_sketch *sketch);
