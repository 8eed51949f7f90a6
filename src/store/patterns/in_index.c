/* store/patterns/in_index.c - stores a trace's patterns in its index: docs/index_format.rst.
 *
 * There is one row for all blocks: the offsets of a block's descriptors follow from the blocks
 * before.
 */
#include "store/patterns/in_index.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "store/index/db.h"
#include "store/kit/grow.h"
#include "store/kit/varint.h"
#include "store/patterns/op.h"
#include "store/patterns/patterns.h"

/* The most files of one trace, some 600 bytes each while an index is made.  A trace with more has
 * an empty row. */
#define FILES_MAX 65536u
/* The most bytes that a name takes from the one before: so names have at most some hundred times the
 * bytes of a damaged row. */
#define SHARED_MAX 255u

struct file {
	struct pfw_patterns patterns;
	struct pfw_pattern_counters counters;
	bool too_many;
	uint64_t pid; /* of the first call */
	bool any;     /* call */
	bool several; /* pids, or processes */
	bool begun;   /* its process */
	bool resumed;
};

/* ---- writing ---- */

#define FIGURE_BIT(member) (1ull << (offsetof(struct pfw_pattern, member) / sizeof(uint64_t)))
#define FIRST_FIGURES (FIGURE_BIT(side[0].bytes) | FIGURE_BIT(side[1].bytes) | FIGURE_BIT(mapped))

/* Append what orders files; then each other figure that is not 0, after the number of zeros before
 * it, so that a reader can pass them by. */
void pfw_pattern_put_figures(struct pfw_blob *blob, const struct pfw_pattern *pattern)
{
	uint8_t list[2 * PFW_PATTERN_FIGURES * PFW_VARINT_MAX], *end = list, *at;
	unsigned next = 0;

	for (unsigned i = 0; i < PFW_PATTERN_FIGURES; i++) {
		if (!pattern->figure[i] || FIRST_FIGURES >> i & 1)
			continue;
		*end++ = (uint8_t)(i - next); /* a varint of one byte */
		end = pfw_varint_put(end, pattern->figure[i]);
		next = i + 1;
	}
	if (pfw_blob_reserve(blob, 4 * PFW_VARINT_MAX + sizeof(list)))
		return;
	at = blob->data + blob->bytes;
	at = pfw_varint_put(at, pattern->side[0].bytes);
	at = pfw_varint_put(at, pattern->side[1].bytes);
	at = pfw_varint_put(at, pattern->mapped);
	at = pfw_varint_put(at, (uint64_t)(end - list));
	memcpy(at, list, (size_t)(end - list));
	blob->bytes = (size_t)(at - blob->data) + (size_t)(end - list);
}

/* Files of one directory follow each other, and their names are most of the row. */
static void put_name(struct pfw_blob *blob, const struct pfw_text_id *name,
		     const struct pfw_text_id *before)
{
	uint32_t most = name->bytes < before->bytes ? name->bytes : before->bytes, shared = 0;
	size_t bytes;
	uint8_t *at;

	most = most < SHARED_MAX ? most : SHARED_MAX;
	while (shared + 8 <= most && !memcmp(name->text + shared, before->text + shared, 8))
		shared += 8;
	while (shared < most && name->text[shared] == before->text[shared])
		shared++;
	bytes = name->bytes - shared;
	if (pfw_blob_reserve(blob, 2 * PFW_VARINT_MAX + bytes))
		return;
	at = pfw_varint_put(pfw_varint_put(blob->data + blob->bytes, shared), bytes);
	memcpy(at, name->text + shared, bytes);
	blob->bytes = (size_t)(at - blob->data) + bytes;
}

static void put_files(struct pfw_blob *blob, const struct pfw_patterns *patterns)
{
	static const struct pfw_text_id none = { .text = "" };
	const struct pfw_text_id *before = &none;

	for (size_t i = 0; i < patterns->rows; i++) {
		const struct pfw_text_id *name = &patterns->keys.name[i];

		if (!pfw_pattern_counted(&patterns->row[i]))
			continue;
		put_name(blob, name, before);
		pfw_pattern_put_figures(blob, &patterns->row[i]);
		before = name;
	}
}

