/* store/compare/rows.h - the calls of each name as `pfw compare` needs them: sums and a sample.
 *
 * Room store/compare: these rows, and how an index keeps them.  Sums are of integers, and samples
 * do not depend on order, so the rows of blocks, files and ranks add up to those of a run, however
 * its lines are split.  It may use store/{table,index,line,math,kit}.  Start here.
 */
#pragma once

#include <stdbool.h>

#include "store/kit/saturate.h"
#include "store/kit/text_ids.h"
#include "store/math/log.h"
#include "store/math/sampled.h"
#include "store/table/line.h"

/* What may be recorded as a whole or not at all: bits of `kinds`. */
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

/* Add a call of that kind to row `number`.  0 or -ENOMEM. */
static inline int pfw_compare_add(struct pfw_compare_rows *rows, int64_t number,
				  const struct pfw_entry *entry, int64_t dur_ns,
				  enum pfw_compare_kind kind)
{
	struct pfw_compare_row *row = &rows->row[number];
	struct pfw_compare_sums *sums = &row->sums;
	unsigned level = pfw_sample_level((uint64_t)entry->ts_ns,
					  entry->id << 32 ^ entry->pid << 16 ^ entry->tid);

	if (!sums->samples || entry->ts_ns < sums->first_ns)
		sums->first_ns = entry->ts_ns;
	if (!sums->samples || entry->ts_ns > sums->last_ns)
		sums->last_ns = entry->ts_ns;
	pfw_saturate_u64(&sums->count, 1);
	pfw_saturate_sum(&sums->total_ns, dur_ns);
	sums->samples++;
	sums->log_sum += pfw_log_ns(dur_ns);
	sums->kinds |= 1u << kind;
	if (level < row->sampled.level)
		return 0;
	return pfw_sampled_add(
		&row->sampled,
		pfw_sample_of(entry->ts_ns, level,
			      (uint64_t)(dur_ns < PFW_SAMPLE_NS_MAX ? dur_ns : PFW_SAMPLE_NS_MAX)),
		rows->most);
}

/* Add the calls of a `summed` line. */
void pfw_compare_add_summed(struct pfw_compare_rows *rows, int64_t number,
			    const struct pfw_table_line *line);

void pfw_compare_add_sums(struct pfw_compare_sums *into, const struct pfw_compare_sums *from);

/* Empty them and keep the memory; or free the memory, too. */
void pfw_compare_rows_clear(struct pfw_compare_rows *rows);
void pfw_compare_rows_release(struct pfw_compare_rows *rows);
