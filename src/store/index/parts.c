/* store/index/parts.c - the parts of an index: rows by kind; see parts.h. */
#include "store/index/parts.h"

#include <errno.h>

#include "store/index/internal.h"

/* The id of a row: its kind's number in the upper bits, then its block. */
#define BLOCK_BITS 32

/* The most bytes of a row of state(), besides one for each line. */
#define STATE_BYTES (256u << 10)

/* ---- blocks ---- */

/* Make the list of the kinds that get lines of a class. */
static void list_kinds(struct pfw_gather *gather, unsigned class)
{
	struct pfw_gather_to *to = gather->to[class];

	for (size_t i = 0; i < pfw_index_kind_count; i++) {
		const struct pfw_index_kind *kind = pfw_index_kind_table[i];

		if (kind->wants >> class & 1)
			*to++ = (struct pfw_gather_to){ kind->add, gather->block[i] };
	}
}

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
	for (unsigned class = 0; class < PFW_INDEX_CLASSES; class ++)
		list_kinds(gather, class);
	return 0;
}

int pfw_gather_add(struct pfw_gather *gather, const struct pfw_entry *entry,
		   const struct pfw_summary *summary)
{
	unsigned line = summary->last.io   ? PFW_INDEX_CALLS
			: entry->ph == 'X' ? PFW_INDEX_SPANS
			: entry->ph == 'M' ? PFW_INDEX_OWN
					   : PFW_INDEX_OTHERS;
	int error = 0;

	for (const struct pfw_gather_to *to = gather->to[__builtin_ctz(line)]; to->add && !error;
	     to++)
		error = to->add(to->block, entry, summary);
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

/* Write what a kind has appended to writer->data. */
static int put_part(struct pfw_index_writer *writer, size_t kind, int64_t block)
{
	struct pfw_put *put = &writer->part;

	if (writer->data.failed)
		return -ENOMEM;
	pfw_put_i64(put, (int64_t)pfw_index_kind_table[kind]->number << BLOCK_BITS | block);
	pfw_put_string(put, pfw_index_kind_table[kind]->name);
	pfw_put_i64(put, pfw_index_kind_table[kind]->version);
	pfw_put_i64(put, block);
	pfw_put_blob(put, writer->data.data, writer->data.bytes);
	writer->data.bytes = 0;
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
		error = pfw_index_kind_table[i]->take(writer->kind[i], gather->block[i],
						      &writer->data);
		if (!error && (writer->data.bytes || writer->data.failed))
			error = put_part(writer, i, writer->blocks);
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

static int end_kind(struct pfw_index_writer *writer, size_t number, bool grows)
{
	const struct pfw_index_kind *kind = pfw_index_kind_table[number];
	struct pfw_blob *data = &writer->data;
	void *file = writer->kind[number];
	int error = 0;

	if (kind->state && grows)
		error = kind->state(file, data, STATE_BYTES + writer->lines);
	if (!error && (data->bytes || data->failed))
		error = put_part(writer, number, writer->blocks + PFW_INDEX_STATE);
	error = error ? error : kind->end(file, data);
	error = error ? error : put_part(writer, number, writer->blocks + PFW_INDEX_END);
	if (error || !kind->more)
		return error;
	error = kind->more(file, data);
	if (!error && writer->grows && data->bytes)
		return -EAGAIN;
	return error ? error : put_part(writer, number, writer->blocks + PFW_INDEX_MORE);
}

int pfw_index_end_parts(struct pfw_index_writer *writer, const struct pfw_index_trace *trace)
{
	bool grows = may_grow(writer, trace);
	int error = 0;

	for (size_t i = 0; i < pfw_index_kind_count && !error; i++) {
		if (!writer->kind[i])
			continue;
		error = end_kind(writer, i, grows);
		/* The next one needs memory, too. */
		pfw_index_kind_table[i]->file_free(writer->kind[i]);
		writer->kind[i] = NULL;
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

int pfw_index_parts(struct pfw_index *index, const struct pfw_index_kind *kind,
		    enum pfw_index_which which, void *user, pfw_index_take *take)
{
	int64_t none = (int64_t)kind->number << BLOCK_BITS;
	int64_t last = none + (int64_t)index->meta.blocks + which;
	int64_t next = kind->many && which == PFW_INDEX_END ? none : last;
	struct pfw_index_row row;
	int result = 0, error = pfw_index_query(index, &row, PFW_TABLE_PART, next);

	while (!error && next <= last && (result = pfw_index_next(&row)) > 0) {
		int64_t id = pfw_index_i64(&row);
		struct pfw_varints data;
		size_t bytes;

		if (id > last)
			break;
		pfw_index_skip(&row, 1); /* kind */
		if (pfw_index_u64(&row) != kind->version) {
			error = -ENOENT;
			break;
		}
		pfw_index_skip(&row, 1); /* block */
		data.at = pfw_index_blob(&row, &bytes);
		data = pfw_varints(data.at, bytes);
		if (row.bad || id < next)
			error = -EBADMSG;
		else
			error = take(user, &data, id == last);
		error = data.bad ? -EBADMSG : error;
		next = id + 1;
	}
	pfw_index_done(&row);
	error = error ? error : result < 0 ? result : 0;
	return error || next == last + 1 ? error : -ENOENT;
}

/* The version of the row of end() of a kind; 0: there is none. */
static uint64_t version_of(struct pfw_index *index, const struct pfw_index_kind *kind)
{
	int64_t last = ((int64_t)kind->number << BLOCK_BITS) + (int64_t)index->meta.blocks;
	uint64_t version = 0;
	struct pfw_index_row row;

	if (pfw_index_query(index, &row, PFW_TABLE_PART, last) == 0 && pfw_index_next(&row) > 0 &&
	    pfw_index_i64(&row) == last) {
		pfw_index_skip(&row, 1); /* kind */
		version = pfw_index_u64(&row);
	}
	pfw_index_done(&row);
	return version;
}

bool pfw_index_is_current(struct pfw_index *index)
{
	bool current = true;

	for (size_t i = 0; index->meta.blocks && i < pfw_index_kind_count; i++)
		current &= version_of(index, pfw_index_kind_table[i]) >=
			   pfw_index_kind_table[i]->version;
	return current;
}