static void put_sums(struct pfw_blob *blob, const struct pfw_patterns *patterns)
{
	struct pfw_pattern sum = { .figure = { 0 } };

	for (size_t i = 0; i < patterns->rows; i++) {
		if (pfw_pattern_counted(&patterns->row[i]))
			pfw_pattern_add(&sum, &patterns->row[i]);
	}
	pfw_pattern_put_figures(blob, &sum);
}

/* ---- the kind ---- */

static int init_file(void *user)
{
	struct file *file = user;

	pfw_patterns_init(&file->patterns);
	return 0;
}

static void set_sorted(void *user)
{
	((struct file *)user)->patterns.sorted = true;
}

static void release_file(void *user)
{
	struct file *file = user;

	pfw_patterns_release(&file->patterns);
}

/* Note whether all calls are of one process.  -EAGAIN: they are not, in an index that is added to. */
static int note_process(struct file *file, const struct pfw_patterns_block *block)
{
	if (!file->any && block->ops.count) {
		file->any = true;
		file->pid = block->pid;
	}
	file->several |= (block->begins && file->begun) || block->pids ||
			 (block->ops.count && block->pid != file->pid);
	file->begun |= block->begins;
	return file->resumed && file->several ? -EAGAIN : 0;
}

static int take(void *user, void *taken, struct pfw_blob *data)
{
	struct pfw_patterns_block *block = taken;
	struct file *file = user;
	int error;

	(void)data;
	if (file->too_many)
		return 0;
	if (note_process(file, block))
		return -EAGAIN;
	pfw_pattern_add_counters(&file->counters, &block->counters);
	error = pfw_patterns_take(&file->patterns, 0, 0, block);
	if (!error && file->patterns.rows > FILES_MAX) {
		file->too_many = true;
		pfw_patterns_release(&file->patterns);
		pfw_patterns_init(&file->patterns);
	}
	return error;
}

/* The row is empty if there were too many files. */
static int end(void *user, struct pfw_blob *data)
{
	struct file *file = user;
	const struct pfw_pattern_counters *counters = &file->counters;
	int error = file->too_many ? 0 : pfw_patterns_end(&file->patterns);

	if (error || file->too_many)
		return error;
	if (file->resumed && file->patterns.late)
		return -EAGAIN;
	PFW_BLOB_PUT(data, counters->any, counters->io[0], counters->storage[0], counters->io[1],
		     counters->storage[1]);
	put_sums(data, &file->patterns);
	put_files(data, &file->patterns);
	return 0;
}

/* ---- reading ---- */

static void read_figures(struct pfw_varints *reader, struct pfw_pattern_file *file)
{
	file->bytes[0] = pfw_varints_next(reader);
	file->bytes[1] = pfw_varints_next(reader);
	file->mapped = pfw_varints_next(reader);
	file->figures = pfw_varints_part(reader);
}

int pfw_pattern_get_figures(struct pfw_varints *reader, struct pfw_pattern *pattern)
{
	struct pfw_pattern_file file = { .name = NULL };

	read_figures(reader, &file);
	return reader->bad ? -EBADMSG : pfw_pattern_figures(&file, pattern);
}

int pfw_pattern_figures(const struct pfw_pattern_file *file, struct pfw_pattern *pattern)
{
	struct pfw_varints reader = file->figures;
	uint64_t at = 0;

	*pattern = (struct pfw_pattern){ .figure = { 0 } };
	while (!reader.bad && reader.at < reader.end) {
		uint64_t passed = pfw_varints_next(&reader);

		if (passed >= PFW_PATTERN_FIGURES - at)
			return -EBADMSG;
		at += passed;
		pattern->figure[at++] = pfw_varints_next(&reader);
	}
	pattern->side[0].bytes = file->bytes[0];
	pattern->side[1].bytes = file->bytes[1];
	pattern->mapped = file->mapped;
	return reader.bad || pattern->metadata_ns < 0 || pattern->side[0].ns < 0 ||
			       pattern->side[1].ns < 0
		       ? -EBADMSG
		       : 0;
}

