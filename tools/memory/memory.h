/* tools/memory/memory.h - allocations and spans sorted by time, and their sums.
 *
 * Room tools/memory: `pfw memory` shows peaks, growth and owners of allocations.  It may use
 * tools/share, tools/ui and the store.  Start with memory.c; collect.c reads, count.c adds up,
 * print.c prints; snapshot.c and pickle.c read snapshots of PyTorch's allocator.
 */
#pragma once

#include <stdio.h>

#include "share/survey.h"
#include "store/kit/pair_ids.h"
#include "store/nesting/averages.h"
#include "store/sys/sorter.h"

#define MEMORY_NO_STEP UINT64_MAX
#define MEMORY_SPAN UINT32_MAX

/* An event of kind "memory", or a span, which owns the allocations in it. */
struct memory_item {
	int64_t ts_ns;
	uint64_t tid, id;
	uint64_t process; /* of its line: see store/traces/processes.h */
	uint32_t pool;	  /* index of the pool; MEMORY_SPAN: a span */
	union {
		struct {
			int64_t bytes; /* negative: freed */
			uint64_t addr, step;
			/* as the allocator reports; -1: not reported */
			int64_t allocated, reserved;
		};
		struct {
			int64_t end_ns;
			uint32_t name;
		};
	};
};

/* A stretch of time. */
struct memory_bin {
	int64_t peak, live, reserved; /* -1: not reported */
};

/* The memory of one process on one device. */
struct memory_pool {
	int64_t rank, device, device_index;
	uint64_t pid, process;
	uint32_t number;		      /* as its lines came */
	uint64_t allocations, frees, unknown; /* unknown: frees of earlier allocations */
	int64_t allocated_bytes, freed_bytes;
	int64_t live, peak, peak_ts_ns;	       /* sums of the events */
	int64_t most_allocated, most_reserved; /* -1: not reported */
	uint64_t unfreed;
	int64_t unfreed_bytes;
	struct memory_bin *bin; /* up to the bin of the last event */
	uint64_t bins;
};

/* A step in a pool. */
struct memory_step {
	uint32_t pool;
	uint64_t step, allocations;
	int64_t growth, peak, live; /* bytes; `live` at its end */
};

struct memory_owner {
	uint64_t allocations, unfreed;
	int64_t bytes, greatest, unfreed_bytes;
};

/* An allocation that is not freed. */
struct memory_block {
	uint64_t addr, step;
	int64_t bytes, ts_ns; /* 0 bytes: a free slot */
	uint32_t pool, owner; /* owner: a name; 0: none */
};

/* The same, freed or not. */
struct memory_life {
	struct memory_block block;
	int64_t freed_ns;
	bool freed;
};

/* A hash table by address; all zero: empty. */
struct memory_blocks {
	struct memory_block *slot;
	size_t count, slots; /* a power of two */
};

/* A snapshot of torch's allocator as a temporary trace. */
struct memory_snapshot {
	FILE *trace;
	char path[32];
};

struct memory {
	struct survey survey;
	/* Options. */
	struct pfw_select select;
	uint64_t bins;	     /* of the timeline; 0: none */
	uint64_t lives_most; /* the greatest blocks that are shown; 0: none */
	struct memory_snapshot *snapshot;
	size_t snapshots;
	/* Results. */
	struct pfw_sorter items;
	uint64_t events;
	int64_t least_ns, greatest_ns; /* of the events */
	struct memory_pool *pool;      /* by rank, process and device after memory_count() */
	size_t pools, pool_room;
	struct pfw_pair_ids pool_numbers; /* of (process, device) */
	struct pfw_averages names;	  /* the first is "" */
	struct memory_step *step;
	size_t steps, step_room;
	struct memory_owner *owner; /* of each name */
	struct memory_blocks blocks;
	struct memory_life *life; /* the greatest blocks, after memory_count() the greatest first */
	size_t lives, life_room;
};

/* Read the traces.  0 or -errno.  Thread: main, as all here. */
int memory_collect(struct memory *memory, struct survey_input *input);

/* Add up the items.  Afterwards the slots of `blocks` are sorted by size, the largest first and
 * free slots last.  0 or -errno. */
int memory_count(struct memory *memory);

/* Store the block at its address.  0 or -ENOMEM. */
int memory_blocks_put(struct memory_blocks *blocks, const struct memory_block *block);

/* Remove the block at an address, which *block gets.  False: there was none. */
bool memory_blocks_take(struct memory_blocks *blocks, uint32_t pool, uint64_t addr,
			struct memory_block *block);

/* The length of a bin of the timeline. */
int64_t memory_bin_ns(const struct memory *memory);

/* 0 or -ENOMEM. */
int memory_print(const struct memory *memory);

/*
 * Write a snapshot of PyTorch's allocator (torch.cuda.memory._dump_snapshot), the pickle at `path`,
 * as a trace to a temporary file without a name, which the caller closes.  0, or -errno with `why`.
 * Each function that allocates becomes a thread with one span of its name, since allocations belong
 * to their thread's spans.  Time and memory are linear in the file, whatever its values share: at
 * most 256 bytes of trace, and 100 of memory, for each of its bytes.  -EINTR if *stop is set.
 */
int snapshot_open(FILE **trace, const char *path, const _Atomic bool *stop, char *why, size_t size);
