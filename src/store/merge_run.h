/* merge_run.h - what the parts of a merge share: merge.c (the order), merge_units.c (what there is
 * to merge), merge_heap.c, merge_load.c (blocks to rows), merge_spill.c (the temporary file).
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
	uint64_t text_at;   /* where its text begins in the file's; of members 0 */
	uint64_t buffer_at; /* the same of rows.text.data[0] */
	int error;
	size_t charged; /* of the budget */
	size_t again;	/* bytes that its text had when it was scanned; 0: it is to be scanned */
	struct merge_load *spare;
};

/* What is known of a block that is not in memory, once it was read: its rows, without the text. */
struct merge_kept {
	struct pfw_rows rows;
	size_t text_bytes, charged;
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
	struct merge_kept *kept; /* PENDING: NULL where it is to be scanned (again) */
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

/* ---- merge_heap.c ---- */

static inline bool pfw_merge_is_before(int64_t ts_a, uint64_t order_a, int64_t ts_b,
				       uint64_t order_b)
{
	return ts_a != ts_b ? ts_a < ts_b : order_a < order_b;
}

/* Whether a loaded unit has its text in memory. */
static inline bool pfw_merge_has_text(const struct merge_unit *unit)
{
	return unit->state == MERGE_UNIT_LOADED && !unit->load->rows.path;
}

bool pfw_merge_before(const struct merge_unit *a, const struct merge_unit *b);
int pfw_merge_heap_push(struct merge_heap *heap, struct merge_unit *unit);
struct merge_unit *pfw_merge_heap_pop(struct merge_heap *heap);
/* heap->unit[0] has become greater. */
void pfw_merge_heap_sink(struct merge_heap *heap);
/* The unit behind the first one in the order, or NULL. */
const struct merge_unit *pfw_merge_heap_second(const struct merge_heap *heap);
/* Take a unit out of the middle. */
void pfw_merge_heap_remove(struct merge_heap *heap, const struct merge_unit *unit);

/* ---- merge_units.c ---- */

/* `count` units, all zero, freed with the run; NULL: no memory. */
struct merge_unit *pfw_merge_units(struct merge_run *run, size_t count);
/* Make units of all files' blocks, each with a key that is exact or not too great. */
int pfw_merge_add_files(struct merge_run *run);
/* The mark of a block, from its file, open as fd.  False: it has none. */
bool pfw_merge_find_mark(const struct merge_run *run, const struct merge_unit *unit, int fd,
			 struct pfw_mark *mark);
/* Half of a block's bytes are done, or all but that half: what must be read for its key is read
 * twice. */
void pfw_merge_tell(struct merge_run *run, const struct merge_unit *unit, bool half);

/* ---- merge_load.c ---- */

/* Begin to read a unit: it becomes LOADING, or LOADED where its text may stay where it is.  0 or
 * -ENOMEM. */
int pfw_merge_load(struct merge_run *run, struct merge_unit *unit);
/* Wait for it: it becomes LOADED, its key exact; count its lines the first time.  Return 0 or what
 * went wrong. */
int pfw_merge_finish(struct merge_run *run, struct merge_unit *unit);
/* Forget what is in memory of it. */
void pfw_merge_drop(struct merge_run *run, struct merge_unit *unit);
/* The same, but keep its rows where there is room for them. */
void pfw_merge_keep(struct merge_run *run, struct merge_unit *unit);
/* Forget those, too. */
void pfw_merge_forget(struct merge_run *run, struct merge_unit *unit);
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