/* What is read, file by file. */
struct reading {
	pfw_pattern_take *take;
	void *user;
	struct pfw_pattern_totals totals;
	char *name; /* of the file read last */
	size_t name_bytes, name_room;
};

static int read_name(struct reading *reading, struct pfw_varints *reader)
{
	uint64_t shared = pfw_varints_next(reader);
	const struct pfw_varints rest = pfw_varints_part(reader);
	size_t bytes = (size_t)(rest.end - rest.at);

	if (reader->bad || shared > SHARED_MAX || shared > reading->name_bytes)
		return -EBADMSG;
	reading->name_bytes = (size_t)shared + bytes;
	if (PFW_REACH(reading->name, reading->name_bytes, reading->name_room))
		return -ENOMEM;
	memcpy(reading->name + shared, rest.at, bytes);
	return 0;
}

static int read_file(struct reading *reading, struct pfw_varints *reader)
{
	struct pfw_pattern_file file;
	int error = read_name(reading, reader);

	if (error)
		return error;
	file.name = reading->name;
	file.name_bytes = reading->name_bytes;
	read_figures(reader, &file);
	return reader->bad ? -EBADMSG : reading->take(reading->user, &file);
}

static int read_totals(struct pfw_pattern_totals *totals, struct pfw_varints *reader)
{
	struct pfw_pattern_file sums = { .name = NULL };

	totals->counters.any = pfw_varints_next(reader) != 0;
	for (unsigned i = 0; i < 2; i++) {
		totals->counters.io[i] = pfw_varints_next(reader);
		totals->counters.storage[i] = pfw_varints_next(reader);
	}
	read_figures(reader, &sums);
	return reader->bad ? -EBADMSG : pfw_pattern_figures(&sums, &totals->sum);
}

static int read_row(void *user, struct pfw_varints *reader, bool last)
{
	struct reading *reading = user;
	int error;

	(void)last;
	if (reader->at == reader->end)
		return -ENOENT;
	error = read_totals(&reading->totals, reader);
	while (!error && reader->at < reader->end)
		error = read_file(reading, reader);
	free(reading->name);
	reading->name = NULL;
	reading->name_bytes = reading->name_room = 0;
	return error;
}

/* Rows that get the files. */
struct adding {
	struct pfw_patterns *patterns;
	int64_t rank;
};

static int add_pattern(const struct adding *adding, const char *name, size_t bytes,
		       const struct pfw_pattern *pattern)
{
	int64_t number = pfw_patterns_row(adding->patterns, adding->rank, name, bytes);

	if (number < 0)
		return (int)number;
	/* Rows of one name come from several traces. */
	pfw_pattern_add(&adding->patterns->row[number], pattern);
	return 0;
}

static int add_file(void *user, const struct pfw_pattern_file *file)
{
	struct pfw_pattern pattern;
	int error = pfw_pattern_figures(file, &pattern);

	return error ? error : add_pattern(user, file->name, file->name_bytes, &pattern);
}

int pfw_patterns_read_row(struct pfw_patterns *patterns, int64_t rank,
			  struct pfw_pattern_counters *counters, struct pfw_varints *row)
{
	struct adding adding = { .patterns = patterns, .rank = rank };
	struct reading reading = { .take = add_file, .user = &adding };
	int error = read_row(&reading, row, true);

	pfw_pattern_add_counters(counters, &reading.totals.counters);
	return error;
}

/* ---- an index that is added to ---- */

