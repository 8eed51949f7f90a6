/* store/index/blob.c - writes and reads the blobs of an index: docs/index_format.rst; see db.h. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "store/index/db.h"
#include "store/kit/hash.h"
#include "store/kit/varint.h"
#include "store/summary/rows.h"

/* The numbers of a name besides its sketch: 11 varints and both halves of a sum. */
#define NAME_BYTES_MAX (13u * PFW_VARINT_MAX)

int pfw_blob_reserve(struct pfw_blob *blob, size_t more)
{
	size_t room = blob->room ? blob->room : 4096;
	uint8_t *bigger;

	if (blob->room - blob->bytes >= more)
		return 0;
	while (room - blob->bytes < more)
		room *= 2;
	bigger = realloc(blob->data, room);
	blob->failed |= !bigger;
	if (!bigger)
		return -ENOMEM;
	blob->data = bigger;
	blob->room = room;
	return 0;
}

void pfw_blob_put(struct pfw_blob *blob, const uint64_t *value, size_t count)
{
	uint8_t *at;

	if (pfw_blob_reserve(blob, count * PFW_VARINT_MAX))
		return;
	at = blob->data + blob->bytes;
	for (size_t i = 0; i < count; i++)
		at = pfw_varint_put(at, value[i]);
	blob->bytes = (size_t)(at - blob->data);
}

void pfw_blob_bytes(struct pfw_blob *blob, const void *data, size_t bytes)
{
	PFW_BLOB_PUT(blob, bytes);
	if (!bytes || pfw_blob_reserve(blob, bytes))
		return;
	memcpy(blob->data + blob->bytes, data, bytes);
	blob->bytes += bytes;
}

void pfw_blob_part(struct pfw_blob *blob, struct pfw_blob *part)
{
	pfw_blob_bytes(blob, part->data, part->bytes);
	blob->failed |= part->failed;
	pfw_blob_free(part);
}

void pfw_blob_free(struct pfw_blob *blob)
{
	free(blob->data);
	*blob = (struct pfw_blob){ 0 };
}

/* ---- names ---- */

/* Names that share row 0 of the file's summary are added up in row 0 of the block, too. */
static int gather_others(struct pfw_summary *block)
{
	struct pfw_summary_name *others = &block->name[0];

	for (uint32_t i = 1; i < block->names; i++) {
		const struct pfw_summary_name *name = &block->name[i];

		if (name->merged)
			continue;
		pfw_summary_merge_name(others, name);
		if (pfw_sketch_merge(&others->durations, &name->durations, true))
			return -ENOMEM;
	}
	return 0;
}

static int by_merged(const void *a, const void *b)
{
	const struct pfw_summary_name *x = *(const struct pfw_summary_name *const *)a;
	const struct pfw_summary_name *y = *(const struct pfw_summary_name *const *)b;

	return x->merged < y->merged ? -1 : x->merged > y->merged;
}

static int put_name(struct pfw_blob *blob, const struct pfw_summary_name *name, uint32_t next)
{
	uint8_t *at, sketch[PFW_SKETCH_BYTES_MAX];
	size_t sketch_bytes = pfw_sketch_encode_block(&name->durations, sketch);

	if (pfw_blob_reserve(blob, NAME_BYTES_MAX + sketch_bytes))
		return -ENOMEM;
	at = blob->data + blob->bytes;
	at = pfw_varint_put(at, name->merged - next);
	at = pfw_varint_put(at, name->count);
	at = pfw_varint_put(at, name->bytes);
	at = pfw_varint_put(at, name->transfers);
	if (name->transfers)
		at = pfw_varint_put(
			at, pfw_varint_fold((int64_t)((uint64_t)name->sum_ns - name->transfer_ns)));
	at = pfw_varint_put(at, name->durations.total);
	at = pfw_varint_put(at, (uint64_t)name->sum_ns);
	at = pfw_varint_put(at, pfw_varint_fold((int64_t)(name->sum_ns >> 64)));
	if (name->durations.total) {
		at = pfw_varint_put(at, pfw_varint_fold(name->min_ns));
		at = pfw_varint_put(at, (uint64_t)name->max_ns - (uint64_t)name->min_ns);
		at = pfw_varint_put(at, sketch_bytes);
		memcpy(at, sketch, sketch_bytes);
		at += sketch_bytes;
	}
	blob->bytes = (size_t)(at - blob->data);
	return 0;
}

int pfw_blob_names(struct pfw_blob *blob, struct pfw_summary *block)
{
	const struct pfw_summary_name **order = malloc(block->names * sizeof(*order));
	uint32_t count = 0, next = 0;
	int error = order ? gather_others(block) : -ENOMEM;

	blob->bytes = 0;
	for (uint32_t i = 0; !error && i < block->names; i++) {
		if (i ? block->name[i].merged : block->name[i].count)
			order[count++] = &block->name[i];
	}
	if (!error)
		qsort(order, count, sizeof(*order), by_merged);
	for (uint32_t i = 0; !error && i < count; i++) {
		error = put_name(blob, order[i], next);
		next = order[i]->merged + 1;
	}
	free(order);
	return error;
}

/* ---- numbers alone ---- */

/* Write the numbers `merged` of rows 1 to count - 1, each `size` bytes after the last, and 0 if
 * `others`.  They are collected in a bit set, so no sort is needed. */
