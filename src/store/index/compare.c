/* store/index/compare.c - compares an index with one made from the trace; see index.h. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "store/index/internal.h"

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

/* The name of a column, up to a space. */
static const char *column_name(enum pfw_index_tables table, unsigned column)
{
	const char *name = strchr(pfw_index_tables[table].sql, '(') + 1;

	while (column--)
		name = strchr(name, ',') + strlen(", ");
	return name;
}

/* Compare a row, and write the first difference to `how`. */
static void compare_row(struct pfw_index_row *is, struct pfw_index_row *should,
			enum pfw_index_tables table, unsigned columns, char *how, size_t size)
{
	char one[48], other[48];

	for (unsigned i = 0; i < columns && !*how; i++) {
		struct pfw_sqlite_value a, b;
		const char *name;

		pfw_index_value(is, &a);
		pfw_index_value(should, &b);
		if (is_same(&a, &b))
			continue;
		name = column_name(table, i);
		snprintf(how, size,
			 "%.*s of row %" PRIu64 " of the table %s is %s, and by the trace %s",
			 (int)strcspn(name, " "), name, is->number, pfw_index_tables[table].name,
			 describe(&a, one, sizeof(one)), describe(&b, other, sizeof(other)));
	}
	is->number++;
}

static int compare_rows(struct pfw_index_row *is, struct pfw_index_row *should,
			enum pfw_index_tables table, char *how, size_t size)
{
	const unsigned columns = pfw_index_columns(table);

	while (!*how) {
		int a = pfw_index_next(is), b = pfw_index_next(should);

		if (a < 0 || b < 0)
			return a < 0 ? a : b;
		if (!a && !b)
			return 0;
		if (a != b)
			snprintf(how, size, "the table %s has too %s rows",
				 pfw_index_tables[table].name, a ? "many" : "few");
		else
			compare_row(is, should, table, columns, how, size);
	}
	return 0;
}

static int compare_table(struct pfw_index *made, struct pfw_index *index,
			 enum pfw_index_tables table, char *how, size_t size)
{
	struct pfw_index_row is, should;
	int error = pfw_index_query(index, &is, table, INT64_MIN);
	int other = pfw_index_query(made, &should, table, INT64_MIN);

	error = error ? error : other;
	if (!error)
		error = compare_rows(&is, &should, table, how, size);
	pfw_index_done(&is);
	pfw_index_done(&should);
	return error;
}

/* Inflate a window to `text`.  Its bytes or -EBADMSG. */
static int unpack(const struct pfw_sqlite_value *window, unsigned char *text)
{
	struct pfw_point point = { .window = (void *)window->data,
				   .window_bytes = (uint32_t)window->bytes };

	return pfw_point_window(&point, text);
}

/* A row of the table of points. */
struct point {
	int64_t text_at, file_at, bits;
	struct pfw_sqlite_value window;
};

/* The next point: 1; 0 after the last; or -errno. */
static int next_point(struct pfw_index_row *row, struct point *point)
{
	int result = pfw_index_next(row);

	if (result <= 0)
		return result;
	pfw_index_skip(row, 1); /* id */
	point->text_at = pfw_index_i64(row);
	point->file_at = pfw_index_i64(row);
	point->bits = pfw_index_i64(row);
	pfw_index_value(row, &point->window);
	return row->bad ? -EBADMSG : 1;
}

/* Whether two points are equal, whichever zlib compressed the windows. */
static bool same_point(const struct point *is, const struct point *should)
{
	unsigned char text[2][PFW_POINT_WINDOW];
	int bytes;

	if (is->file_at != should->file_at || is->bits != should->bits ||
	    is->window.type != PFW_SQLITE_BLOB)
		return false;
	bytes = unpack(&is->window, text[0]);
	return bytes >= 0 && bytes == unpack(&should->window, text[1]) &&
	       memcmp(text[0], text[1], (size_t)bytes) == 0;
}

/* The points of both, which are in order of the text. */
static int compare_both(struct pfw_index_row *is, struct pfw_index_row *should, char *how,
			size_t size)
{
	struct point a = { .text_at = INT64_MIN }, b = a;
	int64_t last = INT64_MIN;
	int result, other = 1;

	while (!*how && (result = next_point(is, &a)) > 0) {
		if (a.text_at < last)
			return -EBADMSG;
		last = a.text_at;
		while (other > 0 && b.text_at < a.text_at)
			other = next_point(should, &b);
		if (other < 0)
			return other;
		if (other && b.text_at == a.text_at && !same_point(&a, &b))
			snprintf(how, size,
				 "the point at byte %" PRId64 " of the text is another one",
				 a.text_at);
	}
	return *how ? 0 : result;
}

/* The inflate library decides where points are; compare those that both indexes have. */
static int compare_points(struct pfw_index *made, struct pfw_index *index, char *how, size_t size)
{
	struct pfw_index_row is, should;
	int error = pfw_index_query(index, &is, PFW_TABLE_POINT, INT64_MIN);
	int other = pfw_index_query(made, &should, PFW_TABLE_POINT, INT64_MIN);

	error = error ? error : other;
	if (!error)
		error = compare_both(&is, &should, how, size);
	pfw_index_done(&is);
	pfw_index_done(&should);
	return error;
}

/* Open the index that was made in memory, which owns it from here on. */
static int open_made(struct pfw_index *made, struct pfw_sqlite_maker *maker)
{
	int error = pfw_sqlite_open_image(&made->db, maker->image,
					  (uint64_t)maker->pages * maker->page_bytes);

	maker->image = NULL;
	return error ? error : pfw_index_look(made);
}

int pfw_index_compare(struct pfw_index_writer *writer, const struct pfw_index_trace *trace,
		      bool *differs, char *how, size_t size)
{
	struct pfw_index made = { .db.fd = -1 }, *index;
	int error = pfw_index_put_totals(writer, trace);

	*how = '\0';
	*differs = true;
	error = error ? error : open_made(&made, &writer->maker.db);
	if (error || pfw_index_open(&index, writer->trace, how, size)) {
		pfw_sqlite_close(&made.db);
		return error;
	}
	if (!pfw_index_is_current(index))
		snprintf(how, size, "made by an older pfw, it lacks rows of this one");
	for (size_t i = 0; !error && !*how && i < PFW_TABLES; i++) {
		error = i == PFW_TABLE_POINT ? compare_points(&made, index, how, size)
					     : compare_table(&made, index, i, how, size);
	}
	if (error == -EBADMSG) {
		snprintf(how, size, "damaged");
		error = 0;
	}
	*differs = *how != '\0';
	pfw_index_close(index);
	pfw_sqlite_close(&made.db);
	return error;
}
