/* read/internal.h - shared by read.c (what a program calls), stream.c and tables.c (a stream). */
#pragma once

#include <stdatomic.h>

#include "pfw/read.h"
#include "store/select/select.h"

/* ---- parts of traces: ranges of their blocks, each for another process to read (parts.c) ---- */

/* Blocks [from, to) of all files, in order.  A STREAM counts as one block. */
struct pfw_read_range {
	uint64_t from, to; /* to 0: all */
	uint64_t layout;   /* pfw_read_places.layout of the traces that were divided */
};

/* The numbers of the blocks of some traces. */
struct pfw_read_places {
	uint64_t *first; /* of each file */
	uint64_t blocks;
	uint64_t layout; /* a hash of where all blocks begin: other files, other number */
};

/* "FROM-TO/LAYOUT".  False: it is not. */
bool pfw_read_range_parse(struct pfw_read_range *range, const char *text);

/* 0 or -ENOMEM.  Thread: any, as all here. */
int pfw_read_places_set(struct pfw_read_places *places, const struct pfw_traces *traces);
void pfw_read_places_free(struct pfw_read_places *places);

/* Whether a block of `file` is in the range. */
bool pfw_read_places_in(const struct pfw_read_places *places, const struct pfw_traces *traces,
			const struct pfw_read_range *range, size_t file,
			const struct pfw_block *block);

/* Whether the last block is: lines that are in no block are read with it. */
bool pfw_read_places_last(const struct pfw_read_places *places, const struct pfw_read_range *range);

/* Give each part with a block that may have a selected line, or else one part.  `timed`: the times
 * of blocks are those of all selected lines. */
void pfw_read_places_divide(const struct pfw_read_places *places, const struct pfw_traces *traces,
			    const struct pfw_select *select, bool timed, uint64_t most,
			    pfw_read_each *each, void *user);

/* ---- what a program has asked for (read.c) ---- */

#define PFW_READ_PROBLEMS_KEPT 100u
#define PFW_READ_JOBS_MOST 64u
#define PFW_READ_ROWS_MOST (1u << 20)

/* A condition as it was given. */
struct pfw_read_condition {
	enum pfw_select_option option;
	char *value;
};

/* What a program has asked for, and counts of what was found.  Each stream holds a reference. */
struct pfw_read {
	atomic_uint users; /* the program, and each stream */
	atomic_bool stop;  /* pfw_read_stop() */
	char **path;
	size_t paths;
	struct pfw_read_condition *condition;
	size_t conditions;
	char *columns; /* NULL: all */
	bool meta, all_runs;
	unsigned jobs;
	unsigned batch_rows; /* of a batch at least */
	struct pfw_read_range part;
	uint64_t problems;
	char *problem[PFW_READ_PROBLEMS_KEPT];
	char error[1200];
};

/* How many threads are to read. */
unsigned pfw_read_jobs(const struct pfw_read *read);

/* The name of a condition for pfw_read_set(). */
const char *pfw_read_condition_name(enum pfw_select_option option);

/* Drop a reference; NULL: nothing. */
void pfw_read_drop(struct pfw_read *read);

/* Count a problem, and keep the text of the first one.  Thread: one at a time, as all here. */
__attribute__((format(printf, 3, 4))) void
pfw_read_add_problem(struct pfw_read *read, uint64_t more, const char *format, ...);

/* Store the message of an error and return `error`.  format NULL: the message is strerror()'s. */
__attribute__((format(printf, 3, 4))) int pfw_read_fail(struct pfw_read *read, int error,
							const char *format, ...);
