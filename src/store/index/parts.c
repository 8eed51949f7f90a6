/* store/index/parts.c - the parts of an index: rows by kind; see parts.h. */
#include "store/index/parts.h"

#include <errno.h>

#include "store/index/internal.h"

/* The id of a row: its kind's number in the upper bits, then its block. */
#define BLOCK_BITS 32

/* Rows after the last one of a kind: of more() and of state(). */
#define MORE 1
#define STATE 2
/* The most bytes of a row of state(), besides one for each line. */
#define STATE_BYTES (256u << 10)

/* ---- blocks ---- */

int pfw_gather_begin(struct pfw_gather *gather, bool sorted)
{
	gather->sorted = sorted;
	for (size_t i = 0; i < pfw_index_kind_count; i++) {
		if (gather->block[i])
			pfw_index_kind_table[i]->block_clear(gather->block[i]);
		else
			gather->block[i] = pfw_index_kind_table[i]->block_create();
		if (!gather->block[i])
			return -ENOMEM;
	}
	return 0;
}

int pfw_gather_add(struct pfw_gather *gather, const struct pfw_entry *entry,
		   const struct pfw_summary *summary)
{
	int error = 0;

	for (size_t i = 0; i < pfw_index_kind_count && !error; i++)
		error = pfw_index_kind_table[i]->add(gather->block[i], entry, summary);
	return error;
}

void pfw_gather_release(struct pfw_gather *gather)
{
	for (size_t i = 0; i < pfw_index_kind_count; i++) {
		if (gather->block[i])
			pfw_index_kind_table[i]->block_free(gather->block[i]);
	}
	*gather = (struct pfw_gather){ 0 };
}

/* ---- writing; see internal.h ---- */

static int put_part(struct pfw_index_writer *writer, size_t kind, int64_t block,
		    const struct pfw_blob *data)
{
	struct pfw_put *put = &writer->part;

	pfw_put_i64(put, (int64_t)pfw_index_kind_table[kind]->number << BLOCK_BITS | block);
	pfw_put_string(put, pfw_index_kind_table[kind]->name);
	pfw_put_i64(put, pfw_index_kind_table[kind]->version);
	pfw_put_i64(put, block);
	pfw_put_blob(put, data->data, data->bytes);
	return pfw_put_row(put);
}

static void *create_file(const struct pfw_index_kind *kind, bool sorted)
{
	void *file = kind->file_create();

	if (file && sorted && kind->sorted)
		kind->sorted(file);
	return file;
}

int pfw_index_take_parts(struct pfw_index_writer *writer, struct pfw_gather *gather)
{
	int error = 0;

	for (size_t i = 0; gather && i < pfw_index_kind_count && !error; i++) {
		if (!writer->kind[i])
			writer->kind[i] = create_file(pfw_index_kind_table[i], gather->sorted);
		if (!writer->kind[i])
			return -ENOMEM;
		writer->data.bytes = 0;
		error = pfw_index_kind_table[i]->take(writer->kind[i], gather->block[i],
						      &writer->data);
		if (!error && writer->data.bytes)
			error = put_part(writer, i, writer->blocks, &writer->data);
	}
	return error;
}

/* Whether the trace may grow, and its index be added to then. */
static bool may_grow(const struct pfw_index_writer *writer, const struct pfw_index_trace *trace)
{
	bool may = trace->layout != PFW_LAYOUT_STREAM && !trace->problems;

	for (size_t i = 0; i < pfw_index_kind_count && may; i++) {
		const struct pfw_index_kind *kind = pfw_index_kind_table[i];

		may = kind->resume || (kind->untouched && kind->untouched(&writer->total));
	}
	return may;
}

static int put_state(struct pfw_index_writer *writer, size_t number)
{
	const struct pfw_index_kind *kind = pfw_index_kind_table[number];
	int error;

	writer->data.bytes = 0;
	error = kind->state(writer->kind[number], &writer->data, STATE_BYTES + writer->lines);
	return error || !writer->data.bytes
		       ? error
		       : put_part(writer, number, writer->blocks + STATE, &writer->data);
}

