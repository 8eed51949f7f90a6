/* averages.h - events added up by what they are grouped by: the rows of a table.
 *
 * A row's key is any bytes; who makes them says what they mean.  Each thread adds to rows of its
 * own, which are merged in the end: rows are numbered in order of their first use.
 */
#ifndef PFW_AVERAGES_H
#define PFW_AVERAGES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "arena.h"
#include "nesting.h"
#include "sketch.h"

/* What is known of the events of a row.  All zero: nothing. */
struct pfw_sums {
	uint64_t count;
	int64_t total_ns, self_ns;
	int64_t device_ns, self_device_ns;
	int64_t cpu_memory, self_cpu_memory;
	int64_t device_memory, self_device_memory;
	int64_t flops;
	/* Of those whose single duration is known: timed of them. */
	uint64_t timed;
	int64_t min_ns, max_ns;
	/* Of calls that move data. */
	uint64_t transfers;
	int64_t bytes, transfer_ns;
	/* The event that a table in order of begins has first: the longest of those that begin first. */
	int64_t first_ns, first_dur_ns;
	bool first_inside; /* it has a parent */
};

struct pfw_average {
	const char *key;
	uint32_t key_bytes;
	uint32_t merged; /* its row in the averages that these were merged into */
	uint64_t hash;
	struct pfw_sums sums;
	struct pfw_sketch durations;
};

struct pfw_averages {
	struct pfw_average *row;
	uint32_t count;
	/* Private to averages.c. */
	uint32_t room;
	uint32_t *slot; /* row + 1 */
	uint32_t slots; /* a power of two */
	uint64_t seed;
	struct pfw_arena texts;
};

/* An event that begins there is in the row: it counts for where the row stands, see `first_ns`.
 * Thread: one at a time for all of these. */
void pfw_sums_begin(struct pfw_sums *sums, int64_t start_ns, int64_t dur_ns, bool inside);

/* Add one event of that length, of the device or not. */
void pfw_sums_time(struct pfw_sums *sums, int64_t dur_ns);

/* Add a span that has been nested. */
void pfw_sums_nested(struct pfw_sums *sums, const struct pfw_nested *nested);

void pfw_sums_merge(struct pfw_sums *into, const struct pfw_sums *from);

/* Make them empty; one of them is to be released even after that. */
void pfw_averages_init(struct pfw_averages *averages);
void pfw_averages_release(struct pfw_averages *averages);

/* The number of the row with that key, made where there is none; or -ENOMEM. */
int64_t pfw_averages_row(struct pfw_averages *averages, const char *key, size_t bytes);

/* Add all rows of `from`, whose `merged` then say where.  Return 0 or -ENOMEM. */
int pfw_averages_merge(struct pfw_averages *into, struct pfw_averages *from);

#endif
