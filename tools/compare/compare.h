/* tools/compare/compare.h - the two sides of a comparison, their runs and rows.
 *
 * Room tools/compare: `pfw compare` shows what changed between runs.  It may use tools/table (rows
 * and fields), tools/share, tools/ui and the store.  Start with compare.c; collect.c reads lines
 * and index.c indexes, judge.c and two.c test for significance (docs/analysis.rst has the method),
 * print.c prints.
 */
#pragma once

#include <pthread.h>

#include "share/survey.h"
#include "share/unrecorded.h"
#include "store/compare/in_index.h"
#include "store/math/stats.h"
#include "store/nesting/averages.h"
#include "table/table.h"

/* Kinds of events that a run may not have recorded, as bits. */
#define COMPARE_MAY_LACK (1u << PFW_COMPARE_IO | 1u << PFW_COMPARE_OPERATOR | 1u << PFW_COMPARE_GPU)

/* A change as a difference of logarithms, with its confidence interval. */
struct compare_change {
	bool known;   /* `value` is */
	bool bounded; /* low and high are */
	double value, low, high;
	double p; /* of no change, by this test; 1 if not tested */
};

struct compare_row {
	struct pfw_compare_sums *cell; /* of each run: the runs of A, then those of B */
	/* If each side is one run. */
	struct pfw_sampled sampled[2];
	/* Set by compare_judge(): */
	struct pfw_compare_sums sum[2];
	unsigned kinds;		      /* of both; an I/O row has calls of POSIX or STDIO */
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
	pthread_mutex_t mutex; /* protects these times */
	unsigned kinds;	       /* of all its rows; set by compare_judge() */
};

struct compare {
	struct survey survey;
	/* Options.  `table` defines the rows for tools/table/line.h. */
	struct table_options table;
	double fail_above; /* a fraction; negative: never */
	/* Results. */
	struct compare_side side[2];
	bool several;		  /* some side has several runs */
	const char *lacks;	  /* what the last index that could not answer does not know */
	struct pfw_averages keys; /* of the rows: see table_text() */
	struct compare_row *row;
	size_t rows, room;
	size_t tested;
	double together; /* change of the median row, if `beside` is known */
	bool has_together;
};

/* The option that no index can answer, for a message; NULL: indexes may be able to answer.
 * Thread: main, as all here. */
const char *compare_needs_lines(const struct compare *compare);

/* Fill the rows from indexes.  1; 0: they cannot answer, so the traces have to be read; -ENOMEM. */
int compare_from_index(struct compare *compare);

/* Read the lines of one side into rows.  0 or -errno. */
int compare_collect(struct compare *compare, unsigned side);

/* The row with that key, which is added if it does not exist; or -ENOMEM. */
int64_t compare_row_of(struct compare *compare, const char *key, size_t bytes);

/* The sums of a row in the run of a file. */
struct pfw_compare_sums *compare_cell_of(struct compare *compare, int64_t row, unsigned side,
					 size_t file);

/* Note the times of lines of a file.  Thread: any. */
void compare_widen(struct compare_side *side, size_t file, int64_t least_ns, int64_t greatest_ns);

/* Drop all rows and times. */
void compare_clear(struct compare *compare);

/* After both sides are read: sort the rows by their keys, so that their order is not that of the
 * lines.  0 or -ENOMEM. */
int compare_sort_rows(struct compare *compare);

/* The mean of the logarithms of a row's durations. */
double compare_typical(const struct pfw_compare_sums *cell);

/* Test all rows.  0 or -ENOMEM. */
int compare_judge(struct compare *compare);

/* Judge all rows if each side is one run.  0 or -ENOMEM. */
int compare_judge_two(struct compare *compare);

struct compare_change compare_change_of(struct pfw_estimate estimate);

/* Whether a significant change of the row is above `fail_above`. */
bool compare_fails(const struct compare *compare, const struct compare_row *row);

int compare_print(const struct compare *compare);
