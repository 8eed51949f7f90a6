/* store/overlap/marks.h - marks: times at which an index has the state of the overlap's sweep.
 *
 * There is a mark after the last event of each block, so about one per MiB of text.  The index has sums
 * between two marks, and sums of each block.  So a window reads only the blocks that it cuts (window.h).
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "store/overlap/overlap.h"

struct pfw_blob;
struct pfw_varints;

/* Times of sets: marks->time[first .. first + count - 1]. */
struct pfw_overlap_times {
	size_t first, count;
};

/* Where the sweep stood, before steps begin or end there. */
struct pfw_overlap_mark {
	struct pfw_overlap_times since; /* the mark before */
	struct pfw_overlap_times own;	/* of the current step until then */
	bool stepping;
	uint64_t number; /* of the current step */
	int64_t step_end_ns;
};

/* A block: sums of its events, and their times; least > greatest: none. */
struct pfw_overlap_part {
	struct pfw_overlap_sums sums;
	int64_t least_ns, greatest_ns;
};

struct pfw_overlap_marks {
	struct pfw_gap_stretches stretches; /* their ends are the marks; the last one is the end */
	struct pfw_overlap_mark *mark;
	size_t passed, room; /* marks before the time of the sweep */
	struct pfw_overlap_time *time;
	size_t times, time_room;
	struct pfw_overlap_part *part;
	size_t parts, part_room;
	int64_t set_ns[PFW_OVERLAP_SETS]; /* of the overlap, at the mark before */
	bool lost;			  /* a mark came too late: none are known */
};

/* NULL: no memory.  Thread: one at a time, as all here. */
struct pfw_overlap_marks *pfw_overlap_marks_create(void);
void pfw_overlap_marks_free(struct pfw_overlap_marks *marks);

/* Add the times to those of the sets; sign -1: subtract them. */
void pfw_overlap_times_add(const struct pfw_overlap_marks *marks,
			   const struct pfw_overlap_times *times, int64_t *set_ns, int sign);

/* ---- by the sweep; all do nothing if overlap->marks is NULL; 0 or -ENOMEM ---- */

/* After a block was added. */
int pfw_overlap_marks_take(struct pfw_overlap *overlap, const struct pfw_overlap_block *block);
/* Put the marks that are not passed in order: before the sweep goes on. */
void pfw_overlap_marks_sort(struct pfw_overlap *overlap);
/* Pass the marks up to the time of the sweep. */
int pfw_overlap_marks_pass(struct pfw_overlap *overlap);
/* Pass the end. */
int pfw_overlap_marks_end(struct pfw_overlap *overlap);

/* The time of the next mark; INT64_MAX: there is none. */
static inline int64_t pfw_overlap_next_mark(const struct pfw_overlap *overlap)
{
	const struct pfw_overlap_marks *marks = overlap->marks;

	return marks && marks->passed < marks->stretches.count ? marks->stretches.end[marks->passed]
							       : INT64_MAX;
}

/* ---- in an index ---- */

/* Append the marks that were passed, and all blocks; or a 0 if they are of no use. */
void pfw_overlap_marks_put(const struct pfw_overlap *overlap, struct pfw_blob *blob);
/* Read them into overlap->marks, which must be empty.  0, -EBADMSG or -ENOMEM. */
int pfw_overlap_marks_read(struct pfw_overlap *overlap, struct pfw_varints *reader);
