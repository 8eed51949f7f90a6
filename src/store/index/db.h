/* store/index/db.h - shared by reading and writing an index: schema, blobs, SQLite's errors.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "store/index/index.h"
#include "store/read/blocks.h"
#include "store/sqlite/maker.h"
#include "store/summary/summary.h"

#define PFW_INDEX_APPLICATION 0x50465749 /* "PFWI", in the header of the file */

/* The tables in the order of their creation. */
enum pfw_index_tables {
	PFW_TABLE_META,
	PFW_TABLE_BLOCK,
	PFW_TABLE_BLOCK_HOLDS,
	PFW_TABLE_POINT,
	PFW_TABLE_PART,
	PFW_TABLE_NAME,
	PFW_TABLE_FILE,
	PFW_TABLE_FILE_SUMS,
	PFW_TABLE_THREAD,
	PFW_TABLE_PROCESS,
	PFW_TABLE_STEP,
	PFW_TABLE_LOSS,
	PFW_TABLE_PROBLEM,
	PFW_TABLES,
};

/* In the same order. */
extern const struct pfw_sqlite_schema pfw_index_tables[];

/* The names of enum pfw_layout in the table `meta`. */
const char *pfw_index_layout_name(enum pfw_layout layout);
bool pfw_index_layout_of(const char *name, enum pfw_layout *layout);

/* How many columns a table has.  Thread: any, as all here. */
unsigned pfw_index_columns(enum pfw_index_tables table);

/* "PATH.idx", to be freed; NULL: no memory. */
char *pfw_index_path(const char *trace, const char *suffix);

/* ---- proof of the trace ---- */

/* The proof that an index is of its trace: the size, and CRCs of the first and last bytes. */
struct pfw_index_proof {
	uint64_t trace_bytes;
	uint32_t first_bytes, last_bytes; /* at most PFW_BLOCK_TEXT */
	uint32_t first_crc, last_crc;
};

/* The proof that an index has; of one in a partial all 0. */
const struct pfw_index_proof *pfw_index_proof(const struct pfw_index *index);

/* Compute the CRCs from fd.  0 or -errno; -ESTALE if the file is shorter than trace_bytes. */
int pfw_index_prove(struct pfw_index_proof *proof, int fd);

/* ---- blobs ---- */

/* Without memory `failed` is set, and what is appended from then on is lost. */
struct pfw_blob {
	uint8_t *data;
	size_t bytes, room;
	bool failed;
};

/*
 * Replace *blob by the names, threads or files of a block that was merged into the file's summary,
 * which numbers them.  Names that share row 0 there are added up in row 0 here.  Return 0 or
 * -ENOMEM.
 */
int pfw_blob_names(struct pfw_blob *blob, struct pfw_summary *block);
int pfw_blob_threads(struct pfw_blob *blob, const struct pfw_summary *block);
int pfw_blob_files(struct pfw_blob *blob, const struct pfw_summary *block);
void pfw_blob_free(struct pfw_blob *blob);

/* Make room for `more` bytes.  0 or -ENOMEM. */
int pfw_blob_reserve(struct pfw_blob *blob, size_t more);

/* Append numbers, each as a varint. */
void pfw_blob_put(struct pfw_blob *blob, const uint64_t *value, size_t count);
#define PFW_BLOB_PUT(blob, ...)                               \
	pfw_blob_put(blob, (const uint64_t[]){ __VA_ARGS__ }, \
		     sizeof((const uint64_t[]){ __VA_ARGS__ }) / sizeof(uint64_t))

/* Append bytes after their number: of any kind, or those of a blob, which is freed. */
void pfw_blob_bytes(struct pfw_blob *blob, const void *data, size_t bytes);
void pfw_blob_part(struct pfw_blob *blob, struct pfw_blob *part);

/* Append the sums of a file; those of up to PFW_BLOB_FILES files are a row of `file_sums`.  0 or -ENOMEM. */
#define PFW_BLOB_FILES 4096u
int pfw_blob_sums(struct pfw_blob *blob, const struct pfw_summary_file *file);

/* A reader of a blob. */
struct pfw_blob_reader {
	const uint8_t *at, *end;
	uint32_t next; /* the least number that may follow */
};

struct pfw_blob_name {
	uint32_t row;
	uint64_t count, timed, bytes;
	uint64_t transfers, transfer_ns;
	__int128 sum_ns;
	int64_t min_ns, max_ns;
	const uint8_t *sketch;
	size_t sketch_bytes;
};

/* The next name, or number below `rows`.  1, 0 at the end, or -EBADMSG if the blob is damaged. */
int pfw_blob_next_name(struct pfw_blob_reader *reader, uint32_t rows, struct pfw_blob_name *name);
int pfw_blob_next_row(struct pfw_blob_reader *reader, uint32_t rows, uint32_t *row);

/* The sums by which pfw_index_top_files() finds files. */
struct pfw_blob_sums {
	uint64_t hash; /* of the name */
	uint64_t bytes, ns, calls;
};

/* The sums of the next file; returns as pfw_blob_next_row(). */
int pfw_blob_next_sums(struct pfw_blob_reader *reader, struct pfw_blob_sums *sums);
