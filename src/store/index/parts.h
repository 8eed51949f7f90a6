/* store/index/parts.h - the parts of an index besides summaries, by kind: overlaps, patterns.
 *
 * To add a kind, define a struct pfw_index_kind, and list it in store/kinds.c.  An index of a trace
 * that has grown is made anew unless all its kinds are `untouched` or can `resume`.  While an index is
 * made (by `pfw index`, or in compact's pass), each block has a struct of the kind; the thread of
 * the block adds its lines.  Then the file's struct takes the blocks, in order and one at a time;
 * each may become a row of the table `part`, and the end another one.  `pfw index --check` and `pfw
 * validate` make the rows again and compare, so they must be deterministic.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "store/kit/varint.h"
#include "store/line/entry.h"
#include "store/summary/summary.h"

struct pfw_blob;
struct pfw_index;

/* Lines, as bits. */
#define PFW_INDEX_CLASSES 4
enum pfw_index_lines {
	PFW_INDEX_CALLS = 1 << 0, /* of pfw_is_io() */
	PFW_INDEX_SPANS = 1 << 1, /* other lines of ph X */
	PFW_INDEX_OWN = 1 << 2,	  /* of ph M */
	PFW_INDEX_OTHERS = 1 << 3,
	PFW_INDEX_LINES = (1 << PFW_INDEX_CLASSES) - 1
};

typedef int pfw_index_add_line(void *block, const struct pfw_entry *entry,
			       const struct pfw_summary *summary);

#define PFW_INDEX_MORES 3u

struct pfw_index_kind {
	const char *name;
	unsigned number;  /* in the ids of rows in `part`; unique forever */
	unsigned version; /* of its rows; readers ignore rows of other versions */
	/* A block's struct, all zero, becomes an empty one, as one that was used does. */
	size_t block_bytes;
	void (*block_clear)(void *block);
	/* After block_clear(), if the lines that follow are of another file.  NULL: no matter. */
	void (*block_other)(void *block);
	/* Free what it holds. */
	void (*block_release)(void *block);
	unsigned wants; /* which lines add() gets: enum pfw_index_lines */
	/* Add a line of kind PFW_ENTRY_EVENT, which was added to the summary last.  0 or -ENOMEM.  Any
	 * thread. */
	pfw_index_add_line *add;
	/* Begin with a file's struct, all zero; file_release() follows also after an error.  NULL: nothing to
	 * do. */
	size_t file_bytes;
	int (*file_init)(void *file);
	/* After file_init(), of a compacted file: its blocks are in order of time.  NULL: no matter. */
	void (*sorted)(void *file);
	/* After file_init(), if take() may not return -EAGAIN.  NULL: no matter. */
	void (*once)(void *file);
	void (*file_release)(void *file);
	/* Take the next block, and append its row, if there is one, to *data (empty at first).  0 or
	 * -errno, as the next ones; pfw_blob_put() and the like need no check.  -EAGAIN: the index must be
	 * made anew, by a file's struct that is told `once`. */
	int (*take)(void *file, void *block, struct pfw_blob *data);
	/* After the last block: append the last row, whose block is the number of blocks. */
	int (*end)(void *file, struct pfw_blob *data);
	/* After end(), in this order: append rows that are read apart, whose blocks are one more each.
	 * NULL: none.  An index that has grown is made anew if one was not empty, or would not be. */
	int (*more[PFW_INDEX_MORES])(void *file, struct pfw_blob *data);
	/* Whether a file's struct that took lines of no other names is as file_init() made it, so
	 * that an index can be added to.  NULL: never, then it is made anew. */
	bool (*untouched)(const struct pfw_summary *names);
	/* Instead of `untouched`: make a file's struct, as file_init() made it, into what it was before
	 * end() appended this last row.  0 or -errno.  Then take() or end() may return -EAGAIN: the index
	 * must be made anew. */
	int (*resume)(void *file, struct pfw_varints *row);
	/* Before end(), if the last row is not enough: append, in at most so many bytes, what
	 * resume_more() needs after resume().  Nothing: the index cannot be added to.  NULL: the last row
	 * is enough. */
	int (*state)(void *file, struct pfw_blob *data, size_t most);
	int (*resume_more)(void *file, struct pfw_varints *row);
	bool many; /* take() makes rows, too: resume() and readers get all of them */
};

#define PFW_INDEX_KINDS_MAX 8

/* All kinds; defined in store/kinds.c, because index may not use the rooms that have them. */
extern const struct pfw_index_kind *const pfw_index_kind_table[];
extern const size_t pfw_index_kind_count;

/* Make an empty struct of a block or a file; NULL: no memory.  Free it, unless it is NULL.  Thread: any. */
void *pfw_index_new_block(const struct pfw_index_kind *kind);
void *pfw_index_new_file(const struct pfw_index_kind *kind);
void pfw_index_free_block(const struct pfw_index_kind *kind, void *block);
void pfw_index_free_file(const struct pfw_index_kind *kind, void *file);

/* The parts of one block.  All zero: none yet. */
struct pfw_gather {
	bool sorted, once; /* see struct pfw_index_kind */
	size_t file;	   /* whose block it was last */
	void *block[PFW_INDEX_KINDS_MAX];
	/* Which kinds get a line of each class; after the last one `add` is NULL. */
	struct pfw_gather_to {
		pfw_index_add_line *add;
		void *block;
	} to[PFW_INDEX_CLASSES][PFW_INDEX_KINDS_MAX + 1];
};

/* Begin a block of the file of that number.  0 or -ENOMEM.  Thread: that of the block, as the next. */
int pfw_gather_begin(struct pfw_gather *gather, size_t file, bool sorted, bool once);
void pfw_gather_release(struct pfw_gather *gather);

/* Inline: this runs for every line. */
static inline int pfw_gather_add(struct pfw_gather *gather, const struct pfw_entry *entry,
				 const struct pfw_summary *summary)
{
	unsigned line = summary->last.io   ? PFW_INDEX_CALLS
			: entry->ph == 'X' ? PFW_INDEX_SPANS
			: entry->ph == 'M' ? PFW_INDEX_OWN
					   : PFW_INDEX_OTHERS;
	int error = 0;

	for (const struct pfw_gather_to *to = gather->to[__builtin_ctz(line)]; to->add && !error;
	     to++)
		error = to->add(to->block, entry, summary);
	return error;
}

/* A row, of which *row has the bytes.  0 or -errno; row->bad is -EBADMSG, too. */
typedef int pfw_index_take(void *user, struct pfw_varints *row, bool last);

/* The rows of end(), and before it, if there are `many`, of take(); of more[], the first and so on; of
 * state(). */
enum pfw_index_which {
	PFW_INDEX_END,
	PFW_INDEX_MORE,
	PFW_INDEX_STATE = PFW_INDEX_MORE + PFW_INDEX_MORES
};

/*
 * Call take() for the rows of a kind, in order of blocks, the last row last.  Return 0; -ENOENT if the
 * index has no rows of this kind and version, or not the last; -EBADMSG, or the error of take().
 * Thread: as for the index.
 */
int pfw_index_parts(struct pfw_index *index, const struct pfw_index_kind *kind,
		    enum pfw_index_which which, void *user, pfw_index_take *take);
