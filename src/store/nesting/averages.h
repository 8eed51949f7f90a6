/* store/nesting/averages.h - sums of events by group: the rows of a table.
 *
 * A row's key is any bytes; the caller defines their meaning.  Each thread adds to rows of its own,
 * which are merged at the end.  Rows are numbered in order of their first use.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "store/kit/saturate.h"
#include "store/kit/text_ids.h"
#include "store/math/sketch.h"
#include "store/nesting/nesting.h"

#define PFW_TALLY_SUMS 11u

/* The sums of a row's events.  All zero: no event. */
struct pfw_tally {
	uint64_t count;
	union {
		int64_t sum[PFW_TALLY_SUMS];
		struct {
			int64_t total_ns, self_ns;
			int64_t device_ns, self_device_ns;
			int64_t cpu_memory, self_cpu_memory;
			int64_t device_memory, self_device_memory;
			int64_t flops;
			int64_t bytes, transfer_ns; /* of `transfers` calls that move data */
		};
	};
	uint64_t transfers;
	/* Of the `timed` events whose single duration is known. */
	uint64_t timed;
	int64_t min_ns, max_ns;
	/* The row's first event in a table sorted by begin: of those with the least begin the longest, of
	 * several of these one without a parent. */
	int64_t first_ns, first_dur_ns;
	bool first_inside; /* it has a parent */
};

struct pfw_average {
	const char *key;
	uint32_t key_bytes;
	uint32_t merged; /* the row's number in the averages that these were merged into */
	struct pfw_tally sums;
	struct pfw_sketch durations;
};

/* All zero: empty. */
struct pfw_averages {
	struct pfw_average *row;
	uint32_t count;
	/* Private to averages.c. */
	size_t room;
	struct pfw_text_ids keys; /* numbers of the rows */
	uint32_t next; /* the row after the last one found: many are looked for in one order */
};

/* Note the begin of an event that is being added.  Thread: one at a time, as all here. */
void pfw_tally_begin(struct pfw_tally *sums, int64_t start_ns, int64_t dur_ns, bool inside);

/* Add the duration of an event that was noted. */
static inline void pfw_tally_time(struct pfw_tally *sums, int64_t dur_ns)
{
	if (!sums->timed || dur_ns < sums->min_ns)
		sums->min_ns = dur_ns;
	if (!sums->timed || dur_ns > sums->max_ns)
		sums->max_ns = dur_ns;
	sums->timed++;
	sums->count++;
	pfw_saturate_sum(&sums->total_ns, dur_ns);
}

/* Add a call without its self time. */
static inline void pfw_tally_call(struct pfw_tally *sums, int64_t start_ns, int64_t dur_ns)
{
	if (!sums->count || start_ns <= sums->first_ns)
		pfw_tally_begin(sums, start_ns, dur_ns, false);
	pfw_tally_time(sums, dur_ns);
}

/* Add what a call moved. */
static inline void pfw_tally_transfers(struct pfw_tally *sums, uint64_t transfers, int64_t bytes,
				       int64_t dur_ns)
{
	pfw_saturate_u64(&sums->transfers, transfers);
	pfw_saturate_sum(&sums->bytes, bytes);
	pfw_saturate_sum(&sums->transfer_ns, dur_ns);
}

/* The same of one whose duration is unknown. */
void pfw_tally_untimed(struct pfw_tally *sums, int64_t start_ns);

/* Add a piece of GPU work. */
void pfw_tally_device(struct pfw_tally *sums, int64_t start_ns, int64_t dur_ns);

/* Add a span that has been nested. */
void pfw_tally_nested(struct pfw_tally *sums, const struct pfw_nested *nested);

void pfw_tally_merge(struct pfw_tally *into, const struct pfw_tally *from);

/* Free the rows; *averages is empty then. */
void pfw_averages_release(struct pfw_averages *averages);

/* The number of the row with that key, which is added if it does not exist; or -ENOMEM. */
int64_t pfw_averages_row(struct pfw_averages *averages, const char *key, size_t bytes);

/* The number of the row with that key, or -ENOENT. */
int64_t pfw_averages_find(struct pfw_averages *averages, const char *key, size_t bytes);

/* Add all rows of `from`, and set their `merged`.  Return 0 or -ENOMEM. */
int pfw_averages_merge(struct pfw_averages *into, struct pfw_averages *from);

/* Make the keys of rows as short as bytes() says, and merge rows whose keys become the same.  It takes no
 * memory: there may be a million.  Return 0, or -ENOMEM: durations are missing. */
int pfw_averages_shorten(struct pfw_averages *averages,
			 size_t (*bytes)(void *user, const struct pfw_average *row), void *user);
