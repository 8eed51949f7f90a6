/* tools/report/steps.h - which steps of a long run the page has. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "store/kit/pair_ids.h"

/* All zero: none yet.  Thread: one at a time. */
struct report_steps {
	uint64_t rows;	/* steps times ranks */
	double wall_ns; /* of all these */
	uint64_t every; /* the n-th step is kept; 1: all; 0: not chosen yet */
	size_t slowest; /* so many more are kept, or among them */
	struct report_step {
		int64_t number, wall_ns; /* of the slowest rank */
		bool kept;
	} * step; /* as `numbers` */
	struct pfw_pair_ids numbers;
	size_t room;
};

/* Add the row of a step of a rank.  0 or -ENOMEM, as the next. */
int report_steps_add(struct report_steps *steps, int64_t number, int64_t wall_ns);

/* After all rows: choose steps that have about `most` of them. */
int report_steps_choose(struct report_steps *steps, uint64_t most);

/* Whether rows of a step are kept; those of steps that were not added are. */
bool report_steps_has(const struct report_steps *steps, int64_t number);

void report_steps_release(struct report_steps *steps);
