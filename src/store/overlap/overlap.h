/* store/overlap/overlap.h - activities at the same time: I/O, compute, copies, loading.
 *
 * Room store/overlap: sweeps over the time of each rank and adds up the time of each set of
 * simultaneous activities.  Every union, overlap and difference is a sum of these times, exact to
 * the nanosecond.  It may use store/{partial,index,select,line,math,kit,sys}.  Start with pfw_overlap_take()
 * and sweep() in overlap.c.  Definitions: docs/analysis.rst.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "store/line/io.h"
#include "store/math/intervals.h"
#include "store/overlap/launch_gaps.h"

struct pfw_overlap_marks;
struct pfw_overlap_window;
struct pfw_select_globs;
struct pfw_summary;

enum pfw_activity {
	PFW_ACTIVITY_IO,     /* calls of cat POSIX and STDIO, but on pipes and the like */
	PFW_ACTIVITY_CPU,    /* operators on the CPU */
	PFW_ACTIVITY_GPU,    /* kernels that compute */
	PFW_ACTIVITY_COMM,   /* kernels that communicate */
	PFW_ACTIVITY_COPY,   /* copies and fills of device memory */
	PFW_ACTIVITY_LOAD,   /* waiting for the data loader */
	PFW_ACTIVITY_QUEUED, /* kernels that are launched and have not begun */
	PFW_ACTIVITY_WAIT, /* calls of cat SYNC: a thread waits for a lock, another thread, a time */
	PFW_ACTIVITIES
};
/* A set of activities is a bit mask: 1 << enum pfw_activity. */
#define PFW_OVERLAP_SETS (1u << PFW_ACTIVITIES)
/* A cell of a step holds 56 bits of ns, some two years: bit 63 stays 0. */
#define PFW_OVERLAP_CELL_NS (INT64_MAX >> PFW_ACTIVITIES)
#define PFW_OVERLAP_STEPS_MAX (1u << 20)

/*
 * Counts and sums besides times.  A row of an index has all members, 64 bits each, in this order.
 */
#define PFW_OVERLAP_SUMS 8u
struct pfw_overlap_sums {
	union {
		uint64_t sum[PFW_OVERLAP_SUMS];
		struct {
			uint64_t events, io_calls, io_bytes, kernels, copies, copy_bytes;
			/* Shorter than PFW_MIN_DUR: their times are not known. */
			uint64_t summed_calls;
			int64_t summed_ns;
		};
	};
};

void pfw_overlap_add_sums(struct pfw_overlap_sums *into, const struct pfw_overlap_sums *from);

struct pfw_overlap_span {
	uint64_t number;
	int64_t begin, end;
};

struct pfw_overlap_spans {
	struct pfw_overlap_span *at;
	size_t count, room;
};

/* An I/O call, for time series. */
struct pfw_overlap_call {
	int64_t begin, end;
	uint64_t bytes;
};

/* The rank that wrote the lines, from their `process` lines. */
struct pfw_overlap_owner {
	bool known, several; /* `several` ranks */
	int64_t rank;
};

void pfw_overlap_add_owner(struct pfw_overlap_owner *into, const struct pfw_overlap_owner *from);

/* ---- one block of lines ---- */

#define PFW_OVERLAP_KERNELS 16u

struct pfw_overlap_block {
	int64_t since_ns, until_ns; /* events are cut to this range; set by the caller */
	bool keep_calls, no_bytes;  /* set by the caller; no_bytes: nobody asks for sums of bytes */
	/* Set by the caller before the first line: names or cats of spans that count as compute. */
	const struct pfw_select_globs *compute;
	struct pfw_intervals active[PFW_ACTIVITIES];
	struct pfw_overlap_spans steps;
	struct pfw_gap_ends launches, kernels;
	struct pfw_overlap_sums sums;
	struct pfw_overlap_owner owner;
	int64_t least_ns, greatest_ns, last_ns; /* of events: least ts, greatest end, greatest ts */
	struct pfw_overlap_call *call;
	size_t calls, call_room;
	struct pfw_io_calls io;
	struct pfw_overlap_kernel { /* a cache: whether a kernel communicates, by its name */
		char text[254];
		uint8_t bytes;
		bool communicates;
	} kernel[PFW_OVERLAP_KERNELS];
	struct pfw_overlap_known { /* a cache: what lines are, by entry->named and form */
		uint64_t named, form;
		uint8_t what;	     /* private to block.c */
		uint8_t correlation; /* its pfw_entry_place() */
	} known[PFW_ENTRY_NUMBERS];
};

