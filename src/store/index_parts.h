/* index_parts.h - what an index keeps of a trace beside its summaries, by kind: overlaps, patterns.
 *
 * To keep one more: write a struct pfw_index_kind, and name it in the table of index_parts.c.  While
 * an index is made (by `pfw index`, or in compact's pass) each block has a struct of the kind's own,
 * to which the thread that has the block adds the lines; behind that it is given to the file's
 * struct, block by block in order, one at a time, which makes a row of the table `part` of it or
 * nothing, and another row when all is read.  `pfw index --check` and `pfw validate` make them again and
 * compare, so the rows of one trace must always be the same bytes.
 */
#ifndef PFW_INDEX_PARTS_H
#define PFW_INDEX_PARTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "entry.h"

struct pfw_blob;
struct pfw_fnames;
struct pfw_index;

struct pfw_index_kind {
	const char *name;
	unsigned number;  /* its place among the rows of `part`; no other kind's, ever */
	unsigned version; /* of its rows: others are not there for who reads them */
	bool sorted;	  /* kept only of compacted files, whose lines are in order of ts */
	/* NULL: no memory.  The others as free(NULL) for NULL. */
	void *(*block_create)(void);
	void (*block_clear)(void *block);
	void (*block_free)(void *block);
	/* A line of kind PFW_ENTRY_EVENT; fnames as in struct pfw_summary.  0 or -ENOMEM.  Any thread. */
	int (*add)(void *block, const struct pfw_entry *entry, const struct pfw_fnames *fnames);
	void *(*file_create)(void);
	void (*file_free)(void *file);
	/* The next block is whole; what is in *data (empty at first) afterwards is its row.  0 or
	 * -errno. */
	int (*take)(void *file, void *block, struct pfw_blob *data);
	/* All is read; the row's block is the number of blocks. */
	int (*end)(void *file, struct pfw_blob *data);
};

#define PFW_INDEX_KINDS_MAX 8

/* Which kinds are kept of a file, as bits.  Thread: any. */
unsigned pfw_index_kinds(bool sorted);

/* What is gathered of one block.  All zero: nothing yet. */
struct pfw_gather {
	unsigned kinds;
	void *block[PFW_INDEX_KINDS_MAX];
};

/* Begin a block.  0 or -ENOMEM.  Thread: the one that has the block, as the next. */
int pfw_gather_begin(struct pfw_gather *gather, unsigned kinds);
int pfw_gather_add(struct pfw_gather *gather, const struct pfw_entry *entry,
		   const struct pfw_fnames *fnames);
void pfw_gather_release(struct pfw_gather *gather);

/*
 * The rows of a kind: take(user, block, data, bytes), in order of blocks, the one behind the last
 * block last.  Return 0; -ENOENT where the index has none of this kind and version (or not the last);
 * -EBADMSG, or what take() said.  Thread: as for the index.
 */
int pfw_index_parts(struct pfw_index *index, const struct pfw_index_kind *kind, void *user,
		    int (*take)(void *user, uint64_t block, const uint8_t *data, size_t bytes));

#endif
