/* store/table/in_index.h - the compute rows of a trace in its index: spans nested, GPU work joined. */
#pragma once

#include "store/index/parts.h"
#include "store/nesting/averages.h"
#include "store/table/by_arg.h"
#include "store/table/line.h"

extern const struct pfw_index_kind pfw_table_kind, pfw_calls_kind;

/* Add the durations of calls, as rows have them.  0, -EBADMSG or -ENOMEM. */
static inline int pfw_table_add_durations(struct pfw_sketch *into, struct pfw_varints durations)
{
	return pfw_sketch_decode(into, durations.at, (size_t)(durations.end - durations.at));
}

/* A row: all spans, or all GPU work, of a name, category and shapes. */
struct pfw_table_row {
	int device;
	bool annotation;
	struct pfw_slice name, cat, shape; /* without escapes; all steps are ProfilerStep* */
	struct pfw_slice kind;		   /* args.kind; empty: none */
	struct pfw_tally sums;
};

struct pfw_table_rows {
	void *user;
	/* Take a row.  0, or an error that ends reading. */
	int (*row)(void *user, const struct pfw_table_row *row);
	unsigned says; /* out: enum pfw_table_says, of all lines, also those without a row */
};

/* Read all rows.  0; -ENOENT if the lines must be read; or -errno as pfw_index_parts().  Thread: as for
 * the index. */
int pfw_table_from_index(struct pfw_index *index, struct pfw_table_rows *rows);

/* Read the row of an index, into a struct pfw_table_rows; below the same of other structs. */
pfw_index_take pfw_table_read_rows;

/* GPU work by its args and its operator (owner); or, with neither, a row of spans. */
struct pfw_table_work_row {
	struct pfw_table_row row;
	struct pfw_slice args; /* an object with those by which there are rows; at NULL: of spans */
	struct pfw_slice owner; /* the name; at NULL: none */
};

struct pfw_table_work_rows {
	void *user;
	int (*row)(void *user, const struct pfw_table_work_row *row);
	unsigned says; /* as above */
};

/* Read these.  Returns as above. */
int pfw_table_works_from_index(struct pfw_index *index, struct pfw_table_work_rows *rows);
pfw_index_take pfw_table_read_works;

/* What a thread adds to a row: its calls, its spans, or its work of a device. */
struct pfw_table_thread_row {
	enum pfw_table_section section;
	uint64_t pid, tid;
	struct pfw_table_row row; /* of calls without transfers, the bytes are pfw_io_unmoved() */
	struct pfw_varints durations; /* of calls: for pfw_table_add_durations() */
};

struct pfw_table_thread_rows {
	void *user;
	int (*row)(void *user, const struct pfw_table_thread_row *row);
	/* Of spans and GPU work, before their rows: what the lines of a thread say. */
	int (*thread)(void *user, uint64_t pid, uint64_t tid, unsigned says);
};

/* Read the rows of all threads: of calls; of spans and GPU work.  Returns as above. */
int pfw_table_calls_from_index(struct pfw_index *index, struct pfw_table_thread_rows *rows);
int pfw_table_threads_from_index(struct pfw_index *index, struct pfw_table_thread_rows *rows);
pfw_index_take pfw_table_read_threads;

/* A row of a step: its calls, its spans, or its work of a device. */
struct pfw_table_step_row {
	enum pfw_table_section section;
	int device;
	int64_t step; /* -1: none */
	struct pfw_tally sums;
};

/* What spans, or GPU work, of an args.kind add to a step. */
struct pfw_table_kind_row {
	int device;
	int64_t step;	       /* -1: none */
	struct pfw_slice kind; /* without escapes */
	struct pfw_tally sums; /* as pfw_table_by_arg_kind() says */
};

struct pfw_table_step_rows {
	void *user;
	int (*row)(void *user, const struct pfw_table_step_row *row);
	int (*kind)(void *user, const struct pfw_table_kind_row *row); /* NULL: not asked for */
	/* Out: */
	unsigned says;	  /* as above */
	unsigned leaders; /* how many processes have steps; 2: several */
	/* Some process has none: its rows are right if no other file of the rank has a leader. */
	bool followers;
};

/* Read the rows of steps, then their kinds if they are asked for.  Returns as above. */
int pfw_table_steps_from_index(struct pfw_index *index, struct pfw_table_step_rows *rows);
pfw_index_take pfw_table_read_steps, pfw_table_read_kinds;

/* The durations of the calls of a step. */
struct pfw_table_step_durations {
	void *user;
	/* Take those of a step, for pfw_table_add_durations().  0, or an error that ends reading. */
	int (*step)(void *user, int64_t step, struct pfw_varints durations);
};

/* Read these.  Returns as above. */
int pfw_table_durations_from_index(struct pfw_index *index,
				   struct pfw_table_step_durations *durations);
pfw_index_take pfw_table_read_durations;
