/* store/table/in_index.c - stores the compute rows of a trace in its index: docs/index_format.rst.
 *
 * The block's thread reads the args and finds the row of each line; then the spans of all blocks are
 * nested at once, since a thread's lines may come in any order.
 */
#include "store/table/in_index.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "store/index/db.h"
#include "store/kit/varint.h"
#include "store/line/io.h"
#include "store/table/key.h"
#include "store/table/recent.h"
#include "store/table/spans.h"

/* A trace with more rows, mostly for its shapes, has an empty last row. */
#define ROWS_MAX 65536u
/* Spans that take more go to temporary files. */
#define MEMORY (32u << 20)

/* The fields of a key. */
enum { NAME, CAT, SHAPE, FIELDS };

struct block {
	struct pfw_averages rows;
	struct pfw_table_recent recent[PFW_TABLE_RECENT];
	struct pfw_table_key key;
	struct pfw_io_calls calls;
	struct pfw_table_spans spans;
	unsigned says;
};

struct file {
	struct pfw_averages rows;
	struct pfw_nesting *nesting;
	unsigned says;
	bool none; /* too many rows, or no room for the spans */
};

/* ---- lines of a block ---- */

static void free_block(void *user)
{
	struct block *block = user;

	if (!block)
		return;
	pfw_averages_release(&block->rows);
	pfw_table_key_release(&block->key);
	pfw_table_spans_release(&block->spans);
	free(block);
}

static void *create_block(void)
{
	struct block *block = calloc(1, sizeof(*block));

	if (block && pfw_table_key_init(&block->key)) {
		free(block);
		block = NULL;
	}
	return block;
}

static void clear_block(void *user)
{
	struct block *block = user;

	pfw_averages_release(&block->rows);
	memset(block->recent, 0, sizeof(block->recent));
	block->spans.spans = block->spans.launches = 0;
	block->says = 0;
}

static int make_key(struct pfw_table_key *key, const struct pfw_table_line *line)
{
	int error;

	pfw_table_key_begin(key, line);
	error = pfw_table_key_name(key, line);
	error = error ? error : pfw_table_key_slice(key, &line->cat);
	return error ? error : pfw_table_key_shapes(key, line);
}

/* The row of a line, or -ENOMEM. */
static int64_t row_of(struct block *block, const struct pfw_table_line *line)
{
	struct pfw_table_recent *recent =
		line->shapes.at ? NULL : pfw_table_recent_of(block->recent, line);
	int64_t row;

	if (recent && pfw_table_recent_is(recent, line, 0))
		return recent->row - 1;
	if (make_key(&block->key, line))
		return -ENOMEM;
	row = pfw_averages_row(&block->rows, block->key.text, block->key.bytes);
	if (row >= 0 && recent)
		pfw_table_recent_note(recent, line, 0, (uint32_t)row);
	return row;
}

static int add(void *user, const struct pfw_entry *entry, const struct pfw_fname_hashes *fnames)
{
	const struct pfw_table_how how = { .fnames = fnames };
	struct block *block = user;
	struct pfw_table_line line;
	int64_t row;

	/* The rows of I/O are the index's names. */
	if (pfw_is_io(&entry->cat) || !pfw_table_line_read(&line, entry, &block->calls, how) ||
	    line.section == PFW_TABLE_IO)
		return 0;
	block->says |= pfw_table_says(&line);
	row = row_of(block, &line);
	if (row < 0)
		return (int)row;
	if (!line.device)
		return pfw_table_spans_add(&block->spans, entry, &line, (uint32_t)row);
	if (line.section == PFW_TABLE_COMPUTE)
		pfw_tally_device(&block->rows.row[row].sums, line.start_ns, line.dur_ns);
	return line.launched_by ? pfw_table_spans_launch(&block->spans, entry, &line) : 0;
}

/* ---- blocks of a file ---- */

static void free_file(void *user)
{
	struct file *file = user;

	if (!file)
		return;
	pfw_averages_release(&file->rows);
	pfw_nesting_free(file->nesting);
	free(file);
}