/* Make an empty block of all times; NULL: no memory.  clear() makes one of zeros, or one that was used, into
 * such a block; its type is that of struct pfw_index_kind, as release()'s.
 * Thread: any, as all here; one struct by one thread at a time. */
struct pfw_overlap_block *pfw_overlap_block_create(void);
void pfw_overlap_block_clear(void *overlap_block);
void pfw_overlap_block_release(void *overlap_block);
void pfw_overlap_block_free(struct pfw_overlap_block *block);

/* Add a line of kind PFW_ENTRY_EVENT.  summary: of the block, to which it was added last; or NULL.  0 or
 * -ENOMEM. */
int pfw_overlap_block_add(void *overlap_block, const struct pfw_entry *entry,
			  const struct pfw_summary *summary);

/* ---- a rank ---- */

/*
 * A step, from its begin to its end or the begin of the next step.  Its times by set are
 * overlap->cell[first .. first + cells - 1]: the set in the low PFW_ACTIVITIES bits, ns above them.
 */
struct pfw_overlap_step {
	uint64_t number;
	int64_t begin, end;
	uint32_t first, cells;
};

struct pfw_overlap_time {
	unsigned set;
	int64_t ns;
};

/* Make it with pfw_overlap_init(). */
struct pfw_overlap {
	int64_t least_ns, greatest_ns; /* as in a block; least > greatest: no events */
	/* The time of each set, rising; after pfw_overlap_end(). */
	struct pfw_overlap_time *time;
	size_t times, time_room;
	struct pfw_overlap_owner owner; /* several: more than one rank, reported as one */
	struct pfw_overlap_sums sums;
	struct pfw_launch_gaps gaps;
	struct pfw_overlap_step *step;
	uint64_t *cell;
	size_t steps, cells;
	uint64_t steps_left_out; /* steps beyond the limit: they count in the totals only */
	/* Called for each interval with one set, in order; or NULL. */
	void (*tell)(void *user, int64_t begin, int64_t end, unsigned set);
	void *user;
	/* Set by the caller: the blocks are in order of time. */
	bool sorted;
	/* If sorted: some kernel waits for longer than the sweep stays behind, so that its time in
	 * QUEUED is not known. */
	bool inexact;
	/* Set by the caller: keep what windows of it need (marks.h), which it then owns; or NULL. */
	struct pfw_overlap_marks *marks;
	/* The middle of a window, which comes from an index (window.h); or NULL. */
	const struct pfw_overlap_window *window;
	bool misfit; /* it does not fit the lines around it: all must be read */
	/* Private to overlap.c and window.c. */
	struct pfw_overlap_sweep *sweep; /* NULL: no block was taken */
	struct pfw_overlap_spans spans;
	size_t span; /* the next span to begin */
	bool spans_loose, swept, stepping;
	int64_t at_ns, step_end_ns;
	struct pfw_overlap_step now;
	struct pfw_intervals queued;
	size_t step_room, cell_room;
};

void pfw_overlap_init(struct pfw_overlap *overlap);
void pfw_overlap_release(struct pfw_overlap *overlap);

/* Add a block, and sort its intervals.  0, or as pfw_sorter_add(). */
int pfw_overlap_take(struct pfw_overlap *overlap, struct pfw_overlap_block *block);

/* As after the blocks before that time, whose sums are already in it.  0 or -ENOMEM. */
int pfw_overlap_begin(struct pfw_overlap *overlap, int64_t at_ns);

/* The calls that are kept, if the lines so far are I/O calls, or have no activity, and are not sorted; else
 * NULL. */
struct pfw_union *pfw_overlap_calls(const struct pfw_overlap *overlap);

/* If sorted: sweep up to that time, and free the memory of all earlier intervals.  Later blocks must
 * not have anything before it; a kernel that waits since then makes the sums `inexact`.  0 or
 * -ENOMEM. */
int pfw_overlap_advance(struct pfw_overlap *overlap, int64_t until_ns);

/* Sweep over the rest; then all sums are complete.  0, or as pfw_sorter_add(). */
int pfw_overlap_end(struct pfw_overlap *overlap);
