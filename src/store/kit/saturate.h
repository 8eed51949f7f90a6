/* store/kit/saturate.h - saturating sums, for numbers out of untrusted files. */
#pragma once

#include <stdint.h>

static inline int64_t pfw_saturate_add(int64_t a, int64_t b)
{
	int64_t sum;

	if (__builtin_add_overflow(a, b, &sum))
		return b > 0 ? INT64_MAX : INT64_MIN;
	return sum;
}

static inline int64_t pfw_saturate_sub(int64_t a, int64_t b)
{
	int64_t rest;

	if (__builtin_sub_overflow(a, b, &rest))
		return b < 0 ? INT64_MAX : INT64_MIN;
	return rest;
}

static inline void pfw_saturate_sum(int64_t *sum, int64_t more)
{
	*sum = pfw_saturate_add(*sum, more);
}

/* The nearest int64_t. */
static inline int64_t pfw_saturate_i128(__int128 sum)
{
	return sum > INT64_MAX ? INT64_MAX : sum < INT64_MIN ? INT64_MIN : (int64_t)sum;
}

/* The same of counts and sizes, which SQLite and int64_t must have, too: at most INT64_MAX. */
static inline void pfw_saturate_u64(uint64_t *sum, uint64_t more)
{
	if (__builtin_add_overflow(*sum, more, sum) || *sum > INT64_MAX)
		*sum = INT64_MAX;
}

/* A figure as a whole number; one that no int64_t has becomes the nearest that it has. */
static inline int64_t pfw_saturate_whole(double figure)
{
	return figure >= 0x1p63	   ? INT64_MAX
	       : figure >= -0x1p63 ? (int64_t)figure
				   : INT64_MIN; /* also what is no number */
}
