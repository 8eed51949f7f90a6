/* store/patterns/in_index.c - stores a compacted trace's patterns in its index:
 * docs/index_format.rst.
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
};

/* ---- writing ---- */

/* Append each figure that is not 0, after the number of zeros before it.  PFW_PATTERN_FIGURES ends
 * the list. */
static int put_figures(struct pfw_blob *blob, const struct pfw_pattern *pattern)
{
	uint64_t value[2 * PFW_PATTERN_FIGURES + 1], passed = 0;
	size_t count = 0;

	for (unsigned i = 0; i < PFW_PATTERN_FIGURES; i++) {
		if (!pattern->figure[i]) {
			passed++;
			continue;
		}
		value[count++] = passed;
		value[count++] = pattern->figure[i];
		passed = 0;
	}
	value[count++] = PFW_PATTERN_FIGURES;
	return pfw_blob_put(blob, value, count);
}

/* Files of one directory follow each other, and their names are most of the row. */
static int put_name(struct pfw_blob *blob, const struct pfw_patterns *patterns, size_t number)
{
	size_t bytes, before_bytes = 0, shared = 0;
	const char *name = pfw_patterns_name(patterns, number, &bytes), *before = "";

	if (number)
		before = pfw_patterns_name(patterns, number - 1, &before_bytes);
	while (shared < SHARED_MAX && shared < bytes && shared < before_bytes &&
	       name[shared] == before[shared])
		shared++;
	bytes -= shared;
	if (pfw_blob_put(blob, (uint64_t[]){ shared, bytes }, 2) || pfw_blob_reserve(blob, bytes))
		return -ENOMEM;
	memcpy(blob->data + blob->bytes, name + shared, bytes);
	blob->bytes += bytes;
	return 0;
}

static int put_counters(struct pfw_blob *blob, const struct pfw_pattern_counters *counters)
{
	const uint64_t value[] = { counters->any, counters->io[0], counters->storage[0],
				   counters->io[1], counters->storage[1] };

	return pfw_blob_put(blob, value, sizeof(value) / sizeof(value[0]));
}

/* ---- the kind ---- */

static int add(void *block, const struct pfw_entry *entry, const struct pfw_summary *summary)
{
	return pfw_patterns_block_add(block, entry, summary->fnames, true);
}

static void *create_file(void)
{
	struct file *file = calloc(1, sizeof(*file));

	if (!file)
		return NULL;
	pfw_patterns_init(&file->patterns);
	file->patterns.sorted = true;
	return file;
}

static void free_file(void *user)
{
	struct file *file = user;

	pfw_patterns_release(&file->patterns);
	free(file);
}

static int take(void *user, void *taken, struct pfw_blob *data)
{
	struct pfw_patterns_block *block = taken;
	struct file *file = user;
	int error;

	(void)data;
	if (file->too_many)
		return 0;
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
	int error;

	if (file->too_many)
		return 0;
	error = pfw_patterns_end(&file->patterns);
	error = error ? error : put_counters(data, &file->counters);
	for (size_t i = 0; i < file->patterns.rows && !error; i++) {
		error = put_name(data, &file->patterns, i);
		error = error ? error : put_figures(data, &file->patterns.row[i]);
	}
	return error;
}

const struct pfw_index_kind pfw_patterns_kind = {
	.name = "patterns",
	.number = 2,
	.version = 6,
	.sorted = true,
	.block_create = pfw_patterns_block_create,
	.block_clear = pfw_patterns_block_clear,
	.block_free = pfw_patterns_block_free,
	.add = add,
	.file_create = create_file,
	.file_free = free_file,
	.take = take,
	.end = end,
};

/* ---- reading ---- */

static bool read_figures(struct pfw_varints *reader, struct pfw_pattern *pattern)
{
	uint64_t at = pfw_varints_next(reader);

	*pattern = (struct pfw_pattern){ .figure = { 0 } };
	while (!reader->bad && at < PFW_PATTERN_FIGURES) {
		uint64_t passed;

		pattern->figure[at] = pfw_varints_next(reader);
		passed = pfw_varints_next(reader);
		at = passed >= PFW_PATTERN_FIGURES ? PFW_PATTERN_FIGURES : at + 1 + passed;
		if (at >= PFW_PATTERN_FIGURES && passed < PFW_PATTERN_FIGURES)
			return false;
	}
	return !reader->bad && pattern->metadata_ns >= 0 && pattern->side[0].ns >= 0 &&
	       pattern->side[1].ns >= 0;
}

