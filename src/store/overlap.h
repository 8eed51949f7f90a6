/* overlap.h - what was going on at the same time: I/O, compute, communication, copies, loading.
 *
 * For each rank a sweep over time knows at every instant which activities are under way, and adds the
 * time up by that set.  So every union, overlap and difference is a sum of such times, exact to the
 * nanosecond, and those of steps, files and ranks add up.  Definitions: docs/analysis.rst.
 */
#ifndef PFW_OVERLAP_H
#define PFW_OVERLAP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "call.h"
#include "entry.h"
#include "intervals.h"
#include "launch_gaps.h"

struct pfw_select_globs;

enum pfw_activity {
	PFW_ACTIVITY_IO,     /* calls of cat POSIX and STDIO */
	PFW_ACTIVITY_CPU,    /* operators on the CPU */
	PFW_ACTIVITY_GPU,    /* kernels that compute */
	PFW_ACTIVITY_COMM,   /* kernels that communicate */
	PFW_ACTIVITY_COPY,   /* copies and sets of device memory */
	PFW_ACTIVITY_LOAD,   /* waiting for the data loader */
	PFW_ACTIVITY_QUEUED, /* a kernel that is launched and has not begun */
	PFW_ACTIVITIES
};
/* Sets of them: bit 1 << enum pfw_activity each. */
#define PFW_OVERLAP_SETS (1u << PFW_ACTIVITIES)

/* What is counted beside time. */
struct pfw_overlap_sums {
	uint64_t events, io_calls, io_bytes, kernels, copies, copy_bytes;
	uint64_t summed_calls; /* under PFW_MIN_DUR: when they were is not known */
	int64_t summed_ns;
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

/* An I/O call, for series. */
struct pfw_overlap_call {
	int64_t begin, end;
	uint64_t bytes;
};

/* Whose lines they are, by their `process` lines. */
struct pfw_overlap_owner {
	bool known, several; /* ranks */
	int64_t rank;
};

void pfw_overlap_add_owner(struct pfw_overlap_owner *into, const struct pfw_overlap_owner *from);

/* ---- one block of lines ---- */

#define PFW_OVERLAP_NAMES 64u
#define PFW_OVERLAP_KERNELS 16u

struct pfw_overlap_block {
	int64_t since_ns,
		until_ns; /* all is cut to this; the caller's, INT64_MIN and INT64_MAX: not */
	bool keep_calls;  /* the caller's */
	const struct pfw_select_globs
		*compute; /* the caller's: spans by name or cat that compute, too */
	struct pfw_intervals active[PFW_ACTIVITIES];
	struct pfw_overlap_spans steps;
	struct pfw_gap_ends launches, kernels;
	struct pfw_overlap_sums sums;
	struct pfw_overlap_owner owner;
	int64_t least_ns, greatest_ns, last_ns; /* events: least ts, greatest end, greatest ts */
	struct pfw_overlap_call *call;
	size_t calls, call_room;
	struct pfw_overlap_name { /* what calls do, by their names */
		char text[22];
		uint8_t bytes;
		struct pfw_call call;
	} name[PFW_OVERLAP_NAMES];
	struct pfw_overlap_kernel { /* which kernels communicate, by theirs */
		char text[254];
		uint8_t bytes;
		bool communicates;
	} kernel[PFW_OVERLAP_KERNELS];
};

/* NULL: no memory.  Thread: any, as all here; one struct by one thread at a time. */
struct pfw_overlap_block *pfw_overlap_block_create(void);
void pfw_overlap_block_clear(struct pfw_overlap_block *block);
void pfw_overlap_block_free(struct pfw_overlap_block *block);

/* Add a line of kind PFW_ENTRY_EVENT.  0 or -ENOMEM. */
int pfw_overlap_block_add(struct pfw_overlap_block *block, const struct pfw_entry *entry);

/* ---- a rank ---- */

/* A step, from its begin to its end or the begin of the next.  Its time by set: overlap->cell[first ..
 * first + cells - 1], each with the set in the low PFW_ACTIVITIES bits and ns above them. */
struct pfw_overlap_step {
	uint64_t number;
	int64_t begin, end;
	uint32_t first, cells;
};

/* All zero, but for `swept`: empty. */
struct pfw_overlap {
	int64_t least_ns, greatest_ns; /* as in a block; least > greatest: no events */
	int64_t set_ns[PFW_OVERLAP_SETS];
	struct pfw_overlap_owner owner; /* several: this is no one rank, but is told as one */
	struct pfw_overlap_sums sums;
	struct pfw_launch_gaps gaps;
	struct pfw_overlap_step *step;
	uint64_t *cell;
	size_t steps, cells;
	uint64_t steps_left_out; /* beyond the limit: in the totals only */
	/* Told of each stretch of time with one set, in order; NULL: nobody. */
	void (*tell)(void *user, int64_t begin, int64_t end, unsigned set);
	void *user;
	/* Private to overlap.c. */
	struct pfw_union active[PFW_ACTIVITIES];
	struct pfw_overlap_spans spans;
	size_t span; /* the next to begin */
	bool spans_loose, swept, stepping;
	int64_t at_ns, step_end_ns;
	struct pfw_overlap_step now;
	int64_t now_ns[PFW_OVERLAP_SETS];
	struct pfw_intervals queued;
	size_t step_room, cell_room;
};

void pfw_overlap_init(struct pfw_overlap *overlap);
void pfw_overlap_release(struct pfw_overlap *overlap);

/* Take in a block, which is settled by that.  0 or -ENOMEM. */
int pfw_overlap_take(struct pfw_overlap *overlap, struct pfw_overlap_block *block);

/*
 * Sweep up to that time, and give back the memory of what lies before: no later block may have
 * anything there but kernels' waiting, which is cut.  0 or -ENOMEM.
 */
int pfw_overlap_advance(struct pfw_overlap *overlap, int64_t until_ns);

/* Sweep all that is left; then the figures are whole.  0 or -ENOMEM. */
int pfw_overlap_end(struct pfw_overlap *overlap);

/* Give the memory of the steps so far to those that come. */
void pfw_overlap_forget_steps(struct pfw_overlap *overlap);

/* Append a step, or its time of one set; private to the files overlap*.c.  0 or -ENOMEM. */
int pfw_overlap_add_step(struct pfw_overlap *overlap, const struct pfw_overlap_step *step);
int pfw_overlap_add_cell(struct pfw_overlap *overlap, unsigned set, int64_t ns);

#endif
