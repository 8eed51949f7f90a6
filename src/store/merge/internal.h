/* store/merge/internal.h - what the parts of a merge share. */
#pragma once

#include "store/merge/merge.h"
#include "store/read/fetch.h"

#define MERGE_UNIT_SPILLED UINT32_MAX /* `file` of units in the temporary file */

struct merge_run;

/* A block in memory. */
struct merge_load {
	struct pfw_task task;
	struct merge_run *run;
	struct merge_unit *unit;
	struct pfw_rows rows;
	struct pfw_problems problems;
	uint64_t text_at;   /* offset of its text in the file's text; 0 for members */
	uint64_t buffer_at; /* the same of rows.text.data[0] */
	int error;
	size_t charged; /* bytes of the budget */
	size_t again;	/* bytes of its text at the scan, which is not repeated; 0: scan it */
	struct merge_load *spare;
};

/* The rows of a block without the text, kept after a first read. */
struct merge_kept {
	struct pfw_rows rows;
	size_t text_bytes, charged;
};

enum merge_unit_state {
	MERGE_UNIT_PENDING, /* on disk */
	MERGE_UNIT_COPY,    /* copy it verbatim if no other line lies within it */
	MERGE_UNIT_LOADING,
	MERGE_UNIT_LOADED,
};

/* An item of the merge: a block of a file, or of the temporary file. */
struct merge_unit {
	int64_t ts_ns; /* of its next line; a lower bound before its first read */
	uint64_t order;
	uint32_t file, number;
	uint32_t next; /* rows that were output */
	uint8_t state;
	uint8_t drops;	 /* how often it was dropped */
	bool summed;	 /* its lines are counted, its metadata and problems reported */
	bool first;	 /* it may begin with lines that precede all others */
	bool copyable;	 /* marked, and completely selected */
	bool alone;	 /* its lines stay together */
	bool unseekable; /* of a stream: it cannot be read again */
	bool begun;	 /* it was first in the order already */
	bool surveyed;	 /* half of its bytes are reported as progress */
	struct merge_load *load;
	struct merge_kept *kept; /* PENDING; NULL: read and scan it */
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
	size_t count;
};

struct merge_run {
	struct pfw_merge *merge;
	struct pfw_fetch *fetch;    /* one per worker */
	struct pfw_member **packer; /* one per worker, made on first use */
	struct merge_unit **all;    /* slabs of units, for freeing */
	size_t slabs;
	struct merge_heap pending, open;
	struct merge_load *spare;
	size_t used;  /* bytes charged */
	size_t ahead; /* open units that were not first yet */
	/* The last line that was output; INT64_MIN and 0: none. */
	int64_t ts_ns;
	uint64_t order;
	struct merge_spill spill;
	const char *where;
};

/* ---- units.c ---- */

static inline bool pfw_merge_is_before(int64_t ts_a, uint64_t order_a, int64_t ts_b,
				       uint64_t order_b)
{
	return ts_a != ts_b ? ts_a < ts_b : order_a < order_b;
}

/* Its next line is this one. */
static inline void pfw_merge_set_key(struct merge_unit *unit, const struct pfw_row *row)
{
	unit->ts_ns = row->ts_ns;
	unit->order = row->order;
}

/* Whether a loaded unit has its text in memory. */
static inline bool pfw_merge_has_text(const struct merge_unit *unit)
{
	return unit->state == MERGE_UNIT_LOADED && !unit->load->rows.path;
}

bool pfw_merge_before(const struct merge_unit *a, const struct merge_unit *b);
int pfw_merge_heap_push(struct merge_heap *heap, struct merge_unit *unit);
struct merge_unit *pfw_merge_heap_pop(struct merge_heap *heap);
/* Restore the order after heap->unit[0] became greater. */
void pfw_merge_heap_sink(struct merge_heap *heap);
/* The second unit in the order, or NULL. */
const struct merge_unit *pfw_merge_heap_second(const struct merge_heap *heap);
/* Rebuild the heap, without `unit`, which may be NULL. */
void pfw_merge_heap_remove(struct merge_heap *heap, const struct merge_unit *unit);

/* `count` zeroed units, freed with the run; NULL: no memory. */
struct merge_unit *pfw_merge_units(struct merge_run *run, size_t count);
/* Make units of all blocks, each with an exact key or a lower bound. */
int pfw_merge_add_files(struct merge_run *run);
/* Read the mark of a block from its file, open as fd.  False: it has none. */
bool pfw_merge_find_mark(const struct merge_run *run, const struct merge_unit *unit, int fd,
			 struct pfw_sorted_mark *mark);
/* Report progress: half of a block's bytes, or the rest, as one read for its key is read twice. */
void pfw_merge_tell(struct merge_run *run, const struct merge_unit *unit, bool half);

/* ---- load.c ---- */

/* Start to read a unit: it becomes LOADING; LOADED if its text stays in its file.  0 or -ENOMEM. */
int pfw_merge_load(struct merge_run *run, struct merge_unit *unit);
/* Wait for it: it becomes LOADED, with an exact key, its lines counted once.  0 or the error. */
int pfw_merge_finish(struct merge_run *run, struct merge_unit *unit);
/* Free what is in memory of it. */
void pfw_merge_drop(struct merge_run *run, struct merge_unit *unit);
/* The same, but keep its rows if the budget allows. */
void pfw_merge_keep(struct merge_run *run, struct merge_unit *unit);
/* Free the kept rows. */
void pfw_merge_forget(struct merge_run *run, struct merge_unit *unit);
/* Read a whole stream, unit by unit. */
int pfw_merge_stream(struct merge_run *run, size_t file);
void pfw_merge_free_spare(struct merge_run *run);

/* ---- spill.c ---- */

/* Merge all loaded units into a sorted run of the temporary file. */
int pfw_merge_spill(struct merge_run *run);
/* Read such a unit, in a worker. */
int pfw_merge_unspill(struct merge_run *run, struct merge_load *load, unsigned worker);
void pfw_merge_spill_free(struct merge_run *run);
