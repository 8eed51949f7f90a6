/* store/kit/nearly_sorted.h - stable sorts of any type for arrays that are nearly in order. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* Below this many items an insertion sort takes less time than a merge sort. */
#define PFW_NEARLY_SORTED_FEW 24u

/*
 * Define two functions for arrays of `type`; after(a, b) returns whether *a belongs after *b.
 *
 * NAME_insert(): insertion sort that gives up after `moves` moves.  Returns whether the array is in
 * order; if not, it still holds the same items.
 *
 * NAME_merge(): merge sort.  Halves that are in order already cost one comparison; of other halves
 * only the part that overlaps is looked at.  `spare` has room for half of the items.
 */
#define PFW_NEARLY_SORTED(name, type, after)                                                    \
	__attribute__((unused)) static inline bool name##_insert(type *item, size_t count,      \
								 size_t moves)                  \
	{                                                                                       \
		for (size_t i = 1; i < count; i++) {                                            \
			type one;                                                               \
			size_t to = i;                                                          \
                                                                                                \
			if (!after(&item[i - 1], &item[i]))                                     \
				continue;                                                       \
			one = item[i];                                                          \
			for (; to && after(&item[to - 1], &one) && moves; to--, moves--)        \
				item[to] = item[to - 1];                                        \
			item[to] = one;                                                         \
			if (!moves)                                                             \
				return false;                                                   \
		}                                                                               \
		return true;                                                                    \
	}                                                                                       \
                                                                                                \
	__attribute__((unused)) static void name##_merge(type *item, size_t count, type *spare) \
	{                                                                                       \
		size_t half = count / 2, left = 0, right = half, end = half - 1, to;            \
                                                                                                \
		if (count <= PFW_NEARLY_SORTED_FEW) {                                           \
			name##_insert(item, count, SIZE_MAX);                                   \
			return;                                                                 \
		}                                                                               \
		name##_merge(item, half, spare);                                                \
		name##_merge(item + half, count - half, spare);                                 \
		if (!after(&item[half - 1], &item[half]))                                       \
			return;                                                                 \
		while (left < end) { /* the first that belongs after the right half's begin */  \
			size_t middle = left + (end - left) / 2;                                \
                                                                                                \
			if (after(&item[middle], &item[half]))                                  \
				end = middle;                                                   \
			else                                                                    \
				left = middle + 1;                                              \
		}                                                                               \
		memcpy(spare, item + left, (half - left) * sizeof(*item));                      \
		for (to = left, left = 0, half -= to; left < half;) {                           \
			if (right < count && after(&spare[left], &item[right]))                 \
				item[to++] = item[right++];                                     \
			else                                                                    \
				item[to++] = spare[left++];                                     \
		}                                                                               \
	}
