/* memory.h - what the parts of `pfw memory` share: allocations and spans, sorted by time, and what they
 * come to.
 */
#ifndef MEMORY_H
#define MEMORY_H

#include <stdio.h>

#include "live_lines.h"
#include "store/averages.h"
#include "store/numbers.h"
#include "store/select.h"
#include "store/sorter.h"

#define MEMORY_NO_STEP UINT64_MAX
#define MEMORY_SPAN UINT32_MAX

/* One event of kind "memory"; or a span, which owns what is allocated in it. */
struct memory_item {
	int64_t ts_ns;
	uint64_t tid;
	uint32_t process;
	uint32_t pool; /* whose memory; MEMORY_SPAN: a span */
	union {
		struct {
			int64_t bytes; /* freed: less than 0 */
			uint64_t addr, step;
			int64_t allocated, reserved; /* as the allocator says; -1: it does not */
		};
		struct {
			int64_t end_ns;
			uint32_t name;
		};
	};
};

/* Of a stretch of time. */
struct memory_bin {
	int64_t peak, live, reserved; /* -1: not told */
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
	struct memory_bin *bin; /* up to that of its last event */
	uint64_t bins;
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

/* What is allocated and not freed. */
struct memory_block {
	uint64_t addr, step;
	int64_t bytes, ts_ns; /* bytes 0: none */
	uint32_t pool, owner; /* a name; 0: none */
};

/* By address, with room for more; all zero: none. */
struct memory_blocks {
	struct memory_block *slot;
	size_t count, slots; /* a power of two */
};

/* A snapshot of torch's allocator among the operands, as a trace. */
struct memory_snapshot {
	FILE *trace;
	char path[32];
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
	struct memory_snapshot *snapshot;
	size_t snapshots;
	/* What was found. */
	struct pfw_sorter items;
	uint64_t events;
	int64_t least_ns, greatest_ns; /* of the events */
	struct memory_pool *pool;
	size_t pools, pool_room;
	struct pfw_numbers processes, pool_numbers; /* of a file and pid; of a process and device */
	struct pfw_averages names;		    /* the first is "" */
	struct memory_step *step;
	size_t steps, step_room;
	struct memory_owner *owner; /* of each name */
	struct memory_blocks blocks;
	uint64_t problems;
};

/* Read the traces.  0, or -errno after saying why.  Thread: main, as all here. */
int memory_collect(struct memory *memory, struct live_lines *live, const volatile bool *stop);

/* Add up what was read; then the slots of `blocks` are sorted, those in use first, the greatest first.
 * 0 or -errno. */
int memory_count(struct memory *memory);

/* What lies at that address is this block from now on.  0 or -ENOMEM. */
int memory_blocks_put(struct memory_blocks *blocks, const struct memory_block *block);

/* Nothing lies there any more.  False: nothing did. */
bool memory_blocks_take(struct memory_blocks *blocks, uint32_t pool, uint64_t addr);

/* Where the time of the course is cut: how long each bin is. */
int64_t memory_bin_ns(const struct memory *memory);

/* 0 or -ENOMEM. */
int memory_print(const struct memory *memory);

#endif
