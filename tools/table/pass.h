/* tools/table/pass.h - what lines.c (a block, in any thread), collect.c (block results, in
 * order) and nest.c (after the pass) share.
 */
#pragma once

#include "store/kit/pair_ids.h"
#include "store/line/io.h"
#include "store/nesting/nesting.h"
#include "store/table/line.h"
#include "store/table/spans.h"
#include "table/table.h"

/* Memory for spans and GPU work until all are read; more goes to temporary files. */
#define TABLE_MEMORY (256u << 20)

/* The group of a span: its worker's number above these bits, its row in that worker below. */
#define TABLE_ROW_BITS 26u
#define TABLE_JOBS_MAX (1u << (32u - TABLE_ROW_BITS))

/* The I/O calls of one thread in a block. */
struct table_block_thread {
	uint64_t process, tid;
	int64_t first_ns, last_ns; /* begin of the first, end of the last */
};

struct table_block_result {
	struct pfw_table_spans spans;
	struct table_block_thread *thread;
	size_t threads;
	struct table_extent extent;
	bool nested; /* some I/O call lies in another, or lines are out of order */
};

/* The row of a name, category and file that came lately: most lines have one of few names, and making
 * and looking up a key takes longer than reading the line. */
struct table_recent {
	uint32_t row;  /* plus 1; 0: empty */
	uint32_t kind; /* section, device, annotation */
	size_t file;
	uint8_t cat_bytes, name_bytes;
	char text[118]; /* of both */
};

#define TABLE_RECENT 128u /* a power of two */

struct table_worker {
	struct pfw_averages rows;
	struct table_recent recent[TABLE_RECENT];
	struct pfw_table_key key;
	struct pfw_io_calls calls;
	struct pfw_select_state *wanted;
	uint64_t memory[TABLE_UNMOVED]; /* as struct table's */
	int64_t apart_ns[TABLE_APART];	/* as struct table's */
	uint32_t calls_rows;		/* rows of calls */
	unsigned says;			/* enum pfw_table_says */
};

/* The plan of a pass. */
struct table_plan {
	struct pfw_table_how how;
	bool by_names; /* rows are those of names, categories and ranks */
	bool targets;  /* the file that a copy writes gets a row, too */
	bool nest_io;  /* I/O calls are nested; else they must not overlap */
	bool again;    /* the lines were read before */
};

/* GPU work whose row has the operator that launched it: kept until all operators are known. */
struct table_work {
	int64_t start_ns, dur_ns;
	uint64_t launcher, otherwise;
	uint32_t process;
	uint32_t group; /* of its row without the operator */
};

struct table_works {
	struct pfw_spill work; /* struct table_work each */
	struct pfw_spill_budget budget;
};

#define TABLE_WORKS_EMPTY                                                   \
	(struct table_works)                                                \
	{                                                                   \
		.work = PFW_SPILL_EMPTY, .budget = {.bytes = TABLE_MEMORY } \
	}

/* Keep one.  Errors: as pfw_spill_add(). */
int table_works_add(struct table_works *works, const struct pfw_table_launch *launch,
		    struct pfw_nesting *nesting);

struct table_pass {
	const struct table_options *options;
	const struct pfw_traces *traces;
	struct table_plan plan;
	struct table *table;
	struct pfw_nesting *nesting;
	struct table_worker *worker;
	unsigned jobs;
	struct table_works works;
	bool io_nested; /* some I/O call lies in another, which the plan does not expect */
	/* The threads of all files that do I/O, and when their last call ends. */
	struct pfw_pair_ids io_threads;
	int64_t *io_end;
	size_t io_ends, io_room;
};

/* work() of the fold; `user` is a struct table_pass.  block->result becomes a struct
 * table_block_result. Thread: any. */
int table_pass_block(void *user, const struct survey_worker *reader, struct pfw_pass_block *block);

/* Free such a result. */
void table_pass_drop(void *result);

/* Nest all spans: add self times to the rows and assign GPU work to its launchers.  All workers'
 * rows are merged into the table's. 0, or as pfw_nesting_run().  Thread: main. */
int table_nest(struct table_pass *pass);
