/* index_db.h - what reading and writing an index share: its schema, its blobs, SQLite's errors. */
#ifndef PFW_INDEX_DB_H
#define PFW_INDEX_DB_H

#include <sqlite3.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "blocks.h"
#include "index.h"
#include "summary.h"

#define PFW_INDEX_APPLICATION 0x50465749 /* "PFWI", in the header of the file */

/* The tables, in the order in which they are made; the texts are what sqlite_schema holds. */
struct pfw_index_table {
	const char *name, *sql;
};
extern const struct pfw_index_table pfw_index_tables[];
extern const size_t pfw_index_table_count;

/* The names of enum pfw_layout in `meta`. */
const char *pfw_index_layout_name(enum pfw_layout layout);
bool pfw_index_layout_of(const char *name, enum pfw_layout *layout);

/* What SQLite said, as -errno.  Thread: any, as all here. */
int pfw_index_error(int result);

/* "PATH.idx", to be freed; NULL: no memory. */
char *pfw_index_path(const char *trace, const char *suffix);

/* ---- whether it is of this trace ---- */

/* What an index notes of its trace: size, and the CRC of the first and the last of its bytes. */
struct pfw_index_proof {
	uint64_t trace_bytes;
	uint32_t first_bytes, last_bytes; /* at most PFW_BLOCK_TEXT */
	uint32_t first_crc, last_crc;
};

/* Fill in the CRCs from the file behind fd, which has trace_bytes.  0 or -errno; -ESTALE where it is
 * shorter than that. */
int pfw_index_prove(struct pfw_index_proof *proof, int fd);

/* ---- what is in a block ---- */

struct pfw_blob {
	uint8_t *data;
	size_t bytes, room;
};

/*
 * Replace *blob by the names of a block that was merged into the file's summary, which gives them
 * their numbers; or by the numbers of its threads or files alone.  Names that share row 0 there are
 * added up in row 0 here.  Return 0 or -ENOMEM.
 */
int pfw_blob_names(struct pfw_blob *blob, struct pfw_summary *block);
int pfw_blob_threads(struct pfw_blob *blob, const struct pfw_summary *block);
int pfw_blob_files(struct pfw_blob *blob, const struct pfw_summary *block);
void pfw_blob_free(struct pfw_blob *blob);

/* Have room for `more` bytes behind what is there; 0, or -ENOMEM. */
int pfw_blob_reserve(struct pfw_blob *blob, size_t more);

/* The sums of up to PFW_BLOB_FILES files of a summary, from row `first` on, for `file_sums`. */
#define PFW_BLOB_FILES 4096u
int pfw_blob_sums(struct pfw_blob *blob, const struct pfw_summary *summary, uint32_t first);

/* A blob while it is read. */
struct pfw_blob_reader {
	const uint8_t *at, *end;
	uint32_t next; /* the least number that can come */
};

struct pfw_blob_name {
	uint32_t row;
	uint64_t count, timed, bytes;
	__int128 sum_ns;
	int64_t min_ns, max_ns;
	const uint8_t *sketch;
	size_t sketch_bytes;
};

/* The next name, or number below `rows`.  1, 0 at the end, -EBADMSG where it cannot have been
 * written. */
int pfw_blob_next_name(struct pfw_blob_reader *reader, uint32_t rows, struct pfw_blob_name *name);
int pfw_blob_next_row(struct pfw_blob_reader *reader, uint32_t rows, uint32_t *row);

/* What the greatest files of several indexes are found by. */
struct pfw_blob_sums {
	uint64_t hash; /* of the name */
	uint64_t bytes, ns, calls;
};

/* The sums of the next file, as pfw_blob_next_row(). */
int pfw_blob_next_sums(struct pfw_blob_reader *reader, struct pfw_blob_sums *sums);

#endif
