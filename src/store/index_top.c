/* index_top.c - the files of several indexes with the most bytes, time or calls; see index.h.
 *
 * By bytes, each index gives its files in order, the greatest first (Fagin, Lotem, Naor, PODS 2001):
 * a file that comes up in one is looked up in all others, and once the least of the wanted ones has
 * more than all that comes next can have together, no more rows are read.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "index.h"
#include "index_open.h"

/* One index on its way down. */
struct cursor {
	struct pfw_index_row row;  /* by bytes, the greatest first */
	struct pfw_index_row find; /* by name */
	uint64_t rows;
	uint64_t value; /* of the row in hand */
	const char *fname;
	size_t fname_bytes;
	bool ended;
};

struct search {
	struct cursor *cursor;
	size_t count;
	struct pfw_summary seen; /* files that came up, with what all indexes say of them */
};

static uint64_t value_of(const struct pfw_summary_file *file, enum pfw_index_order order)
{
	switch (order) {
	case PFW_INDEX_BY_BYTES:
		return file->read_bytes + file->written_bytes;
	case PFW_INDEX_BY_NS:
		return file->open_ns + file->read_ns + file->write_ns + file->other_ns;
	default:
		return file->opens + file->reads + file->writes + file->others;
	}
}

/* ---- the greatest of those that were seen ---- */

struct ranked {
	uint64_t value;
	uint32_t row;
};

static int by_value(const void *a, const void *b)
{
	const struct ranked *x = a, *y = b;

	if (x->value != y->value)
		return x->value > y->value ? -1 : 1;
	return x->row < y->row ? -1 : x->row > y->row;
}

/* The rows 1 to files - 1 in order, to be freed; NULL: no memory. */
static struct ranked *rank(const struct pfw_summary *seen, enum pfw_index_order order)
{
	struct ranked *ranked = malloc(seen->files * sizeof(*ranked));

	for (uint32_t i = 1; ranked && i < seen->files; i++) {
		ranked[i - 1].value = value_of(&seen->file[i], order);
		ranked[i - 1].row = i;
	}
	if (ranked)
		qsort(ranked, seen->files - 1, sizeof(*ranked), by_value);
	return ranked;
}

static int put_best(const struct pfw_summary *seen, enum pfw_index_order order, size_t limit,
		    struct pfw_summary *into)
{
	struct ranked *ranked = rank(seen, order);
	int64_t row = 0;

	if (!ranked)
		return -ENOMEM;
	into->file[0] = seen->file[0];
	for (uint32_t i = 0; i < limit && i + 1 < seen->files && row >= 0; i++) {
		const struct pfw_summary_file *from = &seen->file[ranked[i].row];
		struct pfw_summary_file *to;

		row = pfw_summary_file_row(into, from->name, from->name_bytes);
		if (row > 0) {
			const char *name = into->file[row].name;

			to = &into->file[row];
			*to = *from;
			to->name = name;
		}
	}
	free(ranked);
	return row < 0 ? (int)row : 0;
}

/* ---- by bytes ---- */

/* The next row of a cursor.  Damaged pages may lead in circles: values must fall, and there are
 * never more files than a summary has. */
static int advance(struct cursor *cursor)
{
	int result = pfw_index_next(&cursor->row);
	uint64_t value;

	if (result <= 0) {
		cursor->ended = true;
		cursor->value = 0;
		return result;
	}
	value = pfw_index_u64(&cursor->row);
	cursor->fname = pfw_index_text(&cursor->row, &cursor->fname_bytes);
	if (cursor->row.bad || ++cursor->rows > PFW_SUMMARY_FILES_MAX ||
	    (cursor->rows > 1 && value > cursor->value))
		return -EBADMSG;
	cursor->value = value;
	return 0;
}

static int open_cursor(struct cursor *cursor, struct pfw_index *index, struct pfw_summary *seen)
{
	struct pfw_index_row others;
	size_t bytes;
	int error = pfw_index_query(index, &others,
				    "SELECT " PFW_INDEX_FILE_COLUMNS " FROM file WHERE id = 0");

	if (!error && pfw_index_next(&others) == 1) {
		pfw_index_text(&others, &bytes);
		error = pfw_index_take_file(&seen->file[0], &others);
	}
	sqlite3_finalize(others.statement);
	if (!error)
		error = pfw_index_query(index, &cursor->row,
					"SELECT read_bytes + written_bytes, " PFW_INDEX_FILE_COLUMNS
					" FROM file INDEXED BY file_bytes WHERE id > 0"
					" ORDER BY read_bytes + written_bytes DESC");
	if (!error)
		error = pfw_index_query(
			index, &cursor->find,
			"SELECT " PFW_INDEX_FILE_COLUMNS
			" FROM file INDEXED BY file_fname WHERE fname = ? AND id > 0");
	return error ? error : advance(cursor);
}