static int put_rows(struct pfw_blob *blob, const uint32_t *merged, size_t size, uint32_t count,
		    bool others)
{
	uint64_t bits[PFW_SUMMARY_FILES_MAX / 64];
	uint32_t most = 0, next = 0;
	uint8_t *at;

	blob->bytes = 0;
	if (pfw_blob_reserve(blob, (size_t)count * 5))
		return -ENOMEM;
	for (uint32_t i = 0; i < count; i++) {
		uint32_t row = i ? *(const uint32_t *)((const char *)merged + i * size) : 0;

		for (; next <= row / 64; next++)
			bits[next] = 0;
		bits[row / 64] |= (uint64_t)(i || others) << row % 64;
		most = row > most ? row : most;
	}
	next = 0;
	at = blob->data;
	for (uint32_t i = 0; i <= most / 64; i++) {
		for (uint64_t left = bits[i]; left; left &= left - 1) {
			uint32_t row = i * 64 + (uint32_t)__builtin_ctzll(left);

			at = pfw_varint_put(at, row - next);
			next = row + 1;
		}
	}
	blob->bytes = (size_t)(at - blob->data);
	return 0;
}

int pfw_blob_threads(struct pfw_blob *blob, const struct pfw_summary *block)
{
	return put_rows(blob, &block->thread->merged, sizeof(*block->thread), block->threads,
			block->thread->lines);
}

int pfw_blob_files(struct pfw_blob *blob, const struct pfw_summary *block)
{
	return put_rows(blob, &block->file->merged, sizeof(*block->file), block->files,
			block->file->lines);
}

/* ---- files' sums ---- */

#define HASH_SEED 0x706677u /* part of the format: hashes of several indexes are compared */

int pfw_blob_sums(struct pfw_blob *blob, const struct pfw_summary_file *file)
{
	uint64_t hash = htole64(pfw_hash_text(HASH_SEED, file->name, file->name_bytes));
	uint8_t *at;

	if (pfw_blob_reserve(blob, sizeof(hash) + 3 * PFW_VARINT_MAX))
		return -ENOMEM;
	at = blob->data + blob->bytes;
	memcpy(at, &hash, sizeof(hash));
	at += sizeof(hash);
	at = pfw_varint_put(at, pfw_summary_file_bytes(file));
	at = pfw_varint_put(at, pfw_summary_file_ns(file));
	at = pfw_varint_put(at, pfw_summary_file_calls(file));
	blob->bytes = (size_t)(at - blob->data);
	return 0;
}

/* ---- reading ---- */

int pfw_blob_next_row(struct pfw_blob_reader *reader, uint32_t rows, uint32_t *row)
{
	uint64_t step;

	if (reader->at == reader->end)
		return 0;
	if (!pfw_varint_get(&reader->at, reader->end, &step) || reader->next >= rows ||
	    step >= rows - reader->next)
		return -EBADMSG;
	*row = reader->next + (uint32_t)step;
	reader->next = *row + 1;
	return 1;
}

static bool get(struct pfw_blob_reader *reader, uint64_t *value)
{
	return pfw_varint_get(&reader->at, reader->end, value);
}

int pfw_blob_next_sums(struct pfw_blob_reader *reader, struct pfw_blob_sums *sums)
{
	if (reader->at == reader->end)
		return 0;
	if (reader->end - reader->at < 8)
		return -EBADMSG;
	memcpy(&sums->hash, reader->at, 8);
	sums->hash = le64toh(sums->hash);
	reader->at += 8;
	return get(reader, &sums->bytes) && get(reader, &sums->ns) && get(reader, &sums->calls)
		       ? 1
		       : -EBADMSG;
}

int pfw_blob_next_name(struct pfw_blob_reader *reader, uint32_t rows, struct pfw_blob_name *name)
{
	uint64_t low, high, min, range, bytes, folded = 0;
	int result = pfw_blob_next_row(reader, rows, &name->row);

	if (result <= 0)
		return result;
	if (!get(reader, &name->count) || !get(reader, &name->bytes) ||
	    !get(reader, &name->transfers) || (name->transfers && !get(reader, &folded)) ||
	    !get(reader, &name->timed) || !get(reader, &low) || !get(reader, &high))
		return -EBADMSG;
	name->sum_ns = (__int128)((unsigned __int128)(uint64_t)pfw_varint_unfold(high) << 64 | low);
	name->transfer_ns = name->transfers ? low - (uint64_t)pfw_varint_unfold(folded) : 0;
	name->min_ns = INT64_MAX;
	name->max_ns = INT64_MIN;
	name->sketch = reader->at;
	name->sketch_bytes = 0;
	if (!name->timed)
		return 1;
	if (!get(reader, &min) || !get(reader, &range) || !get(reader, &bytes) ||
	    bytes > (size_t)(reader->end - reader->at))
		return -EBADMSG;
	name->min_ns = pfw_varint_unfold(min);
	name->max_ns = (int64_t)((uint64_t)name->min_ns + range);
	name->sketch = reader->at;
	name->sketch_bytes = (size_t)bytes;
	reader->at += bytes;
	return name->max_ns >= name->min_ns ? 1 : -EBADMSG;
}
