/* recorder/spool/short_sums.h - sums of short calls per name and file, in the spool.
 *
 * Each thread adds to the table of its ring, without a locked instruction: no other thread writes
 * there.  The writer turns new sums into `summed` lines; recovery does so after a kill.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/format/spool.h"

struct pfw_sum_news;

/* A file name: a string of the spool, or up to two pieces with '/' between them. */
struct pfw_sum_name {
	uint32_t ref; /* 0 = the pieces below */
	const char *directory, *text;
	size_t directory_bytes, bytes; /* both 0 and ref 0: no name */
};

struct pfw_sum_call {
	uint16_t call; /* template */
	bool failed;
	uint64_t ticks;
	uint64_t bytes;
};

/*
 * Add one call.  False: the caller must record it, as no entry is free (all hold calls that are not
 * in the trace yet), or this is a signal handler that has interrupted us.
 * Thread: the ring's owner.  Signal: safe.  Keeps errno.
 */
bool pfw_sums_add(struct pfw_sums_chunk *sums, const struct pfw_sum_call *call,
		  const struct pfw_sum_name *name);

/* The ring has a new owner.  Thread: that one. */
void pfw_sums_taken(struct pfw_sums_chunk *sums);

/* Find the first entry from number *at on with unreported calls: true, and *at is its number.  It
 * counts as reported; pfw_sums_save() notes that in the spool.  Thread: drain. */
bool pfw_sums_next(struct pfw_sums_chunk *sums, uint32_t *at, struct pfw_sum_news *news);

/* Before the header slot of this parity is written: note what is reported.  Thread: drain. */
void pfw_sums_save(struct pfw_sums_chunk *sums, unsigned parity);
