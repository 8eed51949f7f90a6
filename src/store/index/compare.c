/* store/index/compare.c - compares an index with one made from the trace; see index.h. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "store/index/internal.h"

/* Describe the value of a column for a message. */
static const char *describe(sqlite3_stmt *statement, int column, char *out, size_t size)
{
	int type = sqlite3_column_type(statement, column);

	if (type == SQLITE_INTEGER)
		snprintf(out, size, "%lld", (long long)sqlite3_column_int64(statement, column));
	else if (type == SQLITE_TEXT)
		snprintf(out, size, "a text of %d bytes", sqlite3_column_bytes(statement, column));
	else if (type == SQLITE_BLOB)
		snprintf(out, size, "%d bytes", sqlite3_column_bytes(statement, column));
	else
		snprintf(out, size, "nothing");
	return out;
}

static bool same_column(sqlite3_stmt *a, sqlite3_stmt *b, int column)
{
	int type = sqlite3_column_type(a, column);
	const void *x, *y;
	int bytes;

	if (sqlite3_column_type(b, column) != type)
		return false;
	if (type == SQLITE_INTEGER)
		return sqlite3_column_int64(a, column) == sqlite3_column_int64(b, column);
	x = sqlite3_column_blob(a, column);
	y = sqlite3_column_blob(b, column);
	bytes = sqlite3_column_bytes(a, column);
	return bytes == sqlite3_column_bytes(b, column) &&
	       (!bytes || memcmp(x, y, (size_t)bytes) == 0);
}

/* Compare all rows of two statements, and write the first difference to `how`. */
static int compare_rows(sqlite3_stmt *is, sqlite3_stmt *should, const char *table, char *how,
			size_t size)
{
	char one[48], other[48];

	for (uint64_t number = 0;; number++) {
		int a = sqlite3_step(is), b = sqlite3_step(should);

		if ((a != SQLITE_ROW && a != SQLITE_DONE) || (b != SQLITE_ROW && b != SQLITE_DONE))
			return pfw_index_error(a != SQLITE_ROW && a != SQLITE_DONE ? a : b);
		if (a == SQLITE_DONE && b == SQLITE_DONE)
			return 0;
		if (a != b) {
			snprintf(how, size, "the table %s has too %s rows", table,
				 a == SQLITE_ROW ? "many" : "few");
			return 0;
		}
		for (int i = 0; i < sqlite3_column_count(should); i++) {
			if (same_column(is, should, i))
				continue;
			snprintf(how, size,
				 "%s of row %" PRIu64 " of the table %s is %s, and by the "
				 "trace %s",
				 sqlite3_column_name(should, i), number, table,
				 describe(is, i, one, sizeof(one)),
				 describe(should, i, other, sizeof(other)));
			return 0;
		}
	}
}

static int compare_table(struct pfw_index_writer *writer, struct pfw_index *index,
			 const char *table, char *how, size_t size)
{
	struct pfw_index_row is;
	sqlite3_stmt *should = NULL;
	char sql[64];
	int error;

	snprintf(sql, sizeof(sql), "SELECT * FROM %s", table);
	error = pfw_index_query(index, &is, sql);
	if (!error)
		error = pfw_index_error(sqlite3_prepare_v2(writer->db, sql, -1, &should, NULL));
	if (!error)
		error = compare_rows(is.statement, should, table, how, size);
	sqlite3_finalize(is.statement);
	sqlite3_finalize(should);
	return error;
}

/* Inflate a window to `text`.  Its bytes or -EBADMSG. */
static int unpack(sqlite3_stmt *statement, int column, unsigned char *text)
{
	struct pfw_point point = { .window = (void *)sqlite3_column_blob(statement, column),
				   .window_bytes =
					   (uint32_t)sqlite3_column_bytes(statement, column) };

	return pfw_point_window(&point, text);
}

/* Whether two rows of `point` (file_at, bits, window) are equal, whichever zlib compressed the
 * windows. */
static bool same_point(sqlite3_stmt *is, sqlite3_stmt *should)
{
	unsigned char text[2][PFW_POINT_WINDOW];
	int bytes;

	if (sqlite3_column_int64(is, 1) != sqlite3_column_int64(should, 0) ||
	    sqlite3_column_int64(is, 2) != sqlite3_column_int64(should, 1))
		return false;
	bytes = unpack(is, 3, text[0]);
	return bytes >= 0 && bytes == unpack(should, 2, text[1]) &&
	       memcmp(text[0], text[1], (size_t)bytes) == 0;
}

/* The inflate library decides where points are; compare those that both indexes have. */
static int compare_points(struct pfw_index_writer *writer, struct pfw_index *index, char *how,
			  size_t size)
{
	struct pfw_index_row row;
	sqlite3_stmt *should = NULL;
	int result = 0;
	int error =
		pfw_index_query(index, &row, "SELECT text_at, file_at, bits, window FROM point");

	if (!error)
		error = pfw_index_error(sqlite3_prepare_v2(
			writer->db, "SELECT file_at, bits, window FROM point WHERE text_at = ?", -1,
			&should, NULL));
	while (!error && !*how && (result = pfw_index_next(&row)) > 0) {
		sqlite3_bind_int64(should, 1, sqlite3_column_int64(row.statement, 0));
		if (sqlite3_step(should) == SQLITE_ROW && !same_point(row.statement, should))
			snprintf(how, size, "the point at byte %lld of the text is another one",
				 (long long)sqlite3_column_int64(row.statement, 0));
		sqlite3_reset(should);
	}
	sqlite3_finalize(row.statement);
	sqlite3_finalize(should);
	return error ? error : result < 0 ? result : 0;
}

int pfw_index_compare(struct pfw_index_writer *writer, const struct pfw_index_trace *trace,
		      bool *differs, char *how, size_t size)
{
	struct pfw_index *index;
	int error = pfw_index_put_totals(writer, trace);

	*how = '\0';
	*differs = true;
	if (error)
		return error;
	if (pfw_index_open(&index, writer->trace, how, size))
		return 0;
	for (size_t i = 0; !error && !*how && i < pfw_index_table_count; i++) {
		error = strcmp(pfw_index_tables[i].name, "point") == 0
				? compare_points(writer, index, how, size)
				: compare_table(writer, index, pfw_index_tables[i].name, how, size);
	}
	if (error == -EBADMSG) {
		snprintf(how, size, "damaged");
		error = 0;
	}
	*differs = *how != '\0';
	pfw_index_close(index);
	return error;
}
