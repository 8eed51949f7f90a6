/* store/math/intervals.h - exact unions of time intervals, in nanoseconds and little memory. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* [begin, end). */
struct pfw_interval {
	int64_t begin, end;
};

/* All zero: empty.  Settled: in order, and no two intervals touch. */
struct pfw_intervals {
	struct pfw_interval *at;
	size_t count, room;
	bool loose; /* not settled */
};

/* Append one, although it may touch the last one.  0 or -ENOMEM. */
int pfw_intervals_push(struct pfw_intervals *intervals, int64_t begin, int64_t end);

/* Add one, in any order; empty ones are ignored.  It is joined with the last one if the two touch.
 * 0 or -ENOMEM.  Thread: one at a time for one struct, as all here. */
static inline int pfw_intervals_add(struct pfw_intervals *intervals, int64_t begin, int64_t end)
{
	if (begin >= end)
		return 0;
	if (intervals->count) {
		struct pfw_interval *last = &intervals->at[intervals->count - 1];

		if (begin <= last->end && end >= last->begin) {
			intervals->loose |= begin < last->begin; /* it may touch the previous one */
			last->begin = begin < last->begin ? begin : last->begin;
			last->end = end > last->end ? end : last->end;
			return 0;
		}
		intervals->loose |= end < last->begin;
	}
	if (intervals->count == intervals->room)
		return pfw_intervals_push(intervals, begin, end);
	intervals->at[intervals->count++] = (struct pfw_interval){ begin, end };
	return 0;
}

/* Sort, and join intervals that touch. */
void pfw_intervals_settle(struct pfw_intervals *intervals);

/* Empty it and keep the memory; or free the memory, too. */
void pfw_intervals_clear(struct pfw_intervals *intervals);
void pfw_intervals_release(struct pfw_intervals *intervals);

/* The union of many settled lists that arrive roughly in order of time.  Each run is at least twice
 * as long as the next, so the cost of a list far out of order is amortized.  All zero: empty. */
#define PFW_UNION_RUNS 48

struct pfw_union {
	struct pfw_intervals run[PFW_UNION_RUNS];
	unsigned runs;
	size_t first; /* first interval of run[0] that is not dropped */
};

/* Add all of a settled list.  0 or -ENOMEM. */
int pfw_union_add(struct pfw_union *set, const struct pfw_intervals *intervals);

/* Merge all runs and return them as *at, *count. 0 or -ENOMEM. */
int pfw_union_settle(struct pfw_union *set, const struct pfw_interval **at, size_t *count);

/* Drop intervals that end at or before `before`; the union must be settled. */
void pfw_union_drop(struct pfw_union *set, int64_t before);
void pfw_union_release(struct pfw_union *set);
