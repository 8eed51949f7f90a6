/* table_pass.h - what the two halves of a table's pass share: table_lines.c, which any worker runs over
 * the lines of a block, and table_collect.c, which takes what blocks give in their order.
 */
#ifndef TABLE_PASS_H
#define TABLE_PASS_H

#include "store/nesting.h"
#include "store/numbers.h"
#include "store/pass.h"
#include "table.h"
#include "table_line.h"
#include "table_nest.h"

struct table_block_span {
	uint64_t pid, tid;
	struct pfw_span span;
	struct pfw_span_extra extra;
};

struct table_block_launch {
	uint64_t pid;
	struct pfw_launch launch;
};

/* I/O calls of one thread, where none of them lies in another. */
struct table_block_thread {
	uint64_t pid, tid;
	int64_t first_ns, last_ns; /* begin of the first, end of the last */
};

struct table_block_result {
	struct table_block_span *span;
	struct table_block_launch *launch;
	struct table_block_thread *thread;
	size_t spans, launches, threads;
	struct table_steps steps;
	bool stepless; /* some compute event does not say its step */
	bool nested;   /* some I/O call lies in another, or lines are out of order */
};

/* The row of lines that were seen lately, where it is their name's, category's and rank's alone. */
struct table_recent {
	uint32_t row;  /* and 1; 0: none */
	uint32_t kind; /* what table_key_make() begins with */
	size_t file;
	uint8_t cat_bytes, name_bytes;
	char text[118]; /* of both */
};

#define TABLE_RECENT 128u /* a power of two */

struct table_worker {
	struct pfw_averages rows;
	struct table_recent recent[TABLE_RECENT];
	struct table_key key;
	struct table_calls calls;
	struct pfw_select_state *reach, *wanted;
	bool too_many; /* rows for percentiles */
};

struct table_pass {
	const struct table_options *options;
	const struct pfw_traces *traces;
	struct live_lines *live;
	struct table *table;
	struct pfw_nesting *nesting;
	struct table_worker *worker;
	unsigned jobs;
	struct table_how how;
	bool by_names; /* rows are those of names, categories and ranks */
	bool targets;  /* what copies write to is a row, too */
	bool nest_io;  /* I/O calls are nested, too */
	bool io_nested;
	/* Steps are asked for: they are collected in this pass, or known, of an earlier one. */
	bool by_steps, steps_known, stepless;
	bool second; /* this is the second pass */
	/* Of I/O, the threads of all files, and up to when their calls go. */
	struct pfw_numbers io_processes, io_threads;
	int64_t *io_end;
	size_t io_room;
};

/* work() of the pass, `user` a struct table_pass: take the lines of a block.  block->result becomes a
 * struct table_block_result.  Thread: any. */
int table_pass_block(void *user, unsigned number, struct pfw_pass_block *block);

/* Free such a result. */
void table_pass_drop(void *user, void *result);

#endif
