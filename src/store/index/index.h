/* store/index/index.h - NAME.idx of a trace: an SQLite database of its blocks' contents.
 *
 * Room store/index: writes, reads and checks indexes; its tables are public
 * (docs/index_format.rst).  An index is used only if its schema is exactly ours and its proof fits
 * the trace: size, CRCs of the first and last block.  It may use
 * store/{summary,traces,partial,read,pass,line,math,sqlite,sys,kit}.  Start with pfw_index_open() and
 * pfw_index_begin().
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "store/read/blocks.h"
#include "store/read/scan.h"
#include "store/summary/summary.h"

#define PFW_INDEX_FORMAT 10
#define PFW_INDEX_SUFFIX ".idx"

/* ---- reading ---- */

struct pfw_index; /* see internal.h; one thread at a time, as all here */

/* The table `meta`. */
struct pfw_index_meta {
	uint64_t trace_bytes;
	enum pfw_layout layout;
	uint64_t blocks, lines, events;
	uint64_t problems;	       /* reported by its builder: bad lines, damaged members */
	int64_t least_ns, greatest_ns; /* as in struct pfw_summary */
	int64_t first_ns, last_ns;
	bool sorted, nested, untimed;
};

/*
 * Open the index of a trace, which is beside it or in this user's cache.  Return 0 with *out for pfw_index_close(); -ENOENT: there is none;
 * -ESTALE: it is of another state of the trace; -EBADMSG: it is not ours, or damaged; or another
 * -errno; each error with one line in `why` (at least 128 bytes).
 */
int pfw_index_open(struct pfw_index **out, const char *trace, char *why, size_t size);
/* Whether a trace has an index of its present state with all parts; not whether its rows are right. */
bool pfw_index_exists(const char *trace);
/* pfw_index_open() without the line, for a trace that was opened, or the index that a partial has of it:
 * then -EBADMSG if that is damaged. */
struct pfw_trace_file;
struct pfw_traces;
int pfw_index_of(struct pfw_index **out, const struct pfw_trace_file *file);

/* How many `process` lines a trace has, if it is compacted, large and has an index; else 0: see
 * pfw_traces_open_indexed().  Thread: any. */
uint64_t pfw_index_process_lines(const char *trace);

/*
 * The indexes of many files, which threads open ahead of their reader: of thousands of small traces that is
 * most of the work.  pfw_index_ahead() is pfw_index_of() for a file of those for which want() is true, each
 * number greater than the one before.  read(), unless NULL, takes from the index what is asked of it, in the thread
 * that has opened it; its error is that of pfw_index_ahead(), too.
 */
struct pfw_indexes_ahead; /* opaque: see alone.c */
int pfw_indexes_ahead_open(struct pfw_indexes_ahead **out, const struct pfw_traces *traces,
			   unsigned jobs, void *user, bool (*want)(void *user, size_t file),
			   int (*read)(void *user, size_t file, struct pfw_index *index));
int pfw_index_ahead(struct pfw_indexes_ahead *ahead, size_t file, struct pfw_index **out);
void pfw_indexes_ahead_close(struct pfw_indexes_ahead *ahead);

/*
 * An index without its trace, as partials have it: all but the tables that serve to find lines.
 * *image is to be freed.  0 or -errno.
 */
int pfw_index_alone(struct pfw_index *index, uint8_t **image, size_t *bytes);

void pfw_index_close(struct pfw_index *index);

/* Whether a file is an index, of whatever trace and format. */
bool pfw_index_is_one(const char *path);

const struct pfw_index_meta *pfw_index_meta(const struct pfw_index *index);

/* Replace the blocks and points in *blocks by those of the index; all blocks are `summed`.  0 or
 * -errno; here and below -EBADMSG: the index is damaged, read the trace instead. */
int pfw_index_blocks(struct pfw_index *index, struct pfw_blocks *blocks);

/* Whether these are its blocks, and their lines are all that it was made of: none was bad, or had no time. */
bool pfw_index_has_blocks(struct pfw_index *index, const struct pfw_blocks *blocks);

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

/* Add these tables to a summary, and the times and the count of events; PFW_INDEX_NAMES also adds
 * the count of lines.  Several indexes add up. */
int pfw_index_totals(struct pfw_index *index, unsigned parts, struct pfw_summary *into);

/* The same for some blocks: lines, events, times and names. */
int pfw_index_block_totals(struct pfw_index *index, const uint8_t *wanted,
			   struct pfw_summary *into);

/* Conditions for lines.  NULL calls, and durations of 0 or less, allow all. */
struct pfw_index_filter {
	void *user;
	/* Whether lines of this cat and name, file or thread may be wanted.  Lines without a row in
	 * these tables (see PFW_SUMMARY_NAMES_MAX) always may. */
	bool (*name)(void *user, const char *cat, size_t cat_bytes, const char *name,
		     size_t name_bytes, char ph);
	bool (*file)(void *user, const char *name, size_t bytes);
	bool (*thread)(void *user, uint64_t pid, uint64_t tid);
	int64_t least_dur_ns; /* of lines of a wanted name */
};

/* Set may[i] to 1 if block i (of meta->blocks) can have a wanted line, else to 0; and longest_ns[i],
 * unless that is NULL, to the longest `dur` of its lines of wanted names, INT64_MIN: none has one. */
int pfw_index_match(struct pfw_index *index, const struct pfw_index_filter *filter, uint8_t *may,
		    int64_t *longest_ns);

