/* merge_run.h - what the parts of a merge share: merge.c (the order), merge_load.c (blocks to rows),
 * merge_spill.c (the temporary file).
 */
#ifndef PFW_MERGE_RUN_H
#define PFW_MERGE_RUN_H

#include "fetch.h"
#include "merge.h"

#define MERGE_UNIT_SPILLED UINT32_MAX /* `file` of a unit in the temporary file */

struct merge_run;

/* A block while it is in memory. */
struct merge_load {
	struct pfw_task task;
	struct merge_run *run;
	struct merge_unit *unit;
	struct pfw_rows rows;
	struct pfw_problems problems;
	uint64_t text_at; /* where its text begins in the file's; of members 0 */
	int error;
	size_t charged; /* of the budget */
	struct merge_load *spare;
};

enum merge_unit_state {
	MERGE_UNIT_PENDING, /* on disk */
	MERGE_UNIT_COPY,    /* to be copied as it stands, if nothing lies within it */
	MERGE_UNIT_LOADING,
	MERGE_UNIT_LOADED,
};

/* What is sorted: a block of a file, or of the temporary one. */
struct merge_unit {
	int64_t ts_ns; /* of its next line; at least that, until it was read once */
	uint64_t order;
	uint32_t file, number;
	uint32_t next; /* rows that were given */
	uint8_t state;
	uint8_t drops;	 /* how often it was let go */
	bool summed;	 /* its lines are counted, its metadata and problems told */
	bool first;	 /* lines that stand in front of all may be at its begin */
	bool copyable;	 /* marked, and all of it is wanted */
	bool unseekable; /* of a stream: it cannot be read again */
	bool begun;	 /* it was the first in the order before */
	bool surveyed;	 /* half of its bytes are told */
	struct merge_load *load;
};

struct merge_heap {
	struct merge_unit **unit;
	size_t count, room;
};

/* A block of the temporary file: rows, then the text as a gzip member. */
struct merge_spilled {
	uint64_t at;
	uint32_t rows, packed_bytes, text_bytes;
};

struct merge_spill {
	int fd; /* -1: none yet */
	uint64_t bytes;
	struct merge_spilled *block;
	size_t count, room;
};

struct merge_run {
	struct pfw_merge *merge;
	struct pfw_fetch *fetch;    /* one a worker */
	struct pfw_member **packer; /* one a worker, made when needed */
	struct merge_unit **all;    /* slabs of units, for freeing */
	size_t slabs;
	struct merge_heap pending, open;
	struct merge_load *spare;
	size_t used;  /* bytes charged */
	size_t ahead; /* open units that the order has not come to */
	/* The last line given. */
	int64_t ts_ns;
	uint64_t order;
	bool any;
	struct merge_spill spill;
	const char *where;
};

/* ---- merge.c ---- */

bool pfw_merge_before(const struct merge_unit *a, const struct merge_unit *b);
int pfw_merge_heap_push(struct merge_heap *heap, struct merge_unit *unit);
struct merge_unit *pfw_merge_heap_pop(struct merge_heap *heap);
/* heap->unit[0] has become greater. */
void pfw_merge_heap_sink(struct merge_heap *heap);
/* `count` units, all zero, freed with the run; NULL: no memory. */
struct merge_unit *pfw_merge_units(struct merge_run *run, size_t count);

/* ---- merge_load.c ---- */

/* Begin to read a unit: it becomes LOADING.  0 or -ENOMEM. */
int pfw_merge_load(struct merge_run *run, struct merge_unit *unit);
/* Wait for it: it becomes LOADED, its key exact; count its lines the first time.  Return 0 or what
 * went wrong. */
int pfw_merge_finish(struct merge_run *run, struct merge_unit *unit);
/* Forget what is in memory of it. */
void pfw_merge_drop(struct merge_run *run, struct merge_unit *unit);
/* Read all of a stream, unit by unit. */
int pfw_merge_stream(struct merge_run *run, size_t file);
void pfw_merge_free_spare(struct merge_run *run);

/* ---- merge_spill.c ---- */

/* Merge all that is in memory into a run of the temporary file. */
int pfw_merge_spill(struct merge_run *run);
/* In a worker: read such a unit. */
int pfw_merge_unspill(struct merge_run *run, struct merge_load *load, unsigned worker);
void pfw_merge_spill_free(struct merge_run *run);

#endif
