/* store/table/nest.h - nests the spans of a file that is indexed: their sums by row, thread and step. */
#pragma once

#include "store/table/by_step.h"
#include "store/table/by_thread.h"
#include "store/table/spans.h"

/* All zero: no threads.  Thread: one at a time. */
struct pfw_table_nest {
	/* What gets the sums; the owner sets these before the run. */
	struct pfw_averages *rows;
	struct pfw_table_by_thread *by_thread;
	struct pfw_table_by_step *by_step;
	/* Private to nest.c. */
	struct pfw_pair_ids threads; /* of the nesting, by process and tid */
	uint32_t *lane;		     /* of each of them */
	size_t lane_room;
	struct pfw_table_nest_row *row; /* as many as `rows` has */
	uint32_t *summed;		/* the rows that have sums */
	uint32_t sums;
	uint32_t process, at_lane; /* of the thread whose spans are nested */
	struct pfw_table_at at;
	uint64_t step; /* of these sums */
};

/* Note the lanes of the threads of a block, which was merged into those of the file.  0 or -ENOMEM. */
int pfw_table_nest_lanes(struct pfw_table_nest *nest, const struct pfw_table_spans *spans,
			 const struct pfw_table_by_thread *block, struct pfw_nesting *nesting);

/* Nest all spans, once.  Returns as pfw_nesting_run(). */
int pfw_table_nest_run(struct pfw_table_nest *nest, struct pfw_nesting *nesting,
		       uint64_t *too_deep);
void pfw_table_nest_release(struct pfw_table_nest *nest);
