/* store/compare/in_index.c - stores the rows of a comparison in an index; see in_index.h. */
#include "store/compare/in_index.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "store/kit/grow.h"
#include "store/kit/nearly_sorted.h"
#include "store/kit/varint.h"
#include "store/summary/summary.h"
#include "store/table/code.h"
#include "store/table/key.h"

/* The fields of a key: category and name. */
#define FIELDS 2u
/* Calls of a name that are added at once. */
#define CALLS 16u
/* A block keeps no more rows for the next one of its file. */
#define KEPT_ROWS 256u

/* The known facts about a name of the block's summary. */
struct named {
	bool known;
	bool ready;  /* the same is known of all lines whose form is `form`, if `says` */
	bool counts; /* has a row: the number `row` */
	bool says; /* its events may have args.kind; `kind` is the kind of events with args.kind `said` */
	uint8_t said_bytes;
	char said[16];
	enum pfw_compare_kind kind;
	uint64_t form; /* all lines of this entry->form have `kind`; 0: none */
	int64_t row;
	/* Calls of `kind` that are not in the row yet: together they take less time. */
	uint32_t calls;
	struct pfw_compare_call call[CALLS];
};

struct block {
	/* Also those of earlier blocks of the file, without calls: their samples have the file's levels. */
	struct pfw_compare_rows rows;
	uint32_t taken; /* so many rows the file has */
	struct pfw_table_key key;
	struct named *named; /* of the names of the block's summary */
	size_t named_room;
	bool memory;
};

struct file {
	struct pfw_compare_rows rows;
	struct pfw_table_key key;
	bool memory;
	bool none; /* too many rows */
};

/* ---- lines of a block ---- */

static void release_block(void *user)
{
	struct block *block = user;

	pfw_compare_rows_release(&block->rows);
	pfw_table_key_release(&block->key);
	free(block->named);
}

static void forget_file(void *user)
{
	struct block *block = user;

	pfw_compare_rows_clear(&block->rows);
	block->taken = 0;
}

static void clear_block(void *user)
{
	struct block *block = user;

	for (uint32_t i = 0; i < block->rows.keys.count; i++) {
		block->rows.row[i].sums = (struct pfw_compare_sums){ 0 };
		block->rows.row[i].sampled.count = 0;
	}
	if (block->rows.keys.count > KEPT_ROWS)
		forget_file(block);
	for (size_t i = 0; i < block->named_room; i++) {
		block->named[i].known = block->named[i].ready = false;
		block->named[i].calls = 0;
	}
	block->memory = false;
}

static int64_t find_row(struct pfw_table_key *key, struct pfw_compare_rows *rows,
			const struct pfw_table_line *line)
{
	pfw_table_key_begin(key, &(struct pfw_table_line){ .section = PFW_TABLE_IO });
	pfw_table_key_slice(key, &line->cat);
	pfw_table_key_name(key, line);
	return key->failed ? -ENOMEM : pfw_compare_row_of(rows, key->text, key->bytes);
}

static int add_summed(struct block *block, const struct pfw_entry *entry)
{
	struct pfw_table_line line;
	int64_t row;

	if (!pfw_table_line_read(&line, entry, NULL, (struct pfw_table_how){ .plain = true }))
		return 0;
	row = find_row(&block->key, &block->rows, &line);
	if (row < 0)
		return (int)row;
	pfw_compare_add_summed(&block->rows, row, &line);
	return 0;
}

/* Find what all events of a name of the summary have in common.  0 or -ENOMEM. */
static int find_name(struct block *block, const struct pfw_entry *entry, struct named *named)
{
	const struct pfw_table_line line = { .name = entry->name, .cat = entry->cat };

	*named = (struct named){ .known = true };
	named->counts = entry->ph == 'X' && !pfw_slice_is(&entry->cat, "pfw");
	named->kind = PFW_COMPARE_OTHER;
	named->says = pfw_slice_is(&entry->cat, "PP");
	if (pfw_is_io(&entry->cat))
		named->kind = PFW_COMPARE_IO;
	if (named->counts)
		named->row = find_row(&block->key, &block->rows, &line);
	return named->row < 0 ? (int)named->row : 0;
}

/* The kind that an event says; mostly all of a name say the same. */
static enum pfw_compare_kind find_kind(const struct pfw_entry *entry, struct named *named)
{
	struct pfw_value kind;

