/* index_open.h - an index that is open for reading, as the files index_*.c share it. */
#ifndef PFW_INDEX_OPEN_H
#define PFW_INDEX_OPEN_H

#include "index_db.h"

struct pfw_index {
	sqlite3 *db;
	struct pfw_index_meta meta;
	uint64_t left_out;
};

/* A row of a table while its columns are taken one by one; any of a wrong type makes `bad` true. */
struct pfw_index_row {
	sqlite3_stmt *statement;
	int at;
	bool bad;
};

/* Prepare a query.  0 or -errno; pairs with sqlite3_finalize(row->statement).  Thread: as for the
 * index, as all here. */
int pfw_index_query(struct pfw_index *index, struct pfw_index_row *row, const char *sql);

/* The next row: 1, 0 behind the last, or -errno, -EBADMSG also where the row before was bad. */
int pfw_index_next(struct pfw_index_row *row);

/* Take all rows of a query by take(), which finds `row` behind the first column.  The numbers in that
 * must count up from 0, so that a damaged tree of pages, which may lead in circles, ends it. */
int pfw_index_rows(struct pfw_index *index, const char *sql, void *user,
		   int (*take)(void *user, struct pfw_index_row *row, uint64_t number));

int64_t pfw_index_i64(struct pfw_index_row *row);
uint64_t pfw_index_u64(struct pfw_index_row *row);
int64_t pfw_index_time(struct pfw_index_row *row, int64_t none); /* NULL: `none` */
__int128 pfw_index_i128(struct pfw_index_row *row);
/* Not terminated by anything that may be counted on; until the next row. */
const char *pfw_index_text(struct pfw_index_row *row, size_t *bytes);
const char *pfw_index_string(struct pfw_index_row *row, const char *none); /* terminated */
const uint8_t *pfw_index_blob(struct pfw_index_row *row, size_t *bytes);

#define PFW_INDEX_FILE_COLUMNS                                                            \
	"fname, lines, opens, reads, writes, others, read_bytes, written_bytes, open_ns," \
	" read_ns, write_ns, other_ns, transfers, transfer_ns"

/* Add the columns behind fname of a row of `file`.  0 or -EBADMSG. */
int pfw_index_take_file(struct pfw_summary_file *file, struct pfw_index_row *row);

#endif
