/* patterns.h - how files are used: sizes and places of reads and writes, as Darshan counts them.
 *
 * A block's lines become operations, which any thread may make; they are taken in order, file by file,
 * since where a read or a write is follows from those before it on the same descriptor.
 */
#ifndef PFW_PATTERNS_H
#define PFW_PATTERNS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "call.h"
#include "entry.h"
#include "names.h"
#include "numbers.h"

struct pfw_fnames;

#define PFW_PATTERN_SIZES \
	10 /* Darshan's: up to 100, 1 Ki, 10 Ki, 100 Ki, 1 Mi, 4, 10, 100 Mi, 1 Gi */

/* Where a read lies beside the one before it of the same process on the same file; a write alike. */
enum pfw_access {
	PFW_ACCESS_FIRST,	/* there is none */
	PFW_ACCESS_CONSECUTIVE, /* where it ended */
	PFW_ACCESS_STRIDED,	/* as far from its begin as that was from the one before */
	PFW_ACCESS_SEQUENTIAL,	/* behind its end */
	PFW_ACCESS_RANDOM,	/* before it */
	PFW_ACCESS_UNPLACED,	/* nobody knows where it is */
	PFW_ACCESSES
};

enum pfw_side { PFW_SIDE_READ, PFW_SIDE_WRITE };

struct pfw_pattern_side {
	uint64_t calls;	   /* also those that failed, or of which no size is known */
	uint64_t accesses; /* of which the size is known: they are in size[] and in access[] */
	uint64_t bytes;
	int64_t ns;
	uint64_t size[PFW_PATTERN_SIZES];
	uint64_t access[PFW_ACCESSES];
	uint64_t behind; /* Darshan's SEQ: begin behind the end of the one before, of whatever kind */
	uint64_t end;	 /* of the furthest, 0 where there is none */
	uint64_t unaligned; /* begin at no multiple of `alignment` */
	uint64_t small;	    /* of less than `small` bytes */
};

struct pfw_pattern {
	uint64_t opens,
		again; /* that came back with a descriptor; of a process that had opened it before */
	uint64_t others;     /* calls of metadata, and all else */
	int64_t metadata_ns; /* of opens and others */
	uint64_t processes;  /* that read, wrote or opened it */
	uint64_t switches;   /* a process reads what it wrote to last, or writes what it read */
	struct pfw_pattern_side side[2];
};

/* What /proc/self/io has counted of a rank's processes, from lines of cat COUNTER. */
struct pfw_pattern_counters {
	bool any;
	uint64_t io[2],
		storage[2]; /* bytes through calls; bytes of the storage behind the page cache */
};

/* ---- a block's operations ---- */

struct pfw_pattern_op;

#define PFW_PATTERN_LAST 16u

struct pfw_patterns_block {
	struct pfw_names names; /* of files */
	struct pfw_pattern_op *op;
	size_t ops, room;
	uint64_t tid; /* of the first operation */
	bool threads; /* more than that one */
	struct pfw_pattern_counters counters;
	uint32_t *row; /* of names, found when they are taken */
	size_t row_room;
	uint32_t last[PFW_PATTERN_LAST]; /* the name that came last with such a descriptor, + 1 */
	/* What calls do, by their names. */
	struct pfw_pattern_call {
		char name[24]; /* "" = none */
		uint8_t bytes, posix;
		struct pfw_call call;
	} recent[64];
};

struct pfw_patterns_block *pfw_patterns_block_create(void);
void pfw_patterns_block_clear(struct pfw_patterns_block *block);
void pfw_patterns_block_free(struct pfw_patterns_block *block);

/* Add a line.  `wanted`: it is to be counted; else it only tells where a descriptor stands.  0 or
 * -ENOMEM.  Thread: the one that has the block. */
int pfw_patterns_block_add(struct pfw_patterns_block *block, const struct pfw_entry *entry,
			   const struct pfw_fnames *fnames, bool wanted);

/* ---- all of them ---- */

struct pfw_patterns {
	uint64_t alignment, small; /* to be set */
	bool sorted;		   /* to be set: no block has what comes before one taken */
	struct pfw_names keys;	   /* of the rows: a rank's files */
	struct pfw_pattern *row;
	size_t rows, room;
	/* Private to patterns.c: who has what open, and what was done last. */
	struct pfw_numbers processes, descriptors, uses;
	uint32_t *descriptor; /* the open file of each, + 1 */
	struct pfw_pattern_open *open;
	struct pfw_pattern_use *use;
	size_t descriptor_room, open_room, use_room, opens;
	uint32_t free_open; /* + 1 */
	/* Operations of a file of several threads that others may still come before. */
	struct pfw_pattern_run *run;
	size_t runs, run_room, waiting;
	int64_t last_ns;    /* of those that came */
	uint64_t file, tid; /* that was taken last; its first thread */
	bool begun, threads;
};

void pfw_patterns_init(struct pfw_patterns *patterns);
void pfw_patterns_release(struct pfw_patterns *patterns);

/* Take the next block of a trace of that rank, and when there is no more of any, all that waits.  0 or
 * -ENOMEM.  Thread: one at a time. */
int pfw_patterns_take(struct pfw_patterns *patterns, uint64_t file, int64_t rank,
		      struct pfw_patterns_block *block);
int pfw_patterns_end(struct pfw_patterns *patterns);

/* The number of the row of that rank and name, made where there is none, or -ENOMEM. */
int64_t pfw_patterns_row(struct pfw_patterns *patterns, int64_t rank, const char *name,
			 size_t bytes);

/* The rank and the name of a row. */
int64_t pfw_patterns_rank(const struct pfw_patterns *patterns, size_t row);
const char *pfw_patterns_name(const struct pfw_patterns *patterns, size_t row, size_t *bytes);

/* Add up; of processes the most, since the same may be in both. */
void pfw_pattern_merge(struct pfw_pattern *into, const struct pfw_pattern *from);

#endif