	if (!named->says || (entry->form && entry->form == named->form))
		return named->kind;
	named->form = 0;
	if (!pfw_entry_arg(entry, "kind", &kind))
		return PFW_COMPARE_OTHER;
	if (kind.text.bytes != named->said_bytes ||
	    memcmp(kind.text.at, named->said, kind.text.bytes) != 0) {
		named->kind = pfw_compare_kind_of(entry, &entry->cat);
		named->said_bytes = 0;
	}
	if (kind.text.bytes <= sizeof(named->said) && !kind.text.escaped) {
		named->said_bytes = (uint8_t)kind.text.bytes;
		memcpy(named->said, kind.text.at, kind.text.bytes);
	}
	if (!pfw_entry_varies(entry, "kind"))
		named->form = entry->form;
	return named->kind;
}

static int add_calls(struct block *block, struct named *named)
{
	uint32_t calls = named->calls;

	named->calls = 0;
	return calls ? pfw_compare_add(&block->rows, named->row, named->kind, named->call, calls)
		     : 0;
}

/* A call, a span or another event. */
static int add_event(struct block *block, const struct pfw_entry *entry, uint32_t name)
{
	const struct pfw_compare_call call = pfw_compare_call_of(entry, entry->dur_ns);
	enum pfw_compare_kind kind;
	struct named *named;
	int error;

	if (PFW_REACH(block->named, name, block->named_room))
		return -ENOMEM;
	named = &block->named[name];
	error = add_calls(block, named);
	/* The first row of a summary has several names. */
	if (!error && (!named->known || !name))
		error = find_name(block, entry, named);
	if (error)
		return error;
	kind = find_kind(entry, named);
	block->memory |= kind == PFW_COMPARE_MEMORY;
	named->ready = name && named->counts && (!named->says || named->form);
	return named->counts ? pfw_compare_add(&block->rows, named->row, kind, &call, 1) : 0;
}

static __attribute__((noinline)) int add_line(struct block *block, const struct pfw_entry *entry,
					      uint32_t name)
{
	if (entry->ph == 'X' || entry->ph == 'i')
		return add_event(block, entry, name);
	return entry->ph == 'M' ? add_summed(block, entry) : 0;
}

static int add(void *user, const struct pfw_entry *entry, const struct pfw_summary *summary)
{
	uint32_t name = summary->last.name;
	struct block *block = user;
	struct named *named;

	if (name >= block->named_room)
		return add_line(block, entry, name);
	named = &block->named[name];
	if (!named->ready || named->calls == CALLS || (named->says && named->form != entry->form))
		return add_line(block, entry, name);
	named->call[named->calls++] = pfw_compare_call_of(entry, entry->dur_ns);
	return 0;
}

/* ---- blocks of a file ---- */

static void release_file(void *user)
{
	struct file *file = user;

	pfw_compare_rows_release(&file->rows);
	pfw_table_key_release(&file->key);
}

/* Add a row that was found; `from` is its sample unless that is in `found`. */
static int add_row(struct file *file, int64_t number, const struct pfw_compare_found *found,
		   const struct pfw_sampled *from)
{
	uint32_t most = pfw_compare_most(file->rows.keys.count);
	struct pfw_compare_row *row;

	file->none |= !most;
	if (number < 0 || file->none)
		return number < 0 ? (int)number : 0;
	row = &file->rows.row[number];
	pfw_compare_add_sums(&row->sums, &found->sums);
	return from ? pfw_sampled_merge(&row->sampled, from, most)
		    : pfw_compare_read_sample(&row->sampled, found, most);
}

/* Take a row of a block.  The samples of later blocks need not have calls below the file's level. */
static int take_row(struct file *file, struct pfw_compare_rows *rows, uint32_t number)
{
	const struct pfw_text_id *key = &rows->keys.name[number];
	struct pfw_compare_row *row = &rows->row[number];
	const struct pfw_compare_found found = { .sums = row->sums };
	int64_t to = pfw_compare_row_of(&file->rows, key->text, key->bytes);
	int error = add_row(file, to, &found, &row->sampled);

	if (!error && !file->none)
		row->sampled.level = file->rows.row[to].sampled.level;
	return error;
}

