/* index.h - NAME.idx beside a trace: its blocks, and what is in each of them, as a SQLite database.
 *
 * Its tables are public: docs/index.rst.  An index is believed only where it is ours to the letter
 * of its schema, and of this very trace: size, and the CRC of its first and last block.
 */
#ifndef PFW_INDEX_H
#define PFW_INDEX_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "blocks.h"
#include "summary.h"

#define PFW_INDEX_FORMAT 4
#define PFW_INDEX_SUFFIX ".idx"

/* ---- reading ---- */

struct pfw_index; /* opaque: see index_read.c; used by one thread at a time, as all here */

/* The row of the table `meta`. */
struct pfw_index_meta {
	uint64_t trace_bytes;
	enum pfw_layout layout;
	uint64_t blocks, lines, events;
	uint64_t problems;	       /* told while it was built: bad lines, damaged members */
	int64_t least_ns, greatest_ns; /* as in struct pfw_summary */
	int64_t first_ns, last_ns;
	bool sorted, nested;
};

/*
 * Open the index of the trace at that path.  Return 0 with *out for pfw_index_close(); -ENOENT where
 * there is none; -ESTALE where it is not of the trace as it is now; -EBADMSG where it is no index of
 * ours or damaged; another -errno; each with one line in why (size at least 128).
 */
int pfw_index_open(struct pfw_index **out, const char *trace, char *why, size_t size);
void pfw_index_close(struct pfw_index *index);

const struct pfw_index_meta *pfw_index_meta(const struct pfw_index *index);

/* Put the index's blocks, all `summed`, and points in the place of those in *blocks.  0 or -errno; here and
 * below -EBADMSG: the index is damaged, and the trace itself is to be read. */
int pfw_index_blocks(struct pfw_index *index, struct pfw_blocks *blocks);

/* Tables of an index, as bits. */
enum pfw_index_part {
	PFW_INDEX_NAMES = 1 << 0,
	PFW_INDEX_FILES = 1 << 1,
	PFW_INDEX_THREADS = 1 << 2,
	PFW_INDEX_PROCESSES = 1 << 3,
	PFW_INDEX_STEPS = 1 << 4,
	PFW_INDEX_LOSSES = 1 << 5,
	PFW_INDEX_ALL = (1 << 6) - 1,
};

/* Add these parts of the file's totals to a summary, and its times and count of events; of lines
 * with PFW_INDEX_NAMES.  Several files' add up. */
int pfw_index_totals(struct pfw_index *index, unsigned parts, struct pfw_summary *into);

/* The same of some of its blocks: lines, events, times and names. */
int pfw_index_block_totals(struct pfw_index *index, const uint8_t *wanted,
			   struct pfw_summary *into);

/* What may be in a block.  NULL calls and least durations of 0 or less allow anything. */
struct pfw_index_filter {
	void *user;
	/* Whether lines of this cat and name, on this file, of this thread may be wanted.  A line
	 * that is in none of these tables' rows (see PFW_SUMMARY_NAMES_MAX) may always be. */
	bool (*name)(void *user, const char *cat, size_t cat_bytes, const char *name,
		     size_t name_bytes, char ph);
	bool (*file)(void *user, const char *name, size_t bytes);
	bool (*thread)(void *user, uint64_t pid, uint64_t tid);
	int64_t least_dur_ns; /* of a wanted name */
};

/* Set may[i] of each block i (meta->blocks of them) that can hold a wanted line, to 1, else 0. */
int pfw_index_match(struct pfw_index *index, const struct pfw_index_filter *filter, uint8_t *may);

enum pfw_index_order { PFW_INDEX_BY_BYTES, PFW_INDEX_BY_NS, PFW_INDEX_BY_CALLS };

struct pfw_index_top {
	enum pfw_index_order order;
	size_t limit;
	uint64_t bytes, ns, calls; /* found: of all calls, on any file and on none */
};

/* The `limit` files with the most bytes moved, time or calls in all of these indexes together, the
 * greatest first, and of equal ones the first by name: rows 1 to files - 1 of *into, which is empty.
 * Row 0 has the calls on no file, and where its `lines` are not 0 those on files without a row.
 * 0 or -errno; -E2BIG where there are too many files to tell. */
int pfw_index_top_files(struct pfw_index *const *index, size_t count, struct pfw_index_top *top,
			struct pfw_summary *into);

/* ---- writing ---- */

struct pfw_index_writer; /* opaque: see index_write.c; one thread at a time */

/* Begin the index of a trace of about so many bytes: a database beside it that has another name until it
 * is whole, or, `in_memory`, one for pfw_index_compare() alone.  Return 0 with *out for pfw_index_end(); -EBUSY
 * where somebody else is at it; or why not.  Thread: one at a time, as all here. */
int pfw_index_begin(struct pfw_index_writer **out, const char *trace, uint64_t bytes,
		    bool in_memory);

struct pfw_gather;

/* Add the next block, and what is in it; `summary` is merged into the file's.  gather: see index_parts.h;
 * NULL: nothing, of any block.  0 or -errno. */
int pfw_index_add(struct pfw_index_writer *writer, const struct pfw_block *block,
		  struct pfw_summary *summary, struct pfw_gather *gather);

/* Add the next point of a stream of gzip, before the block that it is in.  0 or -errno. */
int pfw_index_add_point(struct pfw_index_writer *writer, const struct pfw_point *point);

/* What was added so far. */
const struct pfw_summary *pfw_index_so_far(const struct pfw_index_writer *writer);

/* Of the trace as it lies there now: its layout, and how many problems were told. */
struct pfw_index_trace {
	enum pfw_layout layout;
	uint64_t problems;
};

/* Write totals, sync, and give it its name; once.  0 or -errno: then the index is what it was. */
int pfw_index_commit(struct pfw_index_writer *writer, const struct pfw_index_trace *trace);

/* Compare with the index that is there.  0, also where it *differs, with one line in `how` (of at
 * least 128 bytes), or -errno. */
int pfw_index_compare(struct pfw_index_writer *writer, const struct pfw_index_trace *trace,
		      bool *differs, char *how, size_t size);

/* Free the writer, and what it has left unfinished. */
void pfw_index_end(struct pfw_index_writer *writer);

#endif
