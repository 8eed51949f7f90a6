/* store/memory/memory.h - allocations sorted by time, and their sums.
 *
 * Room store/memory: adds up allocations and frees by device, step and owner, from lines (lines.c,
 * count.c) or from indexes (in_index.c, from_index.c).  It may use
 * store/{table,index,summary,pass,line,sys,kit}.  Start with pfw_memory_take(), then count.c.
 * Definitions: docs/analysis.rst.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "store/kit/pair_ids.h"
#include "store/kit/saturate.h"
#include "store/kit/text_ids.h"
#include "store/line/entry.h"
#include "store/pass/steps.h"
#include "store/sys/sorter.h"

#define PFW_MEMORY_NO_STEP UINT64_MAX
#define PFW_MEMORY_SPAN UINT32_MAX

/* An event of kind "memory", or a span, which owns the allocations in it. */
struct pfw_memory_item {
	int64_t ts_ns;
	uint64_t tid, id;
	uint64_t process; /* of its line: see store/traces/processes.h */
	uint32_t pool;	  /* index of the pool; PFW_MEMORY_SPAN: a span */
	bool by_time;	  /* its step follows from its time: see struct pfw_memory */
	union {
		struct {
			int64_t bytes; /* negative: freed */
			uint64_t addr, step;
			/* as the allocator reports; -1: not reported */
			int64_t allocated, reserved;
		};
		struct {
			int64_t end_ns;
			uint64_t text; /* a hash of its name, for order */
			uint32_t name;
		};
	};
};

/* A stretch of time. */
struct pfw_memory_bin {
	int64_t peak, live, reserved; /* -1: not reported */
};

/* The memory of one process on one device. */
struct pfw_memory_pool {
	int64_t rank, device, device_index;
	uint64_t pid, process;
	int64_t first_ns;		      /* of its events */
	uint32_t number;		      /* as its lines came */
	uint64_t allocations, frees, unknown; /* unknown: frees of earlier allocations */
	int64_t allocated_bytes, freed_bytes;
	int64_t live, peak, peak_ts_ns;	       /* sums of the events */
	int64_t most_allocated, most_reserved; /* -1: not reported */
	uint64_t unfreed;
	int64_t unfreed_bytes;
	struct pfw_memory_bin *bin; /* up to the bin of the last event */
	uint64_t bins;
};

/* A step in a pool. */
struct pfw_memory_step {
	uint32_t pool;
	bool begins_free; /* its first event, at first_ns, is no allocation */
	uint64_t step, allocations;
	size_t number; /* private */
	int64_t first_ns;
	int64_t growth, peak, live; /* bytes; `live` at its end */
};

struct pfw_memory_owner {
	uint64_t allocations, unfreed;
	int64_t bytes, greatest, unfreed_bytes;
};

/* An allocation that is not freed. */
struct pfw_memory_block {
	uint64_t addr, step;
	int64_t bytes, ts_ns; /* 0 bytes: a free slot */
	uint32_t pool, owner; /* owner: a name; 0: none */
};

/* The same, freed or not. */
struct pfw_memory_life {
	struct pfw_memory_block block;
	int64_t freed_ns;
	bool freed;
};

/* A hash table by address; all zero: empty. */
struct pfw_memory_blocks {
	struct pfw_memory_block *slot;
	size_t count, slots; /* a power of two */
};

/* Make it with pfw_memory_init().  Thread: one at a time. */
struct pfw_memory {
	/* Set by the caller. */
	uint64_t bins;			 /* of the timeline; 0: none */
	uint64_t lives_most;		 /* the greatest blocks that are wanted; 0: none */
	const struct pfw_steps *by_time; /* the steps of events that do not say one; or NULL */
	/* Results. */
	uint64_t events;
	int64_t least_ns, greatest_ns; /* of the events */
	struct pfw_memory_pool *pool;  /* by rank, process and device after pfw_memory_count() */
	size_t pools, pool_room;
	struct pfw_text_ids names;	/* the first is "" */
	struct pfw_memory_owner *owner; /* of each name */
	size_t owner_room;
	struct pfw_memory_step *step; /* in order of their first events */
	size_t steps, step_room;
	struct pfw_memory_block *unfreed; /* the greatest first */
	size_t unfreeds, unfreed_room;
	struct pfw_memory_life *life; /* the greatest blocks, the greatest first */
	size_t lives, life_room;
	bool followers; /* some event takes its step from another process, or would if that had one */
	/* Private to the room. */
	struct pfw_sorter items;
	struct pfw_pair_ids pool_numbers; /* of (process, device) */
	struct pfw_memory_blocks live;
	bool lives_sorted; /* the first lives_most of them */
	uint64_t *filter;  /* of threads and times that have allocations */
};