static int take(void *user, void *taken, struct pfw_blob *data)
{
	struct block *block = taken;
	struct file *file = user;
	int error = 0;

	(void)data;
	for (size_t i = 0; i < block->named_room && !error; i++)
		error = add_calls(block, &block->named[i]);
	file->memory |= block->memory;
	for (uint32_t i = 0; i < block->rows.keys.count && !error && !file->none; i++) {
		if (i >= block->taken || block->rows.row[i].sums.kinds)
			error = take_row(file, &block->rows, i);
	}
	block->taken = block->rows.keys.count;
	return error;
}

/* ---- rows as bytes ---- */

static void put_sums(struct pfw_blob *data, const struct pfw_compare_sums *sums)
{
	const uint64_t value[] = { sums->count,
				   (uint64_t)sums->total_ns,
				   sums->kinds,
				   sums->samples,
				   (uint64_t)sums->log_sum,
				   (uint64_t)(sums->log_sum >> 64),
				   pfw_varint_fold(sums->first_ns),
				   (uint64_t)sums->last_ns - (uint64_t)sums->first_ns };

	/* Without calls of a known duration the rest is 0. */
	pfw_blob_put(data, value, sums->samples ? 8 : 4);
}

static void get_sums(struct pfw_varints *reader, struct pfw_compare_sums *sums)
{
	uint64_t low;

	sums->count = pfw_varints_next(reader);
	sums->total_ns = (int64_t)pfw_varints_next(reader);
	sums->kinds = (unsigned)pfw_varints_next(reader);
	sums->samples = pfw_varints_next(reader);
	reader->bad |= sums->total_ns < 0 || sums->count > INT64_MAX ||
		       sums->kinds >> PFW_COMPARE_KINDS;
	if (!sums->samples)
		return;
	low = pfw_varints_next(reader);
	sums->log_sum = (__int128)((unsigned __int128)pfw_varints_next(reader) << 64 | low);
	sums->first_ns = pfw_varint_unfold(pfw_varints_next(reader));
	sums->last_ns = (int64_t)((uint64_t)sums->first_ns + pfw_varints_next(reader));
	reader->bad |= sums->last_ns < sums->first_ns;
}

static bool is_after(const struct pfw_sample *a, const struct pfw_sample *b)
{
	return a->ts_ns != b->ts_ns ? a->ts_ns > b->ts_ns : a->packed > b->packed;
}

PFW_NEARLY_SORTED(samples, struct pfw_sample, is_after)

/* By level, the greatest first: whoever needs only the upper levels need not read the others.  Those of
 * a level end at end[level]. */
static void order_sample(const struct pfw_sampled *sampled, uint32_t end[PFW_SAMPLE_LEVELS])
{
	struct pfw_sample spare[PFW_SAMPLED_MAX];
	uint32_t at = 0, count;

	memset(end, 0, PFW_SAMPLE_LEVELS * sizeof(*end));
	for (uint32_t i = 0; i < sampled->count; i++)
		end[pfw_sample_get_level(&sampled->sample[i])]++;
	for (unsigned level = PFW_SAMPLE_LEVELS; level-- > 0; at += count) {
		count = end[level];
		end[level] = at;
	}
	memcpy(spare, sampled->sample, sampled->count * sizeof(*spare));
	for (uint32_t i = 0; i < sampled->count; i++)
		sampled->sample[end[pfw_sample_get_level(&spare[i])]++] = spare[i];
	at = 0;
	for (unsigned level = PFW_SAMPLE_LEVELS; level-- > 0; at = end[level])
		samples_merge(sampled->sample + at, end[level] - at, spare);
}

static void put_sample(struct pfw_blob *data, const struct pfw_compare_row *row)
{
	uint32_t end[PFW_SAMPLE_LEVELS], i = 0;
	struct pfw_blob bytes = { 0 };
	uint8_t *at;

	if (pfw_blob_reserve(&bytes, (1 + 2 * PFW_SAMPLE_LEVELS + 2 * (size_t)row->sampled.count) *
					     PFW_VARINT_MAX)) {
		data->failed = true;
		return;
	}
	if (row->sampled.count)
		order_sample(&row->sampled, end);
	at = pfw_varint_put(bytes.data, row->sampled.level);
	for (unsigned level = PFW_SAMPLE_LEVELS; level-- > 0 && row->sampled.count > i;) {
		uint64_t before = (uint64_t)row->sums.first_ns;

		if (i == end[level])
			continue;
		at = pfw_varint_put(pfw_varint_put(at, level), end[level] - i);
		for (; i < end[level]; i++) {
			const struct pfw_sample *sample = &row->sampled.sample[i];

			at = pfw_varint_put(at, (uint64_t)sample->ts_ns - before);
			at = pfw_varint_put(at, pfw_sample_get_ns(sample));
			before = (uint64_t)sample->ts_ns;
		}
	}
	bytes.bytes = (size_t)(at - bytes.data);
	pfw_blob_part(data, &bytes);
}

