/* tools/table/answer.h - the answer of indexes to `pfw table` while it is made; private to index.c and
 * by_thread.c.
 */
#pragma once

#include "store/index/index.h"
#include "store/kit/pair_ids.h"
#include "store/kit/text_ids.h"
#include "store/table/in_index.h"
#include "table/table.h"

struct answer {
	const struct table_options *options;
	struct table *table;
	struct pfw_select_state *wanted;
	struct pfw_table_key key;
	struct pfw_table_line step; /* stands for the events of a step */
	int64_t rank;		    /* of the file whose rows are added */
	/* Of the files so far: their processes, by pid and start, and these by host. */
	struct pfw_pair_ids processes, hosted;
	struct pfw_text_ids hosts;
	bool by_thread; /* rows of threads are asked for */
	bool nests;	/* some row has self times that were found file by file */
	/* Of each rank of a run: what its files so far say of steps. */
	struct pfw_text_ids ranks;
	struct {
		unsigned steps; /* processes that have some */
		bool followers;
	} * leaders;
	size_t leaders_room;
	bool strays; /* events whose steps are in another file */
	/* Of rows by number: the step rows that they are for, and the one after the last that was found: the
	 * files of a run have the same steps, in one order. */
	struct step_place {
		bool known;
		signed char section, device;
		int64_t step, rank;
	} * place;
	size_t place_room, next_place;
	uint32_t rows_most; /* before it is looked again whether they are too many for percentiles */
	/* Rows whose durations are read, and the lower bits of their steps; NULL: the rows are made. */
	const uint8_t *needs;
	uint8_t *steps;
};

/* Note what an index does not know.  0 */
static inline int table_lacks(struct answer *answer, const char *what)
{
	answer->table->lacks = what;
	return 0;
}

/* Whether an event of this name and category is asked for. */
bool table_answer_wants(struct answer *answer, const struct pfw_entry *entry);

/* The row of a line of the current file: its number, -ENOENT if it is not wanted, or -ENOMEM.  Thread:
 * main, as all here. */
int64_t table_answer_row(struct answer *answer, const struct pfw_table_line *line,
			 const struct pfw_entry *entry);

/* Whether all --where say something of names and categories only. */
bool table_where_of_names(const struct table_options *options);

/* Whether the names of steps, which indexes have as one, may decide which rows are chosen. */
bool table_asks_names(const struct table_options *options);

/* Add the names of a summary that need no nesting.  1; 0: it is not enough; -ENOMEM. */
int table_add_names(struct answer *answer, const struct pfw_summary *summary);

/* Whether processes or threads are chosen; whether that is asked for, or rows by process or thread. */
bool table_limits_threads(const struct table_options *options);
bool table_asks_threads(const struct table_options *options);

/* Whether rows or conditions by operator or args are asked for; what of these no index knows; whether only the
 * kinds of work in steps are, with columns that they have. */
bool table_asks_args(const struct table_options *options);
const char *table_args_need_lines(const struct table_options *options);
bool table_asks_step_kinds(const struct table_options *options);

/* Add the rows of spans and of GPU work of a file by their args; 1, 0 or -ENOMEM, as the next.  Add a kind of
 * work in a step: for struct pfw_table_step_rows. */
int table_add_works(struct answer *answer, struct pfw_index *index);
int table_add_kind(void *user, const struct pfw_table_kind_row *row);

/* Add the time of the chosen threads of a file; the rows of its threads.  1; 0: its index is not enough;
 * -ENOMEM. */
int table_add_extent(struct answer *answer, const struct pfw_summary *summary);
int table_add_threads(struct answer *answer, struct pfw_index *index);
