/* store/compare/rows.h - the calls of each name as `pfw compare` needs them: sums and a sample.
 *
 * Room store/compare: these rows, and how an index keeps them.  Sums are of integers, and samples
 * do not depend on order, so the rows of blocks, files and ranks add up to those of a run, however
 * its lines are split.  It may use store/{table,index,line,math,kit}.  Start here.
 */
#pragma once

#include "store/kit/text_ids.h"
#include "store/math/log.h"
#include "store/math/sampled.h"
#include "store/table/line.h"

/* Sources of events, each recorded as a whole or not at all: bits of `kinds`. */
enum pfw_compare_kind {
	PFW_COMPARE_IO,
	PFW_COMPARE_OPERATOR,
	PFW_COMPARE_GPU,
	PFW_COMPARE_MEMORY, /* an allocation or a free */
	PFW_COMPARE_OTHER,  /* spans of the program's own, which are always recorded */
	PFW_COMPARE_KINDS
};

/* All zero: no call. */
struct pfw_compare_sums {
	uint64_t count;
	int64_t total_ns;
	uint64_t samples;	   /* calls with a known duration: without `summed` lines */
	__int128 log_sum;	   /* of pfw_log_ns() of these */
	unsigned kinds;		   /* 1 << enum pfw_compare_kind */
	int64_t first_ns, last_ns; /* of these: the least and the greatest begin */
};

struct pfw_compare_row {
	struct pfw_compare_sums sums;
	struct pfw_sampled sampled;
};

/* All zero: none.  Thread: one at a time, as all here. */
struct pfw_compare_rows {
	struct pfw_text_ids keys; /* of the rows */
	struct pfw_compare_row *row;
	uint32_t most; /* pfw_compare_most() of them */
	size_t room;
};

/* How many calls the sample of a row may have if there are so many rows: their memory is bounded.
 * 0: too many rows. */
uint32_t pfw_compare_most(size_t rows);

/* The number of the row with that key, which is added if it does not exist; or -ENOMEM. */
int64_t pfw_compare_row_of(struct pfw_compare_rows *rows, const char *key, size_t bytes);

/* Of what kind an event of this category is. */
enum pfw_compare_kind pfw_compare_kind_of(const struct pfw_entry *entry,
					  const struct pfw_slice *cat);

/* A call; `who` identifies it together with its time. */
struct pfw_compare_call {
	int64_t ts_ns, dur_ns;
	uint64_t who;
};

static inline struct pfw_compare_call pfw_compare_call_of(const struct pfw_entry *entry,
							  int64_t dur_ns)
{
	return (struct pfw_compare_call){ .ts_ns = entry->ts_ns,
					  .dur_ns = dur_ns > 0 ? dur_ns : 0,
					  .who = entry->id << 32 ^ entry->pid << 16 ^ entry->tid };
}

/* Add few calls of that kind to row `number`, except those without a time.  0 or -ENOMEM. */
int pfw_compare_add(struct pfw_compare_rows *rows, int64_t number, enum pfw_compare_kind kind,
		    const struct pfw_compare_call *call, size_t count);

/* Add the calls of a `summed` line. */
void pfw_compare_add_summed(struct pfw_compare_rows *rows, int64_t number,
			    const struct pfw_table_line *line);

void pfw_compare_add_sums(struct pfw_compare_sums *into, const struct pfw_compare_sums *from);

/* Empty them and keep the memory; or free the memory, too. */
void pfw_compare_rows_clear(struct pfw_compare_rows *rows);
void pfw_compare_rows_release(struct pfw_compare_rows *rows);