int pfw_compare_read_sample(struct pfw_sampled *into, const struct pfw_compare_found *row,
			    uint32_t most)
{
	struct pfw_varints reader = row->sample;
	const struct pfw_sampled none = { .level = (uint32_t)pfw_varints_next(&reader) };
	int error = none.level > PFW_SAMPLE_LEVELS ? -EBADMSG
						   : pfw_sampled_merge(into, &none, most);

	while (!error && !reader.bad && reader.at < reader.end) {
		int64_t ts_ns = row->sums.first_ns;
		uint64_t level = pfw_varints_next(&reader), count = pfw_varints_next(&reader);

		if (level < into->level)
			break;
		reader.bad |= level >= PFW_SAMPLE_LEVELS || count > PFW_SAMPLED_MAX;
		for (; count && !reader.bad && !error; count--) {
			uint64_t more = pfw_varints_next(&reader);
			uint64_t dur_ns = pfw_varints_next(&reader);

			ts_ns = (int64_t)((uint64_t)ts_ns + more);
			reader.bad |= dur_ns > PFW_SAMPLE_NS_MAX;
			error = pfw_sampled_add(into, pfw_sample_of(ts_ns, (unsigned)level, dur_ns),
						most);
		}
	}
	return reader.bad ? -EBADMSG : error;
}

/* An empty row: no answer. */
static int end(void *user, struct pfw_blob *data)
{
	struct file *file = user;

	if (file->none)
		return 0;
	PFW_BLOB_PUT(data, file->memory, file->rows.keys.count);
	for (uint32_t i = 0; i < file->rows.keys.count; i++) {
		pfw_table_put_key(data, file->rows.keys.name[i].text, FIELDS);
		put_sums(data, &file->rows.row[i].sums);
		put_sample(data, &file->rows.row[i]);
	}
	return 0;
}

static int read_rows(void *user, struct pfw_varints *reader, bool last)
{
	struct pfw_compare_reader *into = user;
	int error = 0;

	(void)last;
	if (reader->at == reader->end)
		return -ENOENT;
	into->memory |= pfw_varints_next(reader) != 0;
	into->rows = pfw_varints_next(reader);
	while (into->row && !error && reader->at < reader->end) {
		struct pfw_compare_found found = { .cat = pfw_table_get_text(reader) };

		found.name = pfw_table_get_text(reader);
		get_sums(reader, &found.sums);
		found.sample = pfw_varints_part(reader);
		error = reader->bad ? -EBADMSG : into->row(into->user, &found);
	}
	return error;
}

int pfw_compare_from_index(struct pfw_index *index, struct pfw_compare_reader *reader)
{
	return pfw_index_parts(index, &pfw_compare_kind, PFW_INDEX_END, reader, read_rows);
}

/* ---- an index that is added to ---- */

static int resume_row(void *user, const struct pfw_compare_found *found)
{
	const struct pfw_table_line line = { .cat = found->cat, .name = found->name };
	struct file *file = user;

	return add_row(file, find_row(&file->key, &file->rows, &line), found, NULL);
}

static int resume(void *user, struct pfw_varints *row)
{
	struct file *file = user;
	struct pfw_compare_reader reader = { .user = file, .row = resume_row };
	int error = read_rows(&reader, row, true);

	file->memory |= reader.memory;
	file->none |= error == -ENOENT;
	return error == -ENOENT ? 0 : error;
}

const struct pfw_index_kind pfw_compare_kind = {
	.name = "compare",
	.number = 4,
	.version = 2,
	.block_bytes = sizeof(struct block),
	.block_clear = clear_block,
	.block_other = forget_file,
	.block_release = release_block,
	.wants = PFW_INDEX_LINES,
	.add = add,
	.file_bytes = sizeof(struct file),
	.file_release = release_file,
	.take = take,
	.end = end,
	.resume = resume,
};
