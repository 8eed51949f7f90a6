/* store/index/parts.c - the parts of an index: rows by kind; see parts.h. */
#include "store/index/parts.h"

#include <errno.h>
#include <stdlib.h>

#include "store/index/internal.h"
#include "store/sys/pool.h"

/* The id of a row: its kind's number in the upper bits, then its block. */
#define BLOCK_BITS 32

/* The most bytes of a row of state(), besides one for each line. */
#define STATE_BYTES (256u << 10)

#define FEW_BLOCKS 4u

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

void *pfw_index_new_block(const struct pfw_index_kind *kind)
{
	void *block = calloc(1, kind->block_bytes);

	if (block)
		kind->block_clear(block);
	return block;
}

void pfw_index_free_block(const struct pfw_index_kind *kind, void *block)
{
	if (block)
		kind->block_release(block);
	free(block);
}

/* Make a block empty, or make one. */
static int begin_block(const struct pfw_index_kind *kind, void **block, bool other)
{
	if (!*block) {
		*block = pfw_index_new_block(kind);
		return *block ? 0 : -ENOMEM;
	}
	kind->block_clear(*block);
	if (other && kind->block_other)
		kind->block_other(*block);
	return 0;
}

int pfw_gather_begin(struct pfw_gather *gather, size_t file, bool sorted, bool once)
{
	bool other = gather->file != file;

	gather->file = file;
	gather->sorted = sorted;
	gather->once = once;
	for (size_t i = 0; i < pfw_index_kind_count; i++) {
		if (begin_block(pfw_index_kind_table[i], &gather->block[i], other))
			return -ENOMEM;
	}
	for (unsigned class = 0; class < PFW_INDEX_CLASSES; class ++)
		list_kinds(gather, class);
	return 0;
}

void pfw_gather_release(struct pfw_gather *gather)
{
	for (size_t i = 0; i < pfw_index_kind_count; i++)
		pfw_index_free_block(pfw_index_kind_table[i], gather->block[i]);
	*gather = (struct pfw_gather){ 0 };
}

/* ---- writing; see internal.h ---- */

/* Write a row that a kind has made, and empty it. */
static int put_part(struct pfw_index_writer *writer, size_t kind, int64_t block,
		    struct pfw_blob *row)
{
	struct pfw_put *put = pfw_put_begin(&writer->maker, PFW_TABLE_PART);

	if (row->failed)
		return -ENOMEM;
	pfw_put_i64(put, (int64_t)pfw_index_kind_table[kind]->number << BLOCK_BITS | block);
	pfw_put_string(put, pfw_index_kind_table[kind]->name);
	pfw_put_i64(put, pfw_index_kind_table[kind]->version);
	pfw_put_i64(put, block);
	pfw_put_blob(put, row->data, row->bytes);
	row->bytes = 0;
	return pfw_put_row(put);
}

void *pfw_index_new_file(const struct pfw_index_kind *kind)
{
	void *file = calloc(1, kind->file_bytes);

	if (!file || !kind->file_init || !kind->file_init(file))
		return file;
	pfw_index_free_file(kind, file);
	return NULL;
}

void pfw_index_free_file(const struct pfw_index_kind *kind, void *file)
{
	if (file)
		kind->file_release(file);
	free(file);
}

static void *create_file(const struct pfw_index_kind *kind, const struct pfw_gather *gather)
{
	void *file = pfw_index_new_file(kind);

	if (file && gather->sorted && kind->sorted)
		kind->sorted(file);
	if (file && gather->once && kind->once)
		kind->once(file);
	return file;
}

int pfw_index_take_parts(struct pfw_index_writer *writer, struct pfw_gather *gather)
{
	int error = 0;

	for (size_t i = 0; gather && i < pfw_index_kind_count && !error; i++) {
		if (!writer->kind[i])
			writer->kind[i] = create_file(pfw_index_kind_table[i], gather);
		if (!writer->kind[i])
			return -ENOMEM;
		error = pfw_index_kind_table[i]->take(writer->kind[i], gather->block[i],
						      &writer->data);
		if (!error && (writer->data.bytes || writer->data.failed))
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

/* The last rows of all kinds, which several threads make. */
struct ending {
	struct pfw_index_writer *writer;
	bool grows;
	struct ended {
		bool made;
		struct pfw_blob state, end, more[PFW_INDEX_MORES];
		int error;
	} of[PFW_INDEX_KINDS_MAX];
};

static void end_kind(struct ending *ending, size_t number)
{
	const struct pfw_index_kind *kind = pfw_index_kind_table[number];
	void *file = ending->writer->kind[number];
	struct ended *ended = &ending->of[number];
	int error = 0;

	if (!file)
		return;
	if (kind->state && ending->grows)
		error = kind->state(file, &ended->state, STATE_BYTES + ending->writer->lines);
	error = error ? error : kind->end(file, &ended->end);
	for (unsigned i = 0; i < PFW_INDEX_MORES && kind->more[i] && !error; i++)
		error = kind->more[i](file, &ended->more[i]);
	ended->made = true;
	ended->error = error;
	/* The next one needs memory, too. */
	pfw_index_free_file(kind, file);
	ending->writer->kind[number] = NULL;
}

/* The last kinds first: they take little time, and the longest, `table`, does not come last. */
static void end_one(void *user, size_t number)
{
	end_kind(user, pfw_index_kind_count - 1 - number);
}

static int put_ended(struct pfw_index_writer *writer, size_t number, struct ended *ended)
{
	int64_t block = writer->blocks;
	int error = ended->error;

	error = error ? error : put_part(writer, number, block + PFW_INDEX_END, &ended->end);
	for (unsigned i = 0; i < PFW_INDEX_MORES && !error; i++) {
		if (!pfw_index_kind_table[number]->more[i])
			break;
		error = writer->grows && ended->more[i].bytes
				? -EAGAIN
				: put_part(writer, number, block + PFW_INDEX_MORE + i,
					   &ended->more[i]);
	}
	if (!error && (ended->state.bytes || ended->state.failed))
		error = put_part(writer, number, block + PFW_INDEX_STATE, &ended->state);
	return error;
}

int pfw_index_end_parts(struct pfw_index_writer *writer, const struct pfw_index_trace *trace)
{
	struct ending ending = { .writer = writer, .grows = may_grow(writer, trace) };
	int error = 0;

	/* `table` takes as long as all others; with few blocks less than to start a thread. */
	pfw_pool_share(trace->jobs > 1 && writer->blocks > FEW_BLOCKS ? 2 : 1, pfw_index_kind_count,
		       end_one, &ending);
	for (size_t i = 0; i < pfw_index_kind_count; i++) {
		struct ended *ended = &ending.of[i];

		if (!error && ended->made)
			error = put_ended(writer, i, ended);
		pfw_blob_free(&ended->state);
		pfw_blob_free(&ended->end);
		for (unsigned j = 0; j < PFW_INDEX_MORES; j++)
			pfw_blob_free(&ended->more[j]);
	}
	return error;
}

void pfw_index_free_parts(struct pfw_index_writer *writer)
{
	for (size_t i = 0; i < pfw_index_kind_count; i++)
		pfw_index_free_file(pfw_index_kind_table[i], writer->kind[i]);
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
