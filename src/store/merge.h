/* merge.h - the lines of many files in order of ts, then of file, then as they stood, in bounded
 * memory.
 *
 * A block is read when the merge comes to its least ts, which its header says, or a look at it
 * beforehand.  So it does not matter where in a file a block stands, and one early line late in a
 * file costs no more than its block.  Too many blocks open at a time: those wanted last are let go
 * and read again later; where that does not help (lines in no order at all), what is open is merged
 * into a sorted run in a temporary file.
 */
#ifndef PFW_MERGE_H
#define PFW_MERGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "blocks.h"
#include "member.h"
#include "pool.h"
#include "problems.h"
#include "rows.h"

/* What was taken of a file. */
struct pfw_merge_sum {
	uint64_t lines, metadata, checksum;
};

struct pfw_merge_file {
	const char *path;
	const struct pfw_blocks *blocks;
	int64_t since_ns, until_ns; /* what overlaps [since, until), and all metadata */
	uint64_t pid;		    /* lines of this process only; 0: all */
	struct pfw_merge_sum sum;   /* filled in */
};

struct pfw_merge {
	struct pfw_merge_file *file; /* in the order that decides between lines of one ts */
	size_t count;
	struct pfw_pool *pool;
	size_t budget;		   /* bytes of lines in memory, about */
	const char *directory;	   /* for the temporary file */
	const volatile bool *stop; /* set by a signal handler; may be NULL */
	/* Members that are copied stand in order of their first lines, whatever else lies within. */
	bool loose;
	/* Believe no header: read every block beforehand. */
	bool distrust;
	/* rows() takes lines whose text still stands in their files: see struct pfw_rows. */
	bool in_place;
	void *user;
	/* The next lines, in order: rows->row[first..first + count). */
	int (*rows)(void *user, const struct pfw_rows *rows, size_t first, size_t count);
	/* The next lines are those of a marked member, as it stands; NULL: never. */
	int (*member)(void *user, size_t file, const struct pfw_block *block,
		      const struct pfw_mark *mark);
	/* A metadata line, with its '\n'; in no order; may be NULL. */
	int (*metadata)(void *user, size_t file, const char *line, size_t bytes);
	/* Something was left out; in no order. */
	void (*problem)(void *user, size_t file, const struct pfw_scan_problem *problem);
	/* So many more bytes of the files are done; may be NULL. */
	void (*progress)(void *user, uint64_t bytes);
	/* Filled in. */
	uint64_t loads, drops, spilled; /* blocks read, let go, written to the temporary file */
};

/*
 * Run it.  Return 0; -ESTALE where a header has lied: begin again with `distrust`, and forget what
 * was given; -EINTR, -ENOMEM, what a callback said, or why a file cannot be read or the temporary
 * file not be written (*where then points to its path).  Thread: the pool's owner.
 */
int pfw_merge_run(struct pfw_merge *merge, const char **where);

#endif
