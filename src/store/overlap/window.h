/* store/overlap/window.h - a window of an overlap: its middle from an index, its ends from lines.
 *
 * The middle is the time between two marks.  Blocks are skipped if they lie in the window, and have
 * nothing that the sweep of its ends needs: no event there, and no launch of a kernel there.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "store/overlap/overlap.h"

struct pfw_index;

struct pfw_overlap_window {
	struct pfw_overlap all; /* the whole file, with marks */
	int64_t since_ns, until_ns;
	size_t from, to; /* the marks around the middle: 0 is the begin, n + 1 is marks->mark[n] */
	int64_t from_ns, to_ns;
	uint8_t *skip; /* of each block */
	size_t skipped;
};

/* Find the middle of a window.  Always takes over *all, which was read with marks.  0 with *out for
 * pfw_overlap_window_close(); -ENOENT: there is none; or -ENOMEM.  Thread: one at a time, as all here. */
int pfw_overlap_window_find(struct pfw_overlap_window **out, struct pfw_overlap *all,
			    int64_t since_ns, int64_t until_ns);
/* The same by an index; or -errno as pfw_index_parts(). */
int pfw_overlap_window_open(struct pfw_overlap_window **out, struct pfw_index *index,
			    int64_t since_ns, int64_t until_ns);
void pfw_overlap_window_close(struct pfw_overlap_window *window);

/* Before the first block of lines: add the blocks that are skipped.  The window must last until
 * pfw_overlap_end(), which sets overlap->misfit if the lines lead to another middle.  0 or -ENOMEM. */
int pfw_overlap_use_window(struct pfw_overlap *overlap, const struct pfw_overlap_window *window);

/* For pfw_overlap_end(): sweep to the middle, add its figures, and go on after it.  0 or -ENOMEM. */
int pfw_overlap_jump(struct pfw_overlap *overlap);
