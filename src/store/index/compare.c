/* store/index/compare.c - compares an index with one made from the trace; see index.h. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "store/index/internal.h"

/* The value of a column that the trace gives. */
static struct pfw_sqlite_value value_of(sqlite3_stmt *statement, int column)
{
	static const enum pfw_sqlite_type types[] = { [SQLITE_INTEGER] = PFW_SQLITE_INTEGER,
						      [SQLITE_FLOAT] = PFW_SQLITE_REAL,
						      [SQLITE_TEXT] = PFW_SQLITE_TEXT,
						      [SQLITE_BLOB] = PFW_SQLITE_BLOB,
						      [SQLITE_NULL] = PFW_SQLITE_NULL };
	struct pfw_sqlite_value value = { .type = types[sqlite3_column_type(statement, column)] };

	if (value.type == PFW_SQLITE_INTEGER) {
		value.integer = sqlite3_column_int64(statement, column);
	} else if (value.type != PFW_SQLITE_NULL) {
		value.data = sqlite3_column_blob(statement, column);
		value.bytes = (size_t)sqlite3_column_bytes(statement, column);
	}
	return value;
}

/* Describe a value for a message. */
static const char *describe(const struct pfw_sqlite_value *value, char *out, size_t size)
{
	if (value->type == PFW_SQLITE_INTEGER)
		snprintf(out, size, "%" PRId64, value->integer);
	else if (value->type == PFW_SQLITE_TEXT)
		snprintf(out, size, "a text of %zu bytes", value->bytes);
	else if (value->type == PFW_SQLITE_BLOB)
		snprintf(out, size, "%zu bytes", value->bytes);
	else
		snprintf(out, size, "nothing");
	return out;
}

static bool is_same(const struct pfw_sqlite_value *a, const struct pfw_sqlite_value *b)
{
	if (a->type != b->type)
		return false;
	if (a->type == PFW_SQLITE_INTEGER)
		return a->integer == b->integer;
	return a->type == PFW_SQLITE_NULL ||
	       (a->bytes == b->bytes && (!a->bytes || memcmp(a->data, b->data, a->bytes) == 0));
}

/* Compare a row, and write the first difference to `how`. */
static void compare_row(struct pfw_index_row *is, sqlite3_stmt *should, const char *table,
			char *how, size_t size)
{
	char one[48], other[48];

	for (int i = 0; i < sqlite3_column_count(should) && !*how; i++) {
		const struct pfw_sqlite_value b = value_of(should, i);
		struct pfw_sqlite_value a;

		pfw_index_value(is, &a);
		if (!is_same(&a, &b))
			snprintf(how, size,
				 "%s of row %" PRIu64 " of the table %s is %s, and by the "
				 "trace %s",
				 sqlite3_column_name(should, i), is->number, table,
				 describe(&a, one, sizeof(one)),
				 describe(&b, other, sizeof(other)));
	}
	is->number++;
}

static int compare_rows(struct pfw_index_row *is, sqlite3_stmt *should, const char *table,
			char *how, size_t size)
{
	while (!*how) {
		int a = pfw_index_next(is), b = sqlite3_step(should);

		if (a < 0 || (b != SQLITE_ROW && b != SQLITE_DONE))
			return a < 0 ? a : pfw_index_error(b);
		if (!a && b == SQLITE_DONE)
			return 0;
		if (a != (b == SQLITE_ROW))
			snprintf(how, size, "the table %s has too %s rows", table,
				 a ? "many" : "few");
		else
			compare_row(is, should, table, how, size);
	}
	return 0;
}

static int compare_table(struct pfw_index_writer *writer, struct pfw_index *index,
			 enum pfw_index_tables number, char *how, size_t size)
{
	const char *table = pfw_index_tables[number].name;
	struct pfw_index_row is;
	sqlite3_stmt *should = NULL;
	char sql[64];
	int error = pfw_index_query(index, &is, number, INT64_MIN);

	snprintf(sql, sizeof(sql), "SELECT * FROM %s", table);
	if (!error)
		error = pfw_index_error(sqlite3_prepare_v2(writer->db, sql, -1, &should, NULL));
	if (!error)
		error = compare_rows(&is, should, table, how, size);
	pfw_index_done(&is);
	sqlite3_finalize(should);
	return error;
}

/* Inflate a window to `text`.  Its bytes or -EBADMSG. */
static int unpack(const struct pfw_sqlite_value *window, unsigned char *text)
{
	struct pfw_point point = { .window = (void *)window->data,
				   .window_bytes = (uint32_t)window->bytes };

	return pfw_point_window(&point, text);
}

/* Whether two points (file_at, bits, window) are equal, whichever zlib compressed the windows. */
static bool same_point(const struct pfw_sqlite_value is[3], sqlite3_stmt *should)
{
	unsigned char text[2][PFW_POINT_WINDOW];
	const struct pfw_sqlite_value window = value_of(should, 2);
	int bytes;

	if (is[0].integer != sqlite3_column_int64(should, 0) ||
	    is[1].integer != sqlite3_column_int64(should, 1) || is[2].type != PFW_SQLITE_BLOB)
		return false;
	bytes = unpack(&is[2], text[0]);
	return bytes >= 0 && bytes == unpack(&window, text[1]) &&
	       memcmp(text[0], text[1], (size_t)bytes) == 0;
}

/* The inflate library decides where points are; compare those that both indexes have. */
static int compare_points(struct pfw_index_writer *writer, struct pfw_index *index, char *how,
			  size_t size)
{
	struct pfw_index_row row;
	sqlite3_stmt *should = NULL;
	int result = 0, error = pfw_index_query(index, &row, PFW_TABLE_POINT, INT64_MIN);

	if (!error)
		error = pfw_index_error(sqlite3_prepare_v2(
			writer->db, "SELECT file_at, bits, window FROM point WHERE text_at = ?", -1,
			&should, NULL));
	while (!error && !*how && (result = pfw_index_next(&row)) > 0) {
		struct pfw_sqlite_value is[3];
		int64_t text_at;

		pfw_index_skip(&row, 1); /* id */
		text_at = pfw_index_i64(&row);
		for (int i = 0; i < 3; i++)
			pfw_index_value(&row, &is[i]);
		sqlite3_bind_int64(should, 1, text_at);
		if (sqlite3_step(should) == SQLITE_ROW && !same_point(is, should))
			snprintf(how, size,
				 "the point at byte %" PRId64 " of the text is another one",
				 text_at);
		sqlite3_reset(should);
	}
	pfw_index_done(&row);
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
	if (!pfw_index_is_current(index))
		snprintf(how, size, "made by an older pfw, it lacks rows of this one");
	for (size_t i = 0; !error && !*how && i < pfw_index_table_count; i++) {
		error = i == PFW_TABLE_POINT ? compare_points(writer, index, how, size)
					     : compare_table(writer, index, i, how, size);
	}
	if (error == -EBADMSG) {
		snprintf(how, size, "damaged");
		error = 0;
	}
	*differs = *how != '\0';
	pfw_index_close(index);
	return error;
}
