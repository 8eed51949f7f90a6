/* launch_gaps.h - how long kernels waited between the call that launched them and their start.
 *
 * A kernel's call is found by its correlation among the last 131,072 that launched something: no
 * device has more kernels before it, but a program that has stopped.
 */
#ifndef PFW_LAUNCH_GAPS_H
#define PFW_LAUNCH_GAPS_H

#include <stddef.h>
#include <stdint.h>

#include "intervals.h"
#include "sketch.h"

/* One end of a gap: a call's begin, or a kernel's start. */
struct pfw_gap_end {
	uint64_t pid, correlation;
	int64_t ns;
};

/* All zero: none. */
struct pfw_gap_ends {
	struct pfw_gap_end *at;
	size_t count, room;
};

int pfw_gap_ends_add(struct pfw_gap_ends *ends, const struct pfw_gap_end *end);

/* All zero: empty. */
struct pfw_launch_gaps {
	uint64_t count,
		unmatched; /* kernels: with a gap, and those whose call is not in the trace */
	int64_t sum_ns, max_ns;
	struct pfw_sketch gap;
	/* Private to launch_gaps.c. */
	struct pfw_gap_end *call;  /* by correlation: a later one takes the place of an older */
	size_t calls;		   /* a power of two */
	struct pfw_gap_ends early; /* kernels that came before their calls */
	uint64_t *tries;	   /* of each of them */
	size_t tries_room;
};

/* Add the calls and the kernels of the next block; *queued gets the gaps, from call to start.  0 or
 * -ENOMEM.  Thread: one at a time, as all here. */
int pfw_launch_gaps_add(struct pfw_launch_gaps *gaps, const struct pfw_gap_ends *calls,
			const struct pfw_gap_ends *kernels, struct pfw_intervals *queued);

/* All is read: kernels without a call have none. */
void pfw_launch_gaps_end(struct pfw_launch_gaps *gaps);
void pfw_launch_gaps_release(struct pfw_launch_gaps *gaps);

#endif