/* Call take() with the problems of the trace, as its builder found them.  0 or -errno; -ENOENT: not all of
 * them are kept, so the lines must be read. */
int pfw_index_problems(struct pfw_index *index, void *user,
		       int (*take)(void *user, const struct pfw_scan_problem *problem));

enum pfw_index_order { PFW_INDEX_BY_BYTES, PFW_INDEX_BY_NS, PFW_INDEX_BY_CALLS };

struct pfw_index_top {
	enum pfw_index_order order;
	size_t limit;
	uint64_t bytes, ns, calls; /* out: sums of all calls, also those on no file */
};

/* The indexes of many traces, of which only some are open at a time: one takes two descriptors, or
 * tens of KiB out of a partial. */
#define PFW_INDEXES_OPEN 64u
struct pfw_indexes {
	const struct pfw_trace_file *file;
	size_t count;
	struct pfw_index *open[PFW_INDEXES_OPEN]; /* the first ones */
	struct pfw_index *other; /* the last one of the others that was asked for */
	size_t number;		 /* of `other` */
};

/* The index of a file, until that of another file is asked for.  0, or as pfw_index_of().  Thread:
 * one at a time. */
int pfw_indexes_get(struct pfw_indexes *indexes, size_t file, struct pfw_index **out);
void pfw_indexes_close(struct pfw_indexes *indexes);

/*
 * Find the `limit` files with the most bytes, time or calls in all these indexes together: rows 1
 * to files - 1 of *into (empty at first), the greatest first, equal ones by name.  Row 0 has the
 * calls on no file, and if its `lines` are not 0, those on files without a row.  0 or -errno;
 * -E2BIG if there are too many files.
 */
int pfw_index_top_files(struct pfw_indexes *indexes, struct pfw_index_top *top,
			struct pfw_summary *into);

/* ---- writing ---- */

struct pfw_index_writer; /* see internal.h; one thread at a time */

enum pfw_index_place {
	PFW_INDEX_ASKED,     /* beside the trace, or in the cache if nothing can be made there */
	PFW_INDEX_UNASKED,   /* the same, but see pfw_index_may_be_beside() */
	PFW_INDEX_BESIDE,    /* beside it or nowhere */
	PFW_INDEX_IN_MEMORY, /* for pfw_index_compare() only */
};

/*
 * Begin an index for a trace of about that many bytes: a database under a temporary name.  Return 0
 * with *out for pfw_index_end(); -EBUSY if another process makes it; or another -errno.  Thread:
 * one at a time, as all here.
 */
int pfw_index_begin(struct pfw_index_writer **out, const char *trace, uint64_t bytes,
		    enum pfw_index_place place);

/* Where it is in the cache; NULL: it is beside the trace. */
const char *pfw_index_cached_at(const struct pfw_index_writer *writer);

struct pfw_gather;

/* Add the next block; merge `summary` into the file's.  gather: see parts.h; NULL for all blocks:
 * no parts.  0 or -errno. */
int pfw_index_add(struct pfw_index_writer *writer, const struct pfw_block *block,
		  struct pfw_summary *summary, struct pfw_gather *gather);

/* Add the next seek point of a gzip stream, before the block that has it.  0 or -errno. */
int pfw_index_add_point(struct pfw_index_writer *writer, const struct pfw_point *point);

/* Keep a problem of the trace, unless there are many, or it is one of this moment.  0 or -errno. */
int pfw_index_add_problem(struct pfw_index_writer *writer, const struct pfw_scan_problem *problem);

/* The summary of all blocks so far. */
const struct pfw_summary *pfw_index_so_far(const struct pfw_index_writer *writer);

/* ---- adding to an index ---- */

/* Open the index of a trace that has grown since the index was made.  Return 0; -errno if there is none. */
int pfw_index_open_shorter(struct pfw_index **out, const char *trace);

/*
 * Replace *blocks, a copy of what pfw_blocks_find() found, by the blocks of the older index and then
 * the blocks that the trace has grown by.  blocks->block may be reallocated; the caller frees it.
 * Return 0; -ENOTSUP if nothing can be added to the older index, because a kind of parts has no
 * state to continue from, or a limit was reached; or -errno.
 */
int pfw_index_extend(struct pfw_index *older, const char *trace, struct pfw_blocks *blocks);

/* Take over the totals of the older index and the rows of its blocks, before the first
 * pfw_index_add().  Return 0 or -errno.  After this call pfw_index_commit() may return -EAGAIN: the
 * index must be made anew. */
int pfw_index_resume(struct pfw_index_writer *writer, struct pfw_index *older);

/* The trace as it is now: layout and number of reported problems. */
struct pfw_index_trace {
	enum pfw_layout layout;
	uint64_t problems;
	unsigned jobs; /* threads that may make the last rows */
};

/* Write the totals, sync and rename; once.  0 or -errno: then the old index is unchanged. */
int pfw_index_commit(struct pfw_index_writer *writer, const struct pfw_index_trace *trace);

/* Compare with the index on disk.  0 and *differs, with one line in `how` (at least 128 bytes), or
 * -errno. */
int pfw_index_compare(struct pfw_index_writer *writer, const struct pfw_index_trace *trace,
		      bool *differs, char *how, size_t size);

/* Free the writer, and remove an unfinished index. */
void pfw_index_end(struct pfw_index_writer *writer);