static int end_kind(struct pfw_index_writer *writer, size_t number, bool grows)
{
	const struct pfw_index_kind *kind = pfw_index_kind_table[number];
	int error = kind->state && grows ? put_state(writer, number) : 0;

	if (error)
		return error;
	writer->data.bytes = 0;
	error = kind->end(writer->kind[number], &writer->data);
	error = error ? error : put_part(writer, number, writer->blocks, &writer->data);
	if (error || !kind->more)
		return error;
	writer->data.bytes = 0;
	error = kind->more(writer->kind[number], &writer->data);
	if (!error && writer->grows && writer->data.bytes)
		return -EAGAIN;
	return error ? error : put_part(writer, number, writer->blocks + MORE, &writer->data);
}

int pfw_index_end_parts(struct pfw_index_writer *writer, const struct pfw_index_trace *trace)
{
	bool grows = may_grow(writer, trace);
	int error = 0;

	for (size_t i = 0; i < pfw_index_kind_count && !error; i++) {
		if (writer->kind[i])
			error = end_kind(writer, i, grows);
	}
	return error;
}

void pfw_index_free_parts(struct pfw_index_writer *writer)
{
	for (size_t i = 0; i < pfw_index_kind_count; i++) {
		if (writer->kind[i])
			pfw_index_kind_table[i]->file_free(writer->kind[i]);
	}
	pfw_blob_free(&writer->data);
}

/* ---- reading ---- */

/* The rows from `first` to `last`, of which the last must be there. */
struct rows {
	int64_t first, last;
	void *user;
	int (*take)(void *user, const uint8_t *data, size_t bytes, bool last);
};

static int read_rows(struct pfw_index *index, const struct pfw_index_kind *kind,
		     const struct rows *rows)
{
	int64_t next = rows->first;
	struct pfw_index_row row;
	const uint8_t *data;
	size_t bytes;
	int result = 0, error = pfw_index_query(index, &row,
						"SELECT id, version, data FROM part"
						" WHERE id BETWEEN ? AND ? ORDER BY id");

	if (!error) {
		sqlite3_bind_int64(row.statement, 1, rows->first);
		sqlite3_bind_int64(row.statement, 2, rows->last);
	}
	while (!error && (result = pfw_index_next(&row)) > 0) {
		int64_t id = pfw_index_i64(&row);

		if (pfw_index_u64(&row) != kind->version) {
			error = -ENOENT;
			break;
		}
		data = pfw_index_blob(&row, &bytes);
		/* Ids must rise: a damaged B-tree can have a cycle, and this ends it. */
		if (row.bad || id < next || id > rows->last)
			error = -EBADMSG;
		else
			error = rows->take(rows->user, data, bytes, id == rows->last);
		next = id + 1;
	}
	sqlite3_finalize(row.statement);
	if (!error && !result && next != rows->last + 1)
		error = -ENOENT;
	return error ? error : result;
}

static int64_t last_row(const struct pfw_index *index, const struct pfw_index_kind *kind)
{
	return ((int64_t)kind->number << BLOCK_BITS) + (int64_t)index->meta.blocks;
}

int pfw_index_parts(struct pfw_index *index, const struct pfw_index_kind *kind, void *user,
		    int (*take)(void *user, const uint8_t *data, size_t bytes, bool last))
{
	const struct rows rows = { .first = (int64_t)kind->number << BLOCK_BITS,
				   .last = last_row(index, kind),
				   .user = user,
				   .take = take };

	return read_rows(index, kind, &rows);
}

int pfw_index_more(struct pfw_index *index, const struct pfw_index_kind *kind, void *user,
		   int (*take)(void *user, const uint8_t *data, size_t bytes, bool last))
{
	int64_t id = last_row(index, kind) + MORE;
	const struct rows rows = { .first = id, .last = id, .user = user, .take = take };

	return read_rows(index, kind, &rows);
}

int pfw_index_state(struct pfw_index *index, const struct pfw_index_kind *kind, void *user,
		    int (*take)(void *user, const uint8_t *data, size_t bytes, bool last))
{
	int64_t id = last_row(index, kind) + STATE;
	const struct rows rows = { .first = id, .last = id, .user = user, .take = take };

	return read_rows(index, kind, &rows);
}
