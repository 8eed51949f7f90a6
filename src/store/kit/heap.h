/* store/kit/heap.h - binary heap of any type: item 0 comes out first. */
#pragma once

#include <stddef.h>

/*
 * Define NAME_rise() and NAME_sink() for an array of `type`. before(a, b, user) returns whether *a
 * comes out before *b.  Both store `item` and overwrite heap[at]: rise stores it at `at` or nearer
 * to 0; sink at `at` or farther from 0, in a heap of `count` items.
 */
#define PFW_HEAP(name, type, before)                                                             \
	__attribute__((unused)) static inline void name##_rise(type *heap, size_t at, type item, \
							       const void *user)                 \
	{                                                                                        \
		for (; at && before(&item, &heap[(at - 1) / 2], user); at = (at - 1) / 2)        \
			heap[at] = heap[(at - 1) / 2];                                           \
		heap[at] = item;                                                                 \
	}                                                                                        \
                                                                                                 \
	__attribute__((unused)) static inline void name##_sink(                                  \
		type *heap, size_t count, size_t at, type item, const void *user)                \
	{                                                                                        \
		for (size_t child; (child = 2 * at + 1) < count; at = child) {                   \
			if (child + 1 < count && before(&heap[child + 1], &heap[child], user))   \
				child++;                                                         \
			if (!before(&heap[child], &item, user))                                  \
				break;                                                           \
			heap[at] = heap[child];                                                  \
		}                                                                                \
		heap[at] = item;                                                                 \
	}
