/* sums.h - short calls summed per name and file, in the spool (struct pfw_sums_chunk).
 *
 * Each thread adds to the table of its ring, without a lock and without the bus: nobody else writes
 * there.  The writer turns what has come into `summed` lines, and recovery what it had not.
 */
#ifndef PFW_SUMS_H
#define PFW_SUMS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "spool.h"

struct pfw_json;
struct pfw_clock_map;

/* A name in up to two pieces, with '/' between them where there is a directory. */
struct pfw_sum_name {
	uint32_t ref; /* a string of the spool, or 0: the pieces */
	const char *directory, *text;
	size_t directory_bytes, bytes; /* both 0: no name */
};

/* One call. */
struct pfw_sum_call {
	uint16_t call; /* template */
	bool failed;
	uint64_t ticks;
	uint64_t bytes;
};

/*
 * Add one call.  False: there is no room for another file (all entries have calls that are not in
 * the trace yet), or this is a handler that has interrupted us: the caller records it as a line.
 * Thread: the ring's owner.  Signal: safe.  Keeps errno.
 */
bool pfw_sums_add(struct pfw_sums_chunk *sums, const struct pfw_sum_call *call,
		  const struct pfw_sum_name *name);

/* Another thread owns the ring from now on.  Thread: that one. */
void pfw_sums_taken(struct pfw_sums_chunk *sums);

/* What one entry has that the trace does not. */
struct pfw_sum_news {
	uint16_t call;
	uint32_t name;
	uint64_t count, failed, ticks, bytes;
};

/*
 * The next entry, from number *at on, with something to tell: true, and *at is its number.  It then
 * counts as told: pfw_sums_save() notes it in the slots.  Thread: drain.
 */
bool pfw_sums_next(struct pfw_sums_chunk *sums, uint32_t *at, struct pfw_sum_news *news);

/* Note what was told under the parity of the slot about to be written.  Thread: drain. */
void pfw_sums_save(struct pfw_sums_chunk *sums, unsigned parity);

/* Of a dead process's table: what entry `at` has that its last slot had not; false: nothing. */
bool pfw_sums_left(const struct pfw_sum *sum, unsigned parity, struct pfw_sum_news *news);

/* The `summed` line of it.  Thread: drain. */
char *pfw_sums_line(struct pfw_json *json, char *out, const struct pfw_sum_news *news,
		    uint64_t ts_ns);

#endif
