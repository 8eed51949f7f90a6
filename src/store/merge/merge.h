/* store/merge/merge.h - merges lines of many files by ts, file and position, in bounded memory.
 *
 * A block is read when the merge reaches its least ts, which is in its header or is found by a
 * survey beforehand.  So blocks may be in any order, and an early line late in a file costs only
 * its block.  If too many blocks are open, those needed last are dropped and read again later; if
 * that does not help (lines in random order), the open blocks are merged into a sorted run in a
 * temporary file.
 *
 * Room store/merge: the external merge of traces by time, for pfw compact.  Uses store/read,
 * store/gzip, store/line and store/sys.  Start here, then internal.h.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "store/gzip/member.h"
#include "store/merge/rows.h"
#include "store/read/blocks.h"
#include "store/read/scan.h"
#include "store/sys/pool.h"

/* Counts of the lines of a file. */
struct pfw_merge_sum {
	uint64_t lines, metadata, checksum;
};

struct pfw_merge_file {
	const char *path;
	const struct pfw_blocks *blocks;
	int64_t since_ns, until_ns; /* lines that overlap [since, until), and all metadata */
	uint64_t pid;		    /* lines of this process only; 0: all */
	struct pfw_merge_sum sum;   /* output */
};

struct pfw_merge {
	struct pfw_merge_file *file; /* in the order of lines of equal ts */
	size_t count;
	struct pfw_pool *pool;
	size_t budget;		  /* bytes of lines in memory, approximately */
	const char *directory;	  /* of the temporary file */
	const _Atomic bool *stop; /* set by a signal handler; may be NULL */
	/* Order copied members by their first lines, whatever else lies within. */
	bool loose;
	/* Trust no header: read every block beforehand. */
	bool distrust;
	/* rows() accepts lines whose text is still in their files: see struct pfw_rows. */
	bool in_place;
	void *user;
	/* Output the next lines: rows->row[first..first + count). */
	int (*rows)(void *user, const struct pfw_rows *rows, size_t first, size_t count);
	/* Lines of a marked member that is not copied stay together, too: called before and after
	 * them.  NULL: they are merged with all others. */
	int (*apart)(void *user);
	/* Output a marked member verbatim; NULL: never. */
	int (*member)(void *user, size_t file, const struct pfw_block *block,
		      const struct pfw_sorted_mark *mark);
	/* Report a metadata line with its '\n', in any order; may be NULL. */
	int (*metadata)(void *user, size_t file, const char *line, size_t bytes);
	/* Report something that is left out, in any order. */
	void (*problem)(void *user, size_t file, const struct pfw_scan_problem *problem);
	/* Report bytes of progress; may be NULL. */
	void (*progress)(void *user, uint64_t bytes);
	/* Output: blocks read, dropped, and bytes of the temporary file. */
	uint64_t loads, drops, spilled;
};

/* Run it.  Return 0; -ESTALE if a header was wrong: discard the output and begin again with
 * `distrust`; -EINTR, -ENOMEM, the error of a callback, or of reading a file or writing the
 * temporary file (*where is its path).  Thread: the pool's owner. */
int pfw_merge_run(struct pfw_merge *merge, const char **where);
