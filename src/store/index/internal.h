/* store/index/internal.h - rows of an index that is read or written; private to the room. */
#pragma once

#include <sys/stat.h>

#include "store/index/db.h"
#include "store/index/parts.h"
#include "store/sqlite/maker.h"
#include "store/sqlite/rows.h"

/* ---- reading ---- */

struct pfw_index {
	struct pfw_sqlite db;
	uint32_t root[PFW_TABLES]; /* the first page of each table */
	struct pfw_index_meta meta;
	struct pfw_index_proof proof;
	uint64_t left_out;
};

/* Check an index that was opened, and read its table `meta`.  0, -EBADMSG or -errno. */
int pfw_index_look(struct pfw_index *index);

/* The first bytes of an index's file: 0; -EBADMSG with a line in `why`: it is of another format, or cut. */
int pfw_index_check_header(const unsigned char header[PFW_SQLITE_HEADER], uint64_t bytes, char *why,
			   size_t size);

/* No table has more columns. */
#define PFW_INDEX_COLUMNS PFW_SQLITE_COLUMNS

/* A row whose columns are taken one by one.  A column of a wrong type sets `bad`. */
struct pfw_index_row {
	struct pfw_sqlite_rows rows;
	bool keyed; /* its first column is its id */
	unsigned at;
	bool bad;
	uint64_t number; /* in pfw_index_rows() */
	char *text;	 /* copies of texts, of which `text_bytes` are of this row */
	size_t text_bytes;
};

/* Read a table from the first row on whose id is at least `first`.  0 or -errno; pairs with
 * pfw_index_done(), also after an error.  Thread: as for the index, as all here. */
int pfw_index_query(struct pfw_index *index, struct pfw_index_row *row, enum pfw_index_tables table,
		    int64_t first);

/* The next row: 1, 0 after the last, or -errno; -EBADMSG also if the last row was bad. */
int pfw_index_next(struct pfw_index_row *row);
/* The row of an id: 1, 0: there is none; or the same errors. */
int pfw_index_find(struct pfw_index_row *row, int64_t id);
void pfw_index_done(struct pfw_index_row *row);

/* Call take() for all rows of a table, with `row` after the first column.  That column must count
 * up from 0. */
int pfw_index_rows(struct pfw_index *index, enum pfw_index_tables table, void *user,
		   int (*take)(void *user, struct pfw_index_row *row));

/* The next column of whatever type; the id is one, too. */
void pfw_index_value(struct pfw_index_row *row, struct pfw_sqlite_value *value);
void pfw_index_skip(struct pfw_index_row *row, unsigned columns);
int64_t pfw_index_i64(struct pfw_index_row *row);
uint64_t pfw_index_u64(struct pfw_index_row *row);
int64_t pfw_index_time(struct pfw_index_row *row, int64_t none); /* NULL: `none` */
__int128 pfw_index_i128(struct pfw_index_row *row);
/* The text may be unterminated, and is valid until the next row. */
const char *pfw_index_text(struct pfw_index_row *row, size_t *bytes);
const char *pfw_index_string(struct pfw_index_row *row, const char *none); /* terminated */
const uint8_t *pfw_index_blob(struct pfw_index_row *row, size_t *bytes);

/* Add the columns after fname of a row of `file`.  0 or -EBADMSG. */
int pfw_index_take_file(struct pfw_summary_file *file, struct pfw_index_row *row);

/* The format of an index at `path`.  0; -EBADMSG: it is no index; or -errno. */
int pfw_index_format_of(const char *path, uint32_t *format, struct stat *st);

/* Whether it has the parts of all kinds, of these versions or newer ones. */
bool pfw_index_is_current(struct pfw_index *index);

/* ---- writing ---- */

#define PFW_INDEX_UNFINISHED ".idx.tmp"

/* A row that is written. */
struct pfw_put {
	struct pfw_sqlite_table *table;
	bool keyed;
	unsigned at;
	struct pfw_sqlite_value value[PFW_INDEX_COLUMNS];
	char decimal[40]; /* see pfw_put_i128() */
};

/* An index as it is made. */
struct pfw_index_maker {
	struct pfw_sqlite_maker db;
	struct pfw_sqlite_table table[PFW_TABLES];
	struct pfw_put put;
};

/* Begin in an empty file, or with -1 in memory: db.image.  Thread: one at a time, as all here. */
void pfw_index_maker_begin(struct pfw_index_maker *maker, int fd, uint32_t page_bytes);

/* Write what is left.  0 or -errno. */
int pfw_index_maker_finish(struct pfw_index_maker *maker);
void pfw_index_maker_release(struct pfw_index_maker *maker);

struct pfw_index_writer {
	char *trace;
	char *stem;	  /* in the cache; NULL: it is beside the trace */
	char *path;	  /* temporary */
	char *final_path; /* after the rename */
	int fd; /* of `path`, locked so that others see that it is in use; -1: in memory */
	bool published;
	struct pfw_index_maker maker;
	struct pfw_summary total;
	struct pfw_blob threads, files, names;
	void *kind[PFW_INDEX_KINDS_MAX]; /* the file's struct of each kind, or NULL */
	struct pfw_blob data;
	uint32_t blocks, points, problems;
	uint64_t lines;	       /* of all blocks, including bad lines */
	struct pfw_block last; /* the first and last block are proven */
	struct pfw_block first;
	bool grows, was_nested; /* see pfw_index_resume() */
};

/* Begin a row, which comes after all others of the table.  Thread: as for the writer, as all here. */
struct pfw_put *pfw_put_begin(struct pfw_index_maker *maker, enum pfw_index_tables table);

/* The next column, whose value must be valid until pfw_put_row(); one of a row may be a pfw_put_i128().
 * Times INT64_MAX and INT64_MIN are NULL. */
void pfw_put_i64(struct pfw_put *put, int64_t value);
void pfw_put_u64(struct pfw_put *put, uint64_t value);
void pfw_put_i128(struct pfw_put *put, __int128 value);
void pfw_put_time(struct pfw_put *put, int64_t ns);
void pfw_put_text(struct pfw_put *put, const char *text, size_t bytes);
void pfw_put_string(struct pfw_put *put, const char *text); /* NULL: NULL */
void pfw_put_blob(struct pfw_put *put, const void *data, size_t bytes);

/* Read the next `columns` of another index.  0; -EBADMSG: a column has an impossible value. */
int pfw_put_copy(struct pfw_put *put, struct pfw_index_row *row, unsigned columns);

/* Write the row.  0 or -errno. */
int pfw_put_row(struct pfw_put *put);

/* Write the parts of the current block (NULL: none), then those after the last block; free all.  0
 * or -errno. */
int pfw_index_take_parts(struct pfw_index_writer *writer, struct pfw_gather *gather);
int pfw_index_end_parts(struct pfw_index_writer *writer, const struct pfw_index_trace *trace);
void pfw_index_free_parts(struct pfw_index_writer *writer);

/* Write all tables except those of blocks, and finish the database.  0 or -errno. */
int pfw_index_put_totals(struct pfw_index_writer *writer, const struct pfw_index_trace *trace);
