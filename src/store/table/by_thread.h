/* store/table/by_thread.h - the spans and the GPU work of a trace that is indexed, by thread too. */
#pragma once

#include "store/index/db.h"
#include "store/kit/pair_ids.h"
#include "store/nesting/averages.h"

/* The most rows by thread that an index keeps, of spans and of calls each; it has none of a trace with
 * more. */
#define PFW_TABLE_THREAD_ROWS 16384u

/* All zero: none.  Thread: one at a time, as all here. */
struct pfw_table_by_thread {
	struct pfw_table_lane {
		uint64_t pid, tid;
		unsigned says;	 /* enum pfw_table_says, of its lines */
		uint32_t merged; /* its number in what it was merged into */
	} * lane;
	struct pfw_table_lane_row {
		uint32_t row, lane; /* the row of all threads, and the thread */
		struct pfw_tally sums;
	} * row;
	bool none; /* too many */
	/* Private to by_thread.c. */
	struct pfw_pair_ids lanes, rows;
	size_t lane_room, row_room;
	uint32_t last; /* the lane that was found last */
	struct pfw_table_lane_recent {
		uint32_t row, lane, number; /* number + 1; 0: none */
	} recent[64];
};

/* The number of a thread, or -ENOMEM. */
int64_t pfw_table_lane_of(struct pfw_table_by_thread *by_thread, uint64_t pid, uint64_t tid);

/* Return the number of the sums of a row in a thread, or a negative number: `none` is set, or there is no
 * memory.  The caller adds to these sums only: pfw_table_by_thread_fold() adds them to the row. */
int64_t pfw_table_lane_row(struct pfw_table_by_thread *by_thread, uint32_t row, uint32_t lane);

/* Add those of a block, whose rows were merged into `rows`.  0 or -ENOMEM. */
int pfw_table_by_thread_merge(struct pfw_table_by_thread *into, struct pfw_table_by_thread *from,
			      struct pfw_averages *rows, const struct pfw_averages *of);

/* After all: add them to the rows of all threads. */
void pfw_table_by_thread_fold(const struct pfw_table_by_thread *by_thread,
			      struct pfw_averages *rows);

/* Append all; number[]: those of the rows that are kept, plus 1; 0: none of them.  0 or -ENOMEM. */
void pfw_table_by_thread_put(const struct pfw_table_by_thread *by_thread, const uint32_t *number,
			     struct pfw_blob *data);

/* Make it empty; some of its memory is kept. */
void pfw_table_by_thread_clear(struct pfw_table_by_thread *by_thread);
void pfw_table_by_thread_release(struct pfw_table_by_thread *by_thread);
