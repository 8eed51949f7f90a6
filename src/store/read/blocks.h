/* store/read/blocks.h - finds the blocks of a trace, so that they can be read in any order.
 *
 * Room store/read: files as text, blocks and lines, and the damage in them.  It may use store/line,
 * store/gzip, store/sys and store/kit.  Start here, then fetch.h (one block) and input.h (the text
 * of a file); scan.h reads line by line, stream.h block by block.
 *
 * A block has whole lines.  It is one gzip member of ours, or about 1 MiB of plain text (the lines
 * that begin in that MiB), or the next lines of a stream (a foreign gzip file, a pipe, a file with
 * damage between its members), whose places are unknown before it is read.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "store/gzip/seek_points.h"

#define PFW_BLOCK_TEXT (1u << 20) /* text of a block, about; a longer line makes it longer */

enum pfw_layout {
	PFW_LAYOUT_TEXT, /* a plain regular file: blocks by byte range */
	/* gzip members of known length up to the end of the file; the last may be cut */
	PFW_LAYOUT_MEMBERS,
	PFW_LAYOUT_STREAM, /* any other: blocks in order only, found while they are read */
};

/* What the header of a member says of `process` lines. */
enum pfw_block_mark {
	PFW_BLOCK_UNKNOWN,  /* it was not looked at */
	PFW_BLOCK_UNMARKED, /* nothing */
	PFW_BLOCK_MARKED,   /* it has none that precede all lines of the file */
	PFW_BLOCK_HEADS,    /* it begins with such lines, or its header is damaged */
};

struct pfw_block {
	uint64_t at;	/* first byte in the file; in STREAM in the text */
	uint64_t bytes; /* in the file; in STREAM of the text */
	/* From the header of the member, unless that is damaged, or from the index; else all 0. */
	bool summed;
	uint8_t mark; /* enum pfw_block_mark */
	uint32_t lines;
	int64_t least_ns,
		greatest_ns; /* least ts, greatest ts + dur; least > greatest: no events */
};

struct pfw_blocks {
	enum pfw_layout layout;
	uint64_t file_bytes;
	struct pfw_block *block; /* TEXT and MEMBERS; NULL for STREAM, or from an index */
	size_t count;
	/* STREAM with an index: seek points; its blocks are in `block` and read in any order. */
	struct pfw_points points;
};

/* Find the blocks of the file at `path` ("-": standard input).  Only headers of members are read,
 * and nothing of a pipe.  Return 0, or -errno as pfw_input_open() does.  Thread: any. */
int pfw_blocks_find(struct pfw_blocks *blocks, const char *path);
void pfw_blocks_free(struct pfw_blocks *blocks);

/* Whether a file is compacted: all its members are marked and in order. */
struct pfw_marks {
	bool marked; /* every member has a mark */
	bool sorted; /* and no member begins before the previous one ends */
	bool one_pid;
	bool cut;     /* cut by time: some events are missing */
	bool damaged; /* some header was changed since it was written: nothing of it counts here */
	uint64_t lines, metadata, checksum;
};

/* Read the headers of all members.  Return 0, or why the file cannot be read.  Thread: any. */
int pfw_marks_read(struct pfw_marks *marks, const char *path, const struct pfw_blocks *blocks);
