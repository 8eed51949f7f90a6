/* store/overlap/internal.h - what the sweep over a rank's time and its parts share. */
#pragma once

#include "store/math/intervals.h"
#include "store/overlap/overlap.h"

/* The state of the sweep, allocated apart: overlaps from indexes (100,000 ranks) do not need it. */
struct pfw_overlap_sweep {
	struct pfw_union active[PFW_ACTIVITIES];
	int64_t set_ns[PFW_OVERLAP_SETS];
	int64_t now_ns[PFW_OVERLAP_SETS]; /* of the current step */
};

/* End the current step.  0 or -ENOMEM. */
int pfw_overlap_end_step(struct pfw_overlap *overlap);

/* Put the steps that have not begun in order. */
void pfw_overlap_sort_steps(struct pfw_overlap *overlap);
