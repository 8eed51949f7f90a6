/* compare.h - what the parts of `pfw compare` share: two sides of some runs each, and their rows. */
#ifndef COMPARE_H
#define COMPARE_H

#include "live_lines.h"
#include "store/averages.h"
#include "store/batches.h"
#include "store/select.h"
#include "store/stats.h"
#include "store/traces.h"
#include "table.h"

/* What a row is known by in one run. */
struct compare_cell {
	uint64_t count;
	int64_t total_ns;
	uint64_t samples; /* of which the duration is known: not those of `summed` lines */
	double log_sum;	  /* of the logarithms of these durations in ns, of 0 as of 1 */
};

/* A change as a difference of logarithms, with its interval. */
struct compare_change {
	bool known;   /* `value` is */
	bool bounded; /* low and high are */
	double value, low, high;
	double p; /* of no change, by this one test; 1 where it was not tested */
};

struct compare_row {
	struct compare_cell *cell; /* of each run: those of A, then those of B */
	bool io;		   /* calls of POSIX or STDIO */
	/* Where each side is one run: the logarithms, and when its calls begin. */
	struct pfw_batches batch[2];
	int64_t first_ns[2], last_ns[2];
	struct compare_cell sum[2];
	struct compare_change change; /* of the typical duration */
	struct compare_change beside; /* the same beside what the other rows changed by */
	struct compare_change total;  /* several runs: of the total in a run */
	bool tested, significant;
	double p; /* Holm's, of all tests of all rows */
};

struct compare_side {
	struct pfw_traces traces;
	struct live_lines live;
	struct pfw_select select;
	size_t *run; /* of each file */
	size_t runs;
};

struct compare {
	const struct cli_command *command;
	/* What was asked for.  `table` says what a row is, for tools/table_line.h. */
	struct table_options table;
	double fail_above; /* a fraction; negative: never */
	int64_t row_limit; /* -1: none */
	bool quiet;
	unsigned jobs;
	int format;
	/* What was found. */
	struct compare_side side[2];
	struct pfw_averages keys; /* of the rows, by table_text() */
	struct compare_row *row;
	size_t rows, room;
	uint64_t problems;
	size_t tested;
	double together; /* what the middle row changed by; only where `beside` is known */
	bool has_together;
};

/* Read one side into rows.  0, or -errno after saying why.  Thread: main, as all here. */
int compare_collect(struct compare *compare, unsigned side, const volatile bool *stop);

/* Judge all rows.  0 or -ENOMEM. */
int compare_judge(struct compare *compare);

/* The changes of each row where each side is one run.  0 or -ENOMEM. */
int compare_judge_two(struct compare *compare);

struct compare_change compare_change_of(struct pfw_estimate estimate);

/* The least change that a row is significant with and has to be above `fail_above`. */
bool compare_fails(const struct compare *compare, const struct compare_row *row);

int compare_print(const struct compare *compare);

#endif