static void *create_file(void)
{
	struct file *file = calloc(1, sizeof(*file));

	if (file)
		file->nesting = pfw_nesting_create(MEMORY);
	if (file && file->nesting)
		return file;
	free_file(file);
	return NULL;
}

static int give_up(struct file *file)
{
	pfw_averages_release(&file->rows);
	pfw_nesting_free(file->nesting);
	file->nesting = NULL;
	file->none = true;
	return 0;
}

static int take(void *user, void *taken, struct pfw_blob *data)
{
	struct block *block = taken;
	struct file *file = user;
	int error;

	(void)data;
	if (file->none)
		return 0;
	file->says |= block->says;
	error = pfw_averages_merge(&file->rows, &block->rows);
	if (error)
		return error;
	for (size_t i = 0; i < block->spans.spans; i++) {
		struct pfw_span *span = &block->spans.span[i].span;

		span->group = block->rows.row[span->group].merged;
	}
	error = pfw_table_spans_keep(&block->spans, file->nesting);
	/* Without room for the spans the trace gets the rest of its index. */
	return file->rows.count > ROWS_MAX || (error && error != -ENOMEM) ? give_up(file) : error;
}

/* ---- the end ---- */

static bool is_shown(const struct pfw_average *row)
{
	return row->key[0] == PFW_TABLE_COMPUTE && row->sums.count;
}

static void add_nested(void *user, unsigned worker, const struct pfw_nested *nested)
{
	const struct pfw_averages *rows = user;

	(void)worker;
	pfw_tally_nested(&rows->row[nested->span.group].sums, nested);
}

static bool same_name(void *user, uint32_t a, uint32_t b)
{
	const struct pfw_averages *rows = user;
	size_t bytes, other_bytes;
	const char *name = pfw_table_key_field(rows->row[a].key, NAME, &bytes);
	const char *other = pfw_table_key_field(rows->row[b].key, NAME, &other_bytes);

	return bytes == other_bytes && memcmp(name, other, bytes) == 0;
}

static int put_text(struct pfw_blob *blob, const char *text, size_t bytes)
{
	if (pfw_blob_put(blob, &(uint64_t){ bytes }, 1) || pfw_blob_reserve(blob, bytes))
		return -ENOMEM;
	memcpy(blob->data + blob->bytes, text, bytes);
	blob->bytes += bytes;
	return 0;
}

/* The sums that are not 0 are told by the bits of the first number. */
static int put_tally(struct pfw_blob *blob, const struct pfw_tally *sums)
{
	uint64_t value[8 + PFW_TALLY_SUMS] = { 0, sums->count, sums->transfers, sums->timed };
	size_t count = 4;

	value[count++] = pfw_varint_fold(sums->first_ns);
	value[count++] = (uint64_t)sums->first_dur_ns << 1 | sums->first_inside;
	if (sums->timed) {
		value[count++] = (uint64_t)sums->min_ns;
		value[count++] = (uint64_t)(sums->max_ns - sums->min_ns);
	}
	for (unsigned i = 0; i < PFW_TALLY_SUMS; i++) {
		if (!sums->sum[i])
			continue;
		value[0] |= 1u << i;
		value[count++] = pfw_varint_fold(sums->sum[i]);
	}
	return pfw_blob_put(blob, value, count);
}

static int put_row(struct pfw_blob *blob, const struct pfw_average *row)
{
	const uint64_t head[] = { (uint8_t)row->key[1], (uint8_t)row->key[2] };
	int error = pfw_blob_put(blob, head, 2);

	for (unsigned i = 0; i < FIELDS && !error; i++) {
		size_t bytes;
		const char *text = pfw_table_key_field(row->key, i, &bytes);

		error = put_text(blob, text, bytes);
	}
	return error ? error : put_tally(blob, &row->sums);
}