static int state(void *user, struct pfw_blob *data, size_t most)
{
	struct file *file = user;

	if (file->too_many || file->several || file->patterns.sorted)
		return 0;
	PFW_BLOB_PUT(data, file->begun, file->any, file->pid);
	return pfw_patterns_put_state(&file->patterns, data, most);
}

static int resume(void *user, struct pfw_varints *row)
{
	struct file *file = user;

	return pfw_patterns_read_row(&file->patterns, 0, &file->counters, row);
}

static int resume_more(void *user, struct pfw_varints *row)
{
	struct file *file = user;

	file->resumed = true;
	file->begun = pfw_varints_next(row) != 0;
	file->any = pfw_varints_next(row) != 0;
	file->pid = pfw_varints_next(row);
	return pfw_patterns_get_state(&file->patterns, row);
}

const struct pfw_index_kind pfw_patterns_kind = {
	.name = "patterns",
	.number = 2,
	.version = 10,
	.block_bytes = sizeof(struct pfw_patterns_block),
	.block_clear = pfw_patterns_block_clear,
	.block_release = pfw_patterns_block_release,
	.wants = PFW_INDEX_LINES & ~PFW_INDEX_SPANS,
	.add = pfw_patterns_block_add_summed,
	.file_bytes = sizeof(struct file),
	.file_init = init_file,
	.sorted = set_sorted,
	.file_release = release_file,
	.take = take,
	.end = end,
	.state = state,
	.resume = resume,
	.resume_more = resume_more,
};

/* ---- a reader ---- */

int pfw_patterns_walk_index(struct pfw_index *index, struct pfw_pattern_totals *totals,
			    pfw_pattern_take *take, void *user)
{
	struct reading reading = { .take = take, .user = user };
	int error = pfw_index_parts(index, &pfw_patterns_kind, PFW_INDEX_END, &reading, read_row);

	*totals = reading.totals;
	return error;
}

static int copy_row(void *user, struct pfw_varints *reader, bool last)
{
	struct pfw_pattern_row *row = user;

	(void)last;
	row->bytes = (size_t)(reader->end - reader->at);
	row->data = malloc(row->bytes + 1);
	if (!row->data)
		return -ENOMEM;
	memcpy(row->data, reader->at, row->bytes);
	return 0;
}

int pfw_patterns_copy_row(struct pfw_index *index, struct pfw_pattern_row *row)
{
	return pfw_index_parts(index, &pfw_patterns_kind, PFW_INDEX_END, row, copy_row);
}

int pfw_patterns_walk_row(const struct pfw_pattern_row *row, struct pfw_pattern_totals *totals,
			  pfw_pattern_take *take, void *user)
{
	struct reading reading = { .take = take, .user = user };
	struct pfw_varints reader = pfw_varints(row->data, row->bytes);
	int error = read_row(&reading, &reader, true);

	*totals = reading.totals;
	return error;
}

bool pfw_patterns_indexable(const struct pfw_patterns *patterns)
{
	struct pfw_patterns usual;

	pfw_patterns_init(&usual);
	return patterns->alignment == usual.alignment && patterns->small == usual.small;
}

int pfw_patterns_from_index(struct pfw_patterns *patterns, int64_t rank,
			    struct pfw_pattern_counters *counters, struct pfw_index *index)
{
	struct pfw_pattern_totals totals;
	struct pfw_patterns found;
	struct adding adding = { .patterns = &found, .rank = rank };
	int error = -ENOENT;

	pfw_patterns_init(&found);
	if (pfw_patterns_indexable(patterns))
		error = pfw_patterns_walk_index(index, &totals, add_file, &adding);
	adding.patterns = patterns;
	for (size_t i = 0; i < found.rows && !error; i++) {
		size_t bytes;
		const char *name = pfw_patterns_name(&found, i, &bytes);

		error = add_pattern(&adding, name, bytes, &found.row[i]);
	}
	if (!error)
		pfw_pattern_add_counters(counters, &totals.counters);
	pfw_patterns_release(&found);
	return error;
}