/* `budget`: bytes of memory for items before they go to a temporary file.  0 or -ENOMEM. */
int pfw_memory_init(struct pfw_memory *memory, size_t budget);
void pfw_memory_release(struct pfw_memory *memory);

/* ---- the lines of a block; any thread ---- */

struct pfw_memory_span {
	int64_t ts_ns, end_ns;
	uint64_t tid, id, process;
	uint32_t name; /* one of the block's */
};

struct pfw_memory_event {
	struct pfw_memory_item item;
	uint64_t pid;
	int64_t device, device_index;
};

/* All zero: none. */
struct pfw_memory_lines {
	struct pfw_memory_event *event;
	struct pfw_memory_span *span;
	size_t events, spans, event_room, span_room;
	struct pfw_text_ids names; /* of the spans */
};

/* What a line may be: its cat, ph, args.kind and args.device say it. */
enum pfw_memory_class {
	PFW_MEMORY_CLASS_NONE,
	PFW_MEMORY_CLASS_EVENT, /* see pfw_memory_is_event() */
	PFW_MEMORY_CLASS_OWNER, /* an operator, an annotation, or a span of the program's own */
};
enum pfw_memory_class pfw_memory_class_of(const struct pfw_entry *entry);

/* Whether a line of that class allocates or frees: a CUDA memory pool tells its size in lines of its
 * own. */
bool pfw_memory_is_event(const struct pfw_entry *entry);

/* Add an event.  step: NULL if it follows from its time.  0 or -ENOMEM, as the next. */
int pfw_memory_add_event(struct pfw_memory_lines *lines, const struct pfw_entry *entry,
			 const uint64_t *step);

/* The number of an owner's name; or -ENOMEM. */
int64_t pfw_memory_name(struct pfw_memory_lines *lines, const struct pfw_entry *entry);

/* Make a span of a line, all but its name, a member at a time: a copy would wait for their stores. */
static inline void pfw_memory_span_of(struct pfw_memory_span *span, const struct pfw_entry *entry)
{
	span->ts_ns = entry->ts_ns;
	span->end_ns = pfw_saturate_add(entry->ts_ns, entry->dur_ns > 0 ? entry->dur_ns : 0);
	span->tid = entry->tid;
	span->id = pfw_entry_outer(entry);
	span->process = entry->process;
}

void pfw_memory_lines_clear(struct pfw_memory_lines *lines);
void pfw_memory_lines_release(struct pfw_memory_lines *lines);

/* ---- all lines; one thread ---- */

/* Add the events of a block of a file of that rank.  0, or as pfw_sorter_add(), as the next. */
int pfw_memory_take(struct pfw_memory *memory, const struct pfw_memory_lines *lines, int64_t rank);

/* Whether an event that was added may lie in a span.  Most spans have none. */
bool pfw_memory_may_own(const struct pfw_memory *memory, const struct pfw_memory_span *span);

/* Add a span, whose name is one of memory->names. */
int pfw_memory_add_span(struct pfw_memory *memory, const struct pfw_memory_span *span);

/* Add up the items: then all results are complete.  0 or -errno. */
int pfw_memory_count(struct pfw_memory *memory);

/* After pools, steps and blocks of several indexes were added, each to the end: bring them into order.
 * 0 or -ENOMEM. */
int pfw_memory_settle(struct pfw_memory *memory);

/* The length of a bin of the timeline. */
int64_t pfw_memory_bin_ns(const struct pfw_memory *memory);

/* Store the block at its address.  0 or -ENOMEM. */
int pfw_memory_blocks_put(struct pfw_memory_blocks *blocks, const struct pfw_memory_block *block);

/* Remove the block at an address, which *block gets.  False: there was none. */
bool pfw_memory_blocks_take(struct pfw_memory_blocks *blocks, uint32_t pool, uint64_t addr,
			    struct pfw_memory_block *block);
