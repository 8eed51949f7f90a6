/* store/overlap/launch_gaps.h - the delay between the call that launches a kernel and its start.
 *
 * A kernel's call is the earliest of its process with its correlation.  If the lines are in order of
 * time, calls are forgotten: the last 131,072 are known, and no device queues more kernels unless
 * the program has stopped.  Otherwise they all are kept until the end, by their correlation: in a table
 * while it is dense, which the numbers of one process are, else to be sorted.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "store/kit/pair_ids.h"
#include "store/math/intervals.h"
#include "store/math/sketch.h"
#include "store/sys/sorter.h"

/* One end of a gap: the begin of a call, or the start of a kernel. */
struct pfw_gap_end {
	uint64_t process, correlation;
	int64_t ns;
};

/* All zero: none. */
struct pfw_gap_ends {
	struct pfw_gap_end *at;
	size_t count, room;
};

/* Calls in order of time: their begins, by process and correlation. */
struct pfw_gap_calls {
	struct pfw_pair_ids ids;
	int64_t *ns;
	size_t room;
};

/* Calls and kernels in any order, by correlation - `base`, of one process.  The times are inverted: ~0 is in
 * no cell, and 0 is none. */
struct pfw_gap_table {
	struct pfw_gap_cell {
		int64_t call_ns; /* of the earliest */
		int64_t kernel_ns;
	} * cell;
	size_t room, cells;
	uint64_t process, base;
	size_t ends;		  /* that are in it */
	struct pfw_gap_end *more; /* kernels of cells that have one */
	size_t mores, more_room;
	bool off; /* it was not dense: what it had is to be sorted */
};

/* The kernels that start in a stretch of time. */
struct pfw_gap_stretch {
	uint64_t count, unmatched;
	int64_t sum_ns, max_ns;
	/* Of pairs with one end in another stretch: the latest end of those that begin in this one, and the
	 * earliest begin of those that end in it; INT64_MIN, INT64_MAX: none. */
	int64_t reach_ns, back_ns;
	struct pfw_sketch gap;
};

/* Adjacent stretches of time.  Stretch i is before end[i]; the last one, [count], has no end. */
struct pfw_gap_stretches {
	int64_t *end;
	struct pfw_gap_stretch *stretch;
	size_t count, end_room, room;
	size_t recent; /* that was found last */
};

int pfw_gap_stretches_init(struct pfw_gap_stretches *stretches); /* 0 or -ENOMEM */
/* Add the kernels of a stretch.  0 or -ENOMEM. */
int pfw_gap_stretch_add(struct pfw_gap_stretch *into, const struct pfw_gap_stretch *from);
/* End the last stretch there: ends rise, or no kernel was added yet.  0 or -ENOMEM. */
int pfw_gap_stretches_cut(struct pfw_gap_stretches *stretches, int64_t end_ns);
/* Put the ends after the first `kept` in order, equal ones once, if no kernel was added yet. */
void pfw_gap_stretches_sort(struct pfw_gap_stretches *stretches, size_t kept);
/* Take the ends after the first `kept` away.  0 or -ENOMEM. */
int pfw_gap_stretches_join(struct pfw_gap_stretches *stretches, size_t kept);
void pfw_gap_stretches_release(struct pfw_gap_stretches *stretches);

struct pfw_launch_gaps {
	uint64_t count, unmatched; /* kernels with a gap; kernels whose call is not in the trace */
	int64_t sum_ns, max_ns;
	struct pfw_sketch gap;
	/* Set by the caller: add the kernels to these, too, before `gap` gets them at the end; or NULL. */
	struct pfw_gap_stretches *stretches;
	/* Set by the caller: other code counts kernels that start in [from, to). */
	int64_t from_ns, to_ns;
	/* A kernel may be among the unmatched ones because its call was forgotten. */
	bool inexact;
	/* Private to launch_gaps.c. */
	struct pfw_gap_table table;	   /* lines in any order */
	struct pfw_sorter calls, kernels;  /* if it is off */
	struct pfw_gap_calls young, older; /* lines in order of time */
	bool forgot, forgot_early;
	struct pfw_gap_end *early; /* kernels that came before their call */
	size_t earlies, early_room;
};

#define PFW_LAUNCH_GAPS_EMPTY                                          \
	{                                                              \
		.calls = PFW_SORTER_EMPTY, .kernels = PFW_SORTER_EMPTY \
	}

/* Add the calls and the kernels of the next block of lines in order of time.  Append the gaps, from
 * call to start, to *queued.  0 or -ENOMEM.  Thread: one at a time, as all here. */
int pfw_launch_gaps_add(struct pfw_launch_gaps *gaps, const struct pfw_gap_ends *calls,
			const struct pfw_gap_ends *kernels, struct pfw_intervals *queued);

/* Whether calls or kernels of lines in any order are kept. */
static inline bool pfw_launch_gaps_kept(const struct pfw_launch_gaps *gaps)
{
	return gaps->table.ends || gaps->table.off;
}

/* Add those of a block of lines in any order.  0, or as pfw_sorter_add(). */
int pfw_launch_gaps_keep(struct pfw_launch_gaps *gaps, const struct pfw_gap_ends *calls,
			 const struct pfw_gap_ends *kernels);

/* After the last block: append the gaps of lines in any order to *queued, and count kernels that
 * still have no call as unmatched.  0, or as pfw_sorter_add(). */
int pfw_launch_gaps_end(struct pfw_launch_gaps *gaps, struct pfw_intervals *queued);
void pfw_launch_gaps_release(struct pfw_launch_gaps *gaps);
