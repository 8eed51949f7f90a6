/* saturate.h - sums of figures that anybody may have written: they stop at the ends of their type.
 */
#ifndef PFW_SATURATE_H
#define PFW_SATURATE_H

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

#endif
