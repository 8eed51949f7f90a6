/* patterns_index.c - how the files of a compacted trace are used, as one row of its index; see
 * docs/index.rst.
 *
 * It is one for all blocks: of a part of them nothing could be said without those before, which tell
 * where descriptors stand.
 */
#include "patterns_index.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "index_db.h"
#include "patterns.h"
#include "patterns_op.h"
#include "varint.h"

/* Files of one trace that are kept: each takes some 600 bytes while an index is made.  Where there are
 * more, nothing is. */
#define FILES_MAX 65536u

/* Figures of a pattern in their order in a row.  A new one is a new version. */
#define HEAD_FIGURES 6
#define SIDE_FIGURES (8 + PFW_PATTERN_SIZES + PFW_ACCESSES)
#define FIGURES (HEAD_FIGURES + 2 * SIDE_FIGURES)

struct file {
	struct pfw_patterns patterns;
	struct pfw_pattern_counters counters;
	bool too_many;
};

/* ---- figures ---- */

static void side_figures(const struct pfw_pattern_side *side, uint64_t *figure)
{
	const uint64_t head[8] = { side->calls,	 side->accesses,  side->bytes, (uint64_t)side->ns,
				   side->behind, side->unaligned, side->small, side->end };

	memcpy(figure, head, sizeof(head));
	memcpy(figure + 8, side->size, sizeof(side->size));
	memcpy(figure + 8 + PFW_PATTERN_SIZES, side->access, sizeof(side->access));
}

static void figures_of(const struct pfw_pattern *pattern, uint64_t *figure)
{
	const uint64_t head[HEAD_FIGURES] = { pattern->opens,	  pattern->again,
					      pattern->others,	  (uint64_t)pattern->metadata_ns,
					      pattern->processes, pattern->switches };

	memcpy(figure, head, sizeof(head));
	side_figures(&pattern->side[0], figure + HEAD_FIGURES);
	side_figures(&pattern->side[1], figure + HEAD_FIGURES + SIDE_FIGURES);
}

static void take_side(struct pfw_pattern_side *side, const uint64_t *figure)
{
	*side = (struct pfw_pattern_side){ .calls = figure[0],
					   .accesses = figure[1],
					   .bytes = figure[2],
					   .ns = (int64_t)figure[3],
					   .behind = figure[4],
					   .unaligned = figure[5],
					   .small = figure[6],
					   .end = figure[7] };
	memcpy(side->size, figure + 8, sizeof(side->size));
	memcpy(side->access, figure + 8 + PFW_PATTERN_SIZES, sizeof(side->access));
}

/* What figures_of() has told; false: no pattern has these. */
static bool take_figures(struct pfw_pattern *pattern, const uint64_t *figure)
{
	*pattern = (struct pfw_pattern){ .opens = figure[0],
					 .again = figure[1],
					 .others = figure[2],
					 .metadata_ns = (int64_t)figure[3],
					 .processes = figure[4],
					 .switches = figure[5] };
	take_side(&pattern->side[0], figure + HEAD_FIGURES);
	take_side(&pattern->side[1], figure + HEAD_FIGURES + SIDE_FIGURES);
	return pattern->metadata_ns >= 0 && pattern->side[0].ns >= 0 && pattern->side[1].ns >= 0;
}

/* ---- writing ---- */

static int put(struct pfw_blob *blob, uint64_t value)
{
	if (pfw_blob_reserve(blob, PFW_VARINT_MAX))
		return -ENOMEM;
	blob->bytes = (size_t)(pfw_varint_put(blob->data + blob->bytes, value) - blob->data);
	return 0;
}

/* A figure that is not 0: how many were passed over, and what it is; behind the last 0 figures more
 * than there are. */
static int put_figures(struct pfw_blob *blob, const struct pfw_pattern *pattern)
{
	uint64_t figure[FIGURES], passed = 0;
	int error = 0;

	figures_of(pattern, figure);
	for (unsigned i = 0; i < FIGURES && !error; i++) {
		if (!figure[i]) {
			passed++;
			continue;
		}
		error = put(blob, passed);
		error = error ? error : put(blob, figure[i]);
		passed = 0;
	}
	return error ? error : put(blob, FIGURES);
}

static int put_name(struct pfw_blob *blob, const struct pfw_patterns *patterns, size_t number)
{
	size_t bytes;
	const char *name = pfw_patterns_name(patterns, number, &bytes);

	if (put(blob, bytes) || pfw_blob_reserve(blob, bytes))
		return -ENOMEM;
	memcpy(blob->data + blob->bytes, name, bytes);
	blob->bytes += bytes;
	return 0;
}

