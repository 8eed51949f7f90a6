/* intervals.h - unions of stretches of time: exact, in nanoseconds, in as little memory as they need.
 */
#ifndef PFW_INTERVALS_H
#define PFW_INTERVALS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* [begin, end). */
struct pfw_interval {
	int64_t begin, end;
};

/* All zero: none.  Once settled: in order, and no two of them touch. */
struct pfw_intervals {
	struct pfw_interval *at;
	size_t count, room;
	bool loose; /* not settled */
};

/* Add one, in any order; an empty one is left out.  What touches the last one is joined with it.
 * 0 or -ENOMEM.  Thread: one at a time for one struct, as all here. */
int pfw_intervals_add(struct pfw_intervals *intervals, int64_t begin, int64_t end);

/* Put them in order, and join what touches. */
void pfw_intervals_settle(struct pfw_intervals *intervals);

/* Empty it, and keep the memory; or give that back, too. */
void pfw_intervals_clear(struct pfw_intervals *intervals);
void pfw_intervals_release(struct pfw_intervals *intervals);

/* The union of many settled lists, which come in about the order of time: runs of which each is at
 * least twice as long as the next, so that a list far out of order costs no more than its share.
 * All zero: empty. */
#define PFW_UNION_RUNS 48

struct pfw_union {
	struct pfw_intervals run[PFW_UNION_RUNS];
	unsigned runs;
	size_t first; /* of run[0]: those before it were dropped */
};

/* Add all of a settled list.  0 or -ENOMEM. */
int pfw_union_add(struct pfw_union *set, const struct pfw_intervals *intervals);

/* Make it one run, in order: *at, *count.  0 or -ENOMEM. */
int pfw_union_settle(struct pfw_union *set, const struct pfw_interval **at, size_t *count);

/* Forget what ends at or before that time; of a settled one. */
void pfw_union_drop(struct pfw_union *set, int64_t before);
void pfw_union_release(struct pfw_union *set);

#endif