/* Add what another index says of the file in hand. */
static int look_up(struct cursor *cursor, const struct cursor *hand, struct pfw_summary_file *file)
{
	size_t bytes;
	const char *fname;
	int result;

	sqlite3_reset(cursor->find.statement);
	sqlite3_bind_text(cursor->find.statement, 1, hand->fname, (int)hand->fname_bytes,
			  SQLITE_STATIC);
	result = pfw_index_next(&cursor->find);
	if (result <= 0)
		return result;
	fname = pfw_index_text(&cursor->find, &bytes);
	if (bytes != hand->fname_bytes || memcmp(fname, hand->fname, bytes) != 0)
		return -EBADMSG;
	return pfw_index_take_file(file, &cursor->find);
}

/* Take the row in hand of that cursor, unless its file came up before. */
static int take(struct search *search, struct cursor *hand)
{
	struct pfw_summary *seen = &search->seen;
	uint32_t before = seen->files;
	int64_t row = pfw_summary_file_row(seen, hand->fname, hand->fname_bytes);
	int error = 0;

	if (row < 0)
		return (int)row;
	/* Without a row of its own: more files than a summary has. */
	if (row == 0)
		return -E2BIG;
	if (seen->files > before) {
		error = pfw_index_take_file(&seen->file[row], &hand->row);
		for (size_t i = 0; !error && i < search->count; i++) {
			if (&search->cursor[i] != hand)
				error = look_up(&search->cursor[i], hand, &seen->file[row]);
		}
	}
	return error ? error : advance(hand);
}

/* Whether the wanted ones were seen: nothing that is to come can be greater. */
static bool is_enough(const struct search *search, size_t limit)
{
	struct ranked *ranked;
	unsigned __int128 most = 0;
	bool enough;

	for (size_t i = 0; i < search->count; i++)
		most += search->cursor[i].value;
	if (search->seen.files - 1 < limit)
		return false;
	ranked = limit ? rank(&search->seen, PFW_INDEX_BY_BYTES) : NULL;
	enough = !limit || (ranked && ranked[limit - 1].value >= most);
	free(ranked);
	return enough;
}

static struct cursor *greatest(struct search *search)
{
	struct cursor *cursor = NULL;

	for (size_t i = 0; i < search->count; i++) {
		struct cursor *one = &search->cursor[i];

		if (!one->ended && (!cursor || one->value > cursor->value))
			cursor = one;
	}
	return cursor;
}

static int run(struct search *search, size_t limit)
{
	uint64_t rows = 0, look = limit ? limit : 1;
	struct cursor *cursor;
	int error = 0;

	while (!error && (cursor = greatest(search))) {
		error = take(search, cursor);
		if (++rows < look)
			continue;
		if (is_enough(search, limit))
			break;
		look += look / 2 + 1;
	}
	return error;
}

static int top_by_bytes(struct pfw_index *const *index, size_t count, size_t limit,
			struct pfw_summary *into)
{
	struct search search = { .count = count };
	int error;

	search.cursor = calloc(count + 1, sizeof(*search.cursor));
	error = search.cursor ? pfw_summary_init(&search.seen) : -ENOMEM;
	for (size_t i = 0; !error && i < count; i++)
		error = open_cursor(&search.cursor[i], index[i], &search.seen);
	error = error ? error : run(&search, limit);
	error = error ? error : put_best(&search.seen, PFW_INDEX_BY_BYTES, limit, into);
	for (size_t i = 0; search.cursor && i < count; i++) {
		sqlite3_finalize(search.cursor[i].row.statement);
		sqlite3_finalize(search.cursor[i].find.statement);
	}
	free(search.cursor);
	pfw_summary_release(&search.seen);
	return error;
}

/* ---- by anything else ---- */

static int top_of_all(struct pfw_index *const *index, size_t count, enum pfw_index_order order,
		      size_t limit, struct pfw_summary *into)
{
	struct pfw_summary all;
	int error = pfw_summary_init(&all);

	for (size_t i = 0; !error && i < count; i++)
		error = pfw_index_files(index[i], &all);
	error = error ? error : put_best(&all, order, limit, into);
	pfw_summary_release(&all);
	return error;
}

int pfw_index_top_files(struct pfw_index *const *index, size_t count, enum pfw_index_order order,
			size_t limit, struct pfw_summary *into)
{
	int error = -E2BIG;

	if (order == PFW_INDEX_BY_BYTES)
		error = top_by_bytes(index, count, limit, into);
	return error == -E2BIG ? top_of_all(index, count, order, limit, into) : error;
}