static int put_counters(struct pfw_blob *blob, const struct pfw_pattern_counters *counters)
{
	int error = put(blob, counters->any);

	for (unsigned i = 0; i < 2 && !error; i++) {
		error = put(blob, counters->io[i]);
		error = error ? error : put(blob, counters->storage[i]);
	}
	return error;
}

static void add_counters(struct pfw_pattern_counters *into, const struct pfw_pattern_counters *from)
{
	for (unsigned i = 0; i < 2; i++) {
		into->io[i] += from->io[i];
		into->storage[i] += from->storage[i];
	}
	into->any |= from->any;
}

/* ---- the kind ---- */

static void *create_block(void)
{
	return pfw_patterns_block_create();
}

static void clear_block(void *block)
{
	pfw_patterns_block_clear(block);
}

static void free_block(void *block)
{
	pfw_patterns_block_free(block);
}

static int add(void *block, const struct pfw_entry *entry, const struct pfw_fnames *fnames)
{
	return pfw_patterns_block_add(block, entry, fnames, true);
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
	add_counters(&file->counters, &block->counters);
	error = pfw_patterns_take(&file->patterns, 0, 0, block);
	if (!error && file->patterns.rows > FILES_MAX) {
		file->too_many = true;
		pfw_patterns_release(&file->patterns);
		pfw_patterns_init(&file->patterns);
	}
	return error;
}

/* Empty: there were too many. */
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
	.version = 1,
	.sorted = true,
	.block_create = create_block,
	.block_clear = clear_block,
	.block_free = free_block,
	.add = add,
	.file_create = create_file,
	.file_free = free_file,
	.take = take,
	.end = end,
};

/* ---- reading ---- */

static bool read_figures(struct pfw_varints *reader, struct pfw_pattern *pattern)
{
	uint64_t figure[FIGURES] = { 0 }, at = pfw_varints_next(reader);

	while (!reader->bad && at < FIGURES) {
		uint64_t passed;

		figure[at] = pfw_varints_next(reader);
		passed = pfw_varints_next(reader);
		at = passed >= FIGURES ? FIGURES : at + 1 + passed;
		if (at >= FIGURES && passed < FIGURES)
			return false;
	}
	return !reader->bad && take_figures(pattern, figure);
}

/* Rows of one name are of several traces, whose processes are others. */
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

static int read_file(struct pfw_patterns *patterns, int64_t rank, struct pfw_varints *reader)
{
	struct pfw_pattern pattern;
	uint64_t bytes = pfw_varints_next(reader);
	const char *name = (const char *)reader->at;

	if (reader->bad || bytes > (uint64_t)(reader->end - reader->at))
		return -EBADMSG;
	reader->at += bytes;
	if (!read_figures(reader, &pattern))
		return -EBADMSG;
	return add_pattern(patterns, rank, name, bytes, &pattern);
}

int pfw_patterns_read_row(struct pfw_patterns *patterns, int64_t rank,
			  struct pfw_pattern_counters *counters, const uint8_t *data, size_t bytes)
{
	struct pfw_varints reader = pfw_varints(data, bytes);
	int error = 0;

	if (!bytes)
		return -ENOENT;
	counters->any |= pfw_varints_next(&reader) != 0;
	for (unsigned i = 0; i < 2; i++) {
		counters->io[i] += pfw_varints_next(&reader);
		counters->storage[i] += pfw_varints_next(&reader);
	}
	while (!reader.bad && !error && reader.at < reader.end)
		error = read_file(patterns, rank, &reader);
	return error ? error : reader.bad ? -EBADMSG : 0;
}

struct reading {
	struct pfw_patterns patterns;
	struct pfw_pattern_counters counters;
	int64_t rank;
};

static int read_row(void *user, uint64_t block, const uint8_t *data, size_t bytes)
{
	struct reading *reading = user;

	(void)block;
	return pfw_patterns_read_row(&reading->patterns, reading->rank, &reading->counters, data,
				     bytes);
}

int pfw_patterns_from_index(struct pfw_patterns *patterns, int64_t rank,
			    struct pfw_pattern_counters *counters, struct pfw_index *index)
{
	struct reading reading = { .rank = rank };
	struct pfw_patterns *found = &reading.patterns;
	int error;

	pfw_patterns_init(found);
	if (patterns->alignment != found->alignment || patterns->small != found->small)
		error = -ENOENT;
	else
		error = pfw_index_parts(index, &pfw_patterns_kind, &reading, read_row);
	for (size_t i = 0; i < found->rows && !error; i++) {
		size_t bytes;
		const char *name = pfw_patterns_name(found, i, &bytes);

		error = add_pattern(patterns, rank, name, bytes, &found->row[i]);
	}
	if (!error)
		add_counters(counters, &reading.counters);
	pfw_patterns_release(found);
	return error;
}
