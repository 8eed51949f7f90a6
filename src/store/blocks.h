/* blocks.h - where the blocks of a trace are, so that they can be read in any order.
 *
 * A block is whole lines: one gzip member of ours, or about 1 MiB of plain text (the lines that
 * begin in that MiB of the file), or, where nobody can know what lies where before it is read (a
 * foreign gzip file, a pipe, a file with damage between its members), the next lines of the stream.
 */
#ifndef PFW_BLOCKS_H
#define PFW_BLOCKS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "points.h"

#define PFW_BLOCK_TEXT (1u << 20) /* text of a block, about; one longer line makes it longer */

enum pfw_layout {
	PFW_LAYOUT_TEXT,    /* plain, a regular file: blocks by byte range, known at once */
	PFW_LAYOUT_MEMBERS, /* gzip members that say their length, to the file's end; the last one
			     * may be cut there */
	PFW_LAYOUT_STREAM,  /* anything else: blocks in order only, found while they are read */
};

struct pfw_block {
	uint64_t at;	/* its first byte in the file; in STREAM of the text */
	uint64_t bytes; /* in the file; in STREAM of the text */
	/* From the member's header, or from the index; else all 0. */
	bool summed;
	uint32_t lines;
	int64_t least_ns,
		greatest_ns; /* least ts, greatest ts + dur; least > greatest: no events */
};

struct pfw_blocks {
	enum pfw_layout layout;
	uint64_t file_bytes;
	struct pfw_block *block; /* TEXT and MEMBERS; NULL for STREAM, or from an index */
	size_t count;
	/* STREAM, from an index: where reading can begin, so that blocks of it (then in `block`) can
	 * be read in any order. */
	struct pfw_points points;
};

/* Lay out the file at `path` ("-": standard input).  Reads the headers of members only, and of a pipe
 * nothing.  Return 0, or -errno as pfw_input_open() does.  Thread: any. */
int pfw_blocks_find(struct pfw_blocks *blocks, const char *path);
void pfw_blocks_free(struct pfw_blocks *blocks);

#endif