/* An empty row: no answer. */
static int end(void *user, struct pfw_blob *data)
{
	struct file *file = user;
	const struct pfw_nesting_user nest = { .user = &file->rows,
					       .span = add_nested,
					       .same = same_name };
	uint64_t too_deep = 0;
	int error = file->none ? 0 : pfw_nesting_run(file->nesting, &nest, 1, &too_deep);

	/* Spans that lie too deep are reported by whoever reads the lines. */
	if (file->none || too_deep || (error && error != -ENOMEM))
		return 0;
	error = error ? error : pfw_blob_put(data, &(uint64_t){ file->says }, 1);
	for (uint32_t i = 0; i < file->rows.count && !error; i++) {
		if (is_shown(&file->rows.row[i]))
			error = put_row(data, &file->rows.row[i]);
	}
	return error;
}

/* I/O calls leave nothing here, nor do lines of metadata. */
static bool untouched(const struct pfw_summary *names)
{
	for (uint32_t i = 1; i < names->names; i++) {
		const struct pfw_summary_name *name = &names->name[i];
		const struct pfw_slice cat = { .at = name->cat, .bytes = name->cat_bytes };

		if (name->ph != 'M' && name->ph != 's' && !pfw_is_io(&cat))
			return false;
	}
	return true;
}

const struct pfw_index_kind pfw_table_kind = {
	.name = "table",
	.number = 3,
	.version = 1,
	.block_create = create_block,
	.block_clear = clear_block,
	.block_free = free_block,
	.add = add,
	.file_create = create_file,
	.file_free = free_file,
	.take = take,
	.end = end,
	.untouched = untouched,
};

/* ---- reading ---- */

static int64_t get_ns(struct pfw_varints *reader)
{
	uint64_t value = pfw_varints_next(reader);

	reader->bad |= value > INT64_MAX;
	return (int64_t)value;
}

static struct pfw_slice get_text(struct pfw_varints *reader)
{
	uint64_t bytes = pfw_varints_next(reader);
	struct pfw_slice text = { .at = (const char *)reader->at, .bytes = bytes };

	if (bytes > (size_t)(reader->end - reader->at)) {
		reader->bad = true;
		return (struct pfw_slice){ .at = "" };
	}
	reader->at += bytes;
	return text;
}

static void get_tally(struct pfw_varints *reader, struct pfw_tally *sums)
{
	uint64_t some = pfw_varints_next(reader), first;

	sums->count = pfw_varints_next(reader);
	sums->transfers = pfw_varints_next(reader);
	sums->timed = pfw_varints_next(reader);
	sums->first_ns = pfw_varint_unfold(pfw_varints_next(reader));
	first = pfw_varints_next(reader);
	sums->first_dur_ns = (int64_t)(first >> 1);
	sums->first_inside = first & 1;
	if (sums->timed) {
		sums->min_ns = get_ns(reader);
		reader->bad |= __builtin_add_overflow(sums->min_ns, get_ns(reader), &sums->max_ns);
	}
	for (unsigned i = 0; i < PFW_TALLY_SUMS; i++) {
		if (some >> i & 1)
			sums->sum[i] = pfw_varint_unfold(pfw_varints_next(reader));
	}
	reader->bad |= some >> PFW_TALLY_SUMS || !sums->count;
}

static int read_row(void *user, const uint8_t *data, size_t bytes, bool last)
{
	struct pfw_varints reader = pfw_varints(data, bytes);
	struct pfw_table_rows *rows = user;
	int error = 0;

	if (!last || !bytes)
		return last ? -ENOENT : 0;
	rows->says |= (unsigned)pfw_varints_next(&reader);
	while (!error && !reader.bad && reader.at < reader.end) {
		struct pfw_table_row row = { .device = (signed char)pfw_varints_next(&reader) };

		row.annotation = pfw_varints_next(&reader) != 0;
		row.name = get_text(&reader);
		row.cat = get_text(&reader);
		row.shape = get_text(&reader);
		get_tally(&reader, &row.sums);
		error = reader.bad ? -EBADMSG : rows->row(rows->user, &row);
	}
	return reader.bad ? -EBADMSG : error;
}

int pfw_table_from_index(struct pfw_index *index, struct pfw_table_rows *rows)
{
	return pfw_index_parts(index, &pfw_table_kind, rows, read_row);
}
