/* tools/compare/compare.h - the two sides of a comparison, their runs and rows.
 *
 * Room tools/compare: `pfw compare` shows what changed between runs.  It may use tools/table (rows
 * and fields), tools/share, tools/ui and the store.  Start with compare.c; collect.c reads, judge.c
 * and two.c test for significance (docs/analysis.rst has the method), print.c prints.
 */
#ifndef PFW_TOOLS_COMPARE_COMPARE_H
#define PFW_TOOLS_COMPARE_COMPARE_H

#include "share/survey.h"
#include "share/unrecorded.h"
#include "store/math/batches.h"
#include "store/math/stats.h"
#include "store/nesting/averages.h"
#include "table/table.h"

#define COMPARE_LOG_UNIT 0x1p40

/* Sums of a row in one run. */
struct compare_cell {
	uint64_t count;
	int64_t total_ns;
	uint64_t samples; /* calls with a known duration: without `summed` lines */
	/* Logarithms of these durations in ns, as multiples of 1 / COMPARE_LOG_UNIT so that the sum does
	 * not depend on their order; 0 ns counts as 1. */
	__int128 log_sum;
};

/* A change as a difference of logarithms, with its confidence interval. */
struct compare_change {
	bool known;   /* `value` is */
	bool bounded; /* low and high are */
	double value, low, high;
	double p; /* of no change, by this test; 1 if not tested */
};

struct compare_row {
	struct compare_cell *cell; /* of each run: the runs of A, then those of B */
	bool io;		   /* calls of POSIX or STDIO */
	unsigned kinds;		   /* its events, 1 << enum unrecorded */
	/* If each side is one run: the logarithms, and the times of its first and last call. */
	struct pfw_batches batch[2];
	int64_t first_ns[2], last_ns[2];
	struct compare_cell sum[2];
	struct compare_change change; /* of the typical duration */
	struct compare_change beside; /* the same relative to the other rows */
	struct compare_change total;  /* of the total of a run, with several runs */
	bool tested, significant;
	double p; /* corrected by Holm's method for all tests of all rows */
};

struct compare_side {
	struct survey_input input;
	struct pfw_select select;
	size_t *run; /* of each file */
	size_t runs;
	/* Of each run, of all its lines; least > greatest: no line has a time. */
	int64_t *least_ns, *greatest_ns;
	unsigned kinds; /* of all its rows */
};

struct compare {
	struct survey survey;
	/* Options.  `table` defines the rows for tools/table/line.h. */
	struct table_options table;
	double fail_above; /* a fraction; negative: never */
	/* Results. */
	struct compare_side side[2];
	struct pfw_averages keys; /* of the rows: see table_text() */
	struct compare_row *row;
	size_t rows, room;
	size_t tested;
	double together; /* change of the median row, if `beside` is known */
	bool has_together;
};

/* Read one side into rows.  0 or -errno.  Thread: main, as all here. */
int compare_collect(struct compare *compare, unsigned side);

/* After both sides are read: sort the rows by their keys, so that their order is not that of the
 * lines.  0 or -ENOMEM. */
int compare_sort_rows(struct compare *compare);

/* The mean of the logarithms of a row's durations. */
double compare_typical(const struct compare_cell *cell);

/* Test all rows.  0 or -ENOMEM. */
int compare_judge(struct compare *compare);

/* Judge all rows if each side is one run.  0 or -ENOMEM. */
int compare_judge_two(struct compare *compare);

struct compare_change compare_change_of(struct pfw_estimate estimate);

/* Whether a significant change of the row is above `fail_above`. */
bool compare_fails(const struct compare *compare, const struct compare_row *row);

int compare_print(const struct compare *compare);

#endif
