/* overlap_output.h - the answer of `pfw overlap`, as its printers share it. */
#ifndef OVERLAP_OUTPUT_H
#define OVERLAP_OUTPUT_H

#include "overlap.h"

/* All ranks together: their times added up. */
struct overlap_totals {
	int64_t set_ns[PFW_OVERLAP_SETS];
	struct pfw_overlap_sums sums;
	struct pfw_launch_gaps gaps;
	uint64_t steps_left_out;
};

struct overlap_answer {
	struct overlap_totals totals;
	struct overlap_steps steps;	     /* where they were asked for, or are compared */
	struct overlap_straggler *straggler; /* of each rank; NULL: nothing to compare */
};

/* As NDJSON or CSV: times in µs, sizes in bytes.  0 or -ENOMEM.  Thread: main. */
int overlap_print_data(const struct overlap *overlap, const struct overlap_options *options,
		       const struct overlap_answer *answer);

#endif
