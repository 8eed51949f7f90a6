/* common/base/order.h - numbers in order: several keys, bisection, least and greatest. */
#pragma once

#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* -1, 0 or 1.  Further keys follow after `?:`. */
#define PFW_ORDER(a, b) (((a) > (b)) - ((a) < (b)))

/* The same of two int64_t, for qsort(). */
static inline int pfw_order_i64(const void *a, const void *b)
{
	return PFW_ORDER(*(const int64_t *)a, *(const int64_t *)b);
}

/* The same of two texts. */
static inline int pfw_order_text(const void *a, const void *b)
{
	return strcmp(*(char *const *)a, *(char *const *)b);
}

/* The first of `count` numbers for which `before`, an expression of `at`, does not hold.  It holds
 * for all numbers before that one. */
#define PFW_BISECT(at, count, before)                                   \
	({                                                              \
		size_t pfw_low = 0, pfw_high = (count);                 \
                                                                        \
		while (pfw_low < pfw_high) {                            \
			size_t at = pfw_low + (pfw_high - pfw_low) / 2; \
                                                                        \
			if (before)                                     \
				pfw_low = at + 1;                       \
			else                                            \
				pfw_high = at;                          \
		}                                                       \
		pfw_low;                                                \
	})

/* Keep the least or the greatest of a number and those that are compared with it. */
#define PFW_LOWER(kept, value)                         \
	do {                                           \
		__typeof__(value) pfw_value = (value); \
		if (pfw_value < (kept))                \
			(kept) = pfw_value;            \
	} while (0)
#define PFW_RAISE(kept, value)                         \
	do {                                           \
		__typeof__(value) pfw_value = (value); \
		if (pfw_value > (kept))                \
			(kept) = pfw_value;            \
	} while (0)
