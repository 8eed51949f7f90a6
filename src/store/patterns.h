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

#include "averages.h"
#include "call.h"
#include "entry.h"
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
	uint64_t unaligned; /* begin at no multiple of `alignment` */
	uint64_t small;	    /* of less than `small` bytes */
};

struct pfw_pattern {
	uint64_t opens,
		again; /* that came back with a descriptor; of a process that had opened it before */
	uint64_t others;     /* calls of metadata, and all else */
	int64_t metadata_ns; /* of opens and others */
	uint64_t processes;  /* that read, wrote or opened it */
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

struct pfw_patterns_block {
	struct pfw_averages names; /* keys only */
	struct pfw_pattern_op *op;
	size_t ops, room;
	struct pfw_pattern_counters counters;
	/* What calls do, by their names. */
	struct pfw_pattern_call {
		char name[24]; /* "" = none */
		uint8_t bytes, posix;
		struct pfw_call call;
	} recent[64];
};

struct pfw_patterns_block *pfw_patterns_block_create(void);
void pfw_patterns_block_free(struct pfw_patterns_block *block);

/* Add a line.  `wanted`: it is to be counted; else it only tells where a descriptor stands.  0 or
 * -ENOMEM.  Thread: the one that has the block. */
int pfw_patterns_block_add(struct pfw_patterns_block *block, const struct pfw_entry *entry,
			   const struct pfw_fnames *fnames, bool wanted);

/* ---- all of them ---- */

struct pfw_patterns {
	uint64_t alignment, small; /* to be set */
	struct pfw_averages keys;  /* of the rows: the rank as 8 bytes, then the file's name */
	struct pfw_pattern *row;
	size_t rows, room;
	/* Private to patterns.c. */
	struct pfw_numbers processes, descriptors, uses;
	struct pfw_pattern_descriptor *descriptor;
	struct pfw_pattern_use *use;
	size_t descriptor_room, use_room;
};

void pfw_patterns_init(struct pfw_patterns *patterns);
void pfw_patterns_release(struct pfw_patterns *patterns);

/* Take the next block of a trace of that rank.  0 or -ENOMEM.  Thread: one at a time. */
int pfw_patterns_take(struct pfw_patterns *patterns, uint64_t file, int64_t rank,
		      struct pfw_patterns_block *block);

/* The rank and the name of a row. */
int64_t pfw_patterns_rank(const struct pfw_patterns *patterns, size_t row);
const char *pfw_patterns_name(const struct pfw_patterns *patterns, size_t row, size_t *bytes);

/* Add up; of processes the most, since the same may be in both. */
void pfw_pattern_merge(struct pfw_pattern *into, const struct pfw_pattern *from);

#endif