/* Rows of one name come from several traces, with different processes: these add up. */
static int add_pattern(struct pfw_patterns *patterns, int64_t rank, const char *name, size_t bytes,
		       const struct pfw_pattern *pattern)
{
	int64_t number = pfw_patterns_row(patterns, rank, name, bytes);
	uint64_t processes;

	if (number < 0)
		return (int)number;
	processes = patterns->row[number].processes + pattern->processes;
	pfw_pattern_merge(&patterns->row[number], pattern);
	patterns->row[number].processes = processes;
	return 0;
}

/* What is read, file by file. */
struct reading {
	pfw_pattern_take *take;
	void *user;
	struct pfw_pattern_counters counters;
	char *name; /* of the file read last */
	size_t name_bytes, name_room;
};

static int read_name(struct reading *reading, struct pfw_varints *reader)
{
	uint64_t shared = pfw_varints_next(reader), bytes = pfw_varints_next(reader);

	if (reader->bad || shared > SHARED_MAX || shared > reading->name_bytes ||
	    bytes > (uint64_t)(reader->end - reader->at))
		return -EBADMSG;
	reading->name_bytes = (size_t)(shared + bytes);
	if (PFW_REACH(reading->name, reading->name_bytes, reading->name_room))
		return -ENOMEM;
	memcpy(reading->name + shared, reader->at, bytes);
	reader->at += bytes;
	return 0;
}

static int read_file(struct reading *reading, struct pfw_varints *reader)
{
	struct pfw_pattern pattern;
	int error = read_name(reading, reader);

	if (error)
		return error;
	if (!read_figures(reader, &pattern))
		return -EBADMSG;
	return reading->take(reading->user, reading->name, reading->name_bytes, &pattern);
}

static int read_row(void *user, const uint8_t *data, size_t bytes, bool last)
{
	struct pfw_varints reader = pfw_varints(data, bytes);
	struct reading *reading = user;
	int error = 0;

	(void)last;
	if (!bytes)
		return -ENOENT;
	reading->counters.any |= pfw_varints_next(&reader) != 0;
	for (unsigned i = 0; i < 2; i++) {
		reading->counters.io[i] += pfw_varints_next(&reader);
		reading->counters.storage[i] += pfw_varints_next(&reader);
	}
	while (!reader.bad && !error && reader.at < reader.end)
		error = read_file(reading, &reader);
	free(reading->name);
	reading->name = NULL;
	reading->name_bytes = reading->name_room = 0;
	return error ? error : reader.bad ? -EBADMSG : 0;
}

/* Rows that get the files. */
struct adding {
	struct pfw_patterns *patterns;
	int64_t rank;
};

static int add_file(void *user, const char *name, size_t bytes, const struct pfw_pattern *pattern)
{
	const struct adding *adding = user;

	return add_pattern(adding->patterns, adding->rank, name, bytes, pattern);
}

int pfw_patterns_read_row(struct pfw_patterns *patterns, int64_t rank,
			  struct pfw_pattern_counters *counters, const uint8_t *data, size_t bytes)
{
	struct adding adding = { .patterns = patterns, .rank = rank };
	struct reading reading = { .take = add_file, .user = &adding };
	int error = read_row(&reading, data, bytes, true);

	pfw_pattern_add_counters(counters, &reading.counters);
	return error;
}

int pfw_patterns_walk_index(struct pfw_index *index, struct pfw_pattern_counters *counters,
			    pfw_pattern_take *take, void *user)
{
	struct reading reading = { .take = take, .user = user };
	int error = pfw_index_parts(index, &pfw_patterns_kind, &reading, read_row);

	if (!error)
		pfw_pattern_add_counters(counters, &reading.counters);
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
	struct pfw_pattern_counters sums = { .any = false };
	struct pfw_patterns found;
	struct adding adding = { .patterns = &found, .rank = rank };
	int error = -ENOENT;

	pfw_patterns_init(&found);
	if (pfw_patterns_indexable(patterns))
		error = pfw_patterns_walk_index(index, &sums, add_file, &adding);
	for (size_t i = 0; i < found.rows && !error; i++) {
		size_t bytes;
		const char *name = pfw_patterns_name(&found, i, &bytes);

		error = add_pattern(patterns, rank, name, bytes, &found.row[i]);
	}
	if (!error)
		pfw_pattern_add_counters(counters, &sums);
	pfw_patterns_release(&found);
	return error;
}
