/* memory.h - what the parts of `pfw memory` share: allocations, in order of time, and what they come to.
 */
#ifndef MEMORY_H
#define MEMORY_H

#include "live_lines.h"
#include "store/averages.h"
#include "store/numbers.h"
#include "store/select.h"

#define MEMORY_NO_STEP UINT64_MAX

/* One event of kind "memory". */
struct memory_event {
	int64_t ts_ns, bytes; /* freed: less than 0 */
	uint64_t addr, tid, step;
	int64_t allocated, reserved; /* as the allocator says; -1: it does not */
	uint32_t pool;		     /* whose memory */
	uint32_t process;
	uint32_t owner;		/* a name; 0: none */
	int64_t owner_begin_ns; /* of the innermost span that it is in so far */
};

/* A device's memory, of one process. */
struct memory_pool {
	int64_t rank, device, device_index;
	uint64_t pid;
	uint32_t process;
	uint64_t allocations, frees, unknown; /* unknown: frees of what was allocated before */
	int64_t allocated_bytes, freed_bytes;
	int64_t live, peak, peak_ts_ns;	       /* by adding up */
	int64_t most_allocated, most_reserved; /* -1: not told */
	uint64_t unfreed;
	int64_t unfreed_bytes;
};

/* Of a pool in a step. */
struct memory_step {
	uint32_t pool;
	uint64_t step, allocations;
	int64_t growth, peak, live; /* bytes; at its end */
};

struct memory_owner {
	uint64_t allocations, unfreed;
	int64_t bytes, greatest, unfreed_bytes;
};

struct memory {
	const struct cli_command *command;
	/* What was asked for. */
	struct pfw_select select;
	int64_t row_limit; /* of owners and of what was not freed; -1: none */
	uint64_t bins;	   /* of the timeline; 0: none */
	bool all_runs, quiet;
	unsigned jobs;
	int format;
	/* What was found. */
	struct memory_event *event;
	size_t events, event_room;
	struct memory_pool *pool;
	size_t pools, pool_room;
	struct pfw_numbers processes, pool_numbers; /* of a file and pid; of a process and device */
	struct pfw_averages names;		    /* the first is "" */
	struct memory_step *step;
	size_t steps, step_room;
	struct memory_owner *owner; /* of each name */
	size_t *unfreed;	    /* events */
	size_t unfreed_count, unfreed_room;
	uint64_t problems;
};

/* Read the traces.  0, or -errno after saying why.  Thread: main, as all here. */
int memory_collect(struct memory *memory, struct live_lines *live, const volatile bool *stop);

/* Add up what was read.  0 or -ENOMEM. */
int memory_count(struct memory *memory);

/* Room for one more at the end of an array; NULL: no memory. */
void *memory_more(void *array, size_t count, size_t *room, size_t size);

/* 0 or -ENOMEM. */
int memory_print(const struct memory *memory);

#endif
