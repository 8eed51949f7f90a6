/* read/batch.c - columns that grow by rows; see batch.h. */
#include "read/batch.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "store/kit/grow.h"
#include "store/read/scan.h"

static size_t rounded(size_t count, size_t to)
{
	return (count + to - 1) / to * to;
}

struct pfw_read_batch *pfw_read_batch_new(const struct pfw_read_columns *columns, size_t room,
					  struct pfw_read_memory *memory)
{
	struct pfw_read_batch *batch =
		calloc(1, sizeof(*batch) + columns->count * sizeof(batch->cells[0]));

	for (unsigned i = 0; batch && i < columns->count; i++)
		batch->cells[i].dense = SIZE_MAX;
	if (batch) {
		batch->columns = columns->count;
		batch->room = rounded(room ? room : 1, PFW_READ_CLEARED);
		batch->memory = memory;
	}
	return batch;
}

void pfw_read_batch_free(struct pfw_read_batch *batch)
{
	for (unsigned i = 0; batch && i < batch->columns; i++) {
		pfw_read_memory_put(batch->cells[i].value);
		free(batch->cells[i].offset);
		free(batch->cells[i].text);
	}
	free(batch);
}

static bool fail(struct pfw_read_batch *batch, int error)
{
	if (!batch->error)
		batch->error = error;
	return false;
}

/* ---- memory of a column ---- */

/* Memory for `room` values and their bits. */
static bool get_values(struct pfw_read_batch *batch, struct pfw_read_cells *cells, size_t room)
{
	/* Arrow recommends a multiple of 64. */
	size_t bytes = rounded(room * cells->size, 64), all = bytes + room / 8;
	char *memory = pfw_read_memory_get(batch->memory, all);

	if (!memory)
		return fail(batch, -ENOMEM);
	batch->bytes += all;
	cells->value = memory;
	cells->valid = (uint8_t *)memory + bytes;
	return true;
}

static void clear(struct pfw_read_cells *cells, size_t from, size_t to)
{
	memset((char *)cells->value + from * cells->size, 0, (to - from) * cells->size);
	memset(cells->valid + from / 8, 0, (to - from) / 8);
}

/* Have that many rows, which there is room for, cleared. */
static void clear_rows(struct pfw_read_batch *batch, size_t rows)
{
	rows = rounded(rows, PFW_READ_CLEARED);
	for (unsigned i = 0; i < batch->columns; i++) {
		if (batch->cells[i].value)
			clear(&batch->cells[i], batch->cleared, rows);
	}
	batch->cleared = rows;
}

/* Get memory for a column with values of that size. */
static bool begin_cells(struct pfw_read_batch *batch, struct pfw_read_cells *cells, uint8_t size)
{
	cells->size = size;
	if (!get_values(batch, cells, batch->room))
		return false;
	cells->dense = 0;
	clear(cells, 0, batch->cleared);
	return true;
}

/* ---- rows and cells ---- */

void *pfw_read_batch_new_cell(struct pfw_read_batch *batch, struct pfw_read_cells *cells,
			      uint8_t size)
{
	size_t row = batch->rows - 1;

	if (batch->error)
		return NULL;
	if (!cells->value) {
		if (!begin_cells(batch, cells, size))
			return NULL;
		cells->dense = row ? 0 : 1;
		if (row)
			cells->valid[row / 8] |= (uint8_t)(1u << row % 8);
	}
	return (char *)cells->value + row * size;
}

static bool grow_cells(struct pfw_read_batch *batch, struct pfw_read_cells *cells, size_t room)
{
	struct pfw_read_cells old = *cells;

	if (!get_values(batch, cells, room))
		return false;
	memcpy(cells->value, old.value, batch->cleared * cells->size);
	memcpy(cells->valid, old.valid, batch->cleared / 8);
	pfw_read_memory_put(old.value);
	return true;
}

static bool grow(struct pfw_read_batch *batch, size_t rows)
{
	size_t room = batch->room;

	while (room < rows)
		room *= 2;
	for (unsigned i = 0; i < batch->columns && room > batch->room; i++) {
		if (batch->cells[i].value && !grow_cells(batch, &batch->cells[i], room))
			return false;
	}
	batch->room = room;
	return true;
}

bool pfw_read_batch_more(struct pfw_read_batch *batch, size_t rows)
{
	if (!grow(batch, batch->rows + rows))
		return false;
	if (batch->cleared < batch->rows + rows)
		clear_rows(batch, batch->rows + rows);
	return true;
}

void pfw_read_batch_unset(struct pfw_read_batch *batch, unsigned place)
{
	struct pfw_read_cells *cells = &batch->cells[place];
	size_t row = batch->rows - 1;

	if (cells->value && cells->dense > row)
		cells->dense = row;
	else if (cells->value)
		cells->valid[row / 8] &= (uint8_t) ~(1u << row % 8);
}

/* ---- texts ---- */

/* Names differ at their end, if they have the same length. */
static inline unsigned recent_of(const char *text, size_t bytes)
{
	size_t last = bytes < 8 ? bytes : 8;
	uint64_t word = pfw_hash_load(text + bytes - last, last) + bytes;

	return (unsigned)(word * 0x9e3779b97f4a7c15u >> 32) % PFW_READ_RECENT;
}

void pfw_read_batch_text(struct pfw_read_batch *batch, struct pfw_read_texts *texts, unsigned place,
			 const char *text, size_t bytes)
{
	struct pfw_text_ids *ids = &texts->ids[place];
	uint32_t *recent = &texts->recent[place][recent_of(text, bytes)];
	int32_t *value = pfw_read_batch_cell(batch, place, sizeof(*value));
	int64_t id = *recent;

	if (!value)
		return;
	if (id >= ids->count || ids->name[id].bytes != bytes ||
	    !pfw_hash_same(ids->name[id].text, text, bytes))
		id = pfw_text_ids_of(ids, 0, text, bytes);
	if (id < 0)
		fail(batch, (int)id);
	else
		*value = (int32_t)(*recent = (uint32_t)id);
}

static bool grow_text(struct pfw_read_batch *batch, struct pfw_read_cells *cells, size_t bytes)
{
	size_t wanted = cells->text_bytes + bytes, room = wanted + wanted / 2 + 256;
	char *text;

	if (wanted > INT32_MAX)
		return fail(batch, -EOVERFLOW);
	text = realloc(cells->text, room);
	if (!text)
		return fail(batch, -ENOMEM);
	batch->bytes += room - cells->text_room;
	cells->text = text;
	cells->text_room = room;
	return true;
}

void pfw_read_batch_rest(struct pfw_read_batch *batch, unsigned place, const char *text,
			 size_t bytes)
{
	struct pfw_read_cells *cells = &batch->cells[place];
	int32_t *end = pfw_read_batch_cell(batch, place, sizeof(*end));

	if (!end ||
	    (bytes > cells->text_room - cells->text_bytes && !grow_text(batch, cells, bytes)))
		return;
	memcpy(cells->text + cells->text_bytes, text, bytes);
	cells->text_bytes += bytes;
	*end = (int32_t)cells->text_bytes;
}

/* ---- the rows of another batch ---- */

static void set_bits(uint8_t *valid, size_t from, size_t to)
{
	for (; from < to && from % 8; from++)
		valid[from / 8] |= (uint8_t)(1u << from % 8);
	if (from < to)
		memset(valid + from / 8, 0xff, (to - from) / 8);
	for (from += (to - from) / 8 * 8; from < to; from++)
		valid[from / 8] |= (uint8_t)(1u << from % 8);
}

/* Both have no bit set beyond their rows. */
static void append_bits(uint8_t *to, size_t at, const uint8_t *from, size_t bits)
{
	unsigned shift = at % 8;

	to += at / 8;
	for (size_t i = 0; i < (bits + 7) / 8; i++) {
		to[i] |= (uint8_t)(from[i] << shift);
		if (from[i] >> (8 - shift))
			to[i + 1] |= (uint8_t)(from[i] >> (8 - shift));
	}
}

static void append_valid(struct pfw_read_cells *cells, size_t at, const struct pfw_read_cells *from,
			 size_t rows)
{
	if (from->dense < rows)
		append_bits(cells->valid, at, from->valid, rows);
	else if (cells->dense == at)
		cells->dense += rows;
	else
		set_bits(cells->valid, at, at + rows);
}

/* Numbers of texts of `from` as those of the batch. */
static bool map_texts(struct pfw_read_batch *batch, struct pfw_text_ids *ids,
		      const struct pfw_read_cells *from, struct pfw_read_numbers *numbers)
{
	if (PFW_REACH(numbers->number, from->texts, numbers->room))
		return fail(batch, -ENOMEM);
	for (uint32_t i = 0; i < from->texts; i++) {
		int64_t id = pfw_text_ids_of(ids, 0, from->text + from->offset[i],
					     (size_t)(from->offset[i + 1] - from->offset[i]));

		if (id < 0)
			return fail(batch, (int)id);
		numbers->number[i] = (int32_t)id;
	}
	return true;
}

static bool append_texts(struct pfw_read_batch *batch, struct pfw_text_ids *ids,
			 struct pfw_read_cells *cells, const struct pfw_read_cells *from,
			 size_t rows, struct pfw_read_numbers *numbers)
{
	int32_t *to = (int32_t *)cells->value + batch->rows;
	const int32_t *value = from->value;

	if (!map_texts(batch, ids, from, numbers))
		return false;
	/* A null's number is 0, and any text may have that one. */
	for (size_t i = 0; i < rows; i++)
		to[i] = numbers->number[value[i]];
	return true;
}

/* Where texts of args_json end; 0: there is none. */
static bool append_rest(struct pfw_read_batch *batch, struct pfw_read_cells *cells,
			const struct pfw_read_cells *from, size_t rows)
{
	int32_t *to = (int32_t *)cells->value + batch->rows;
	const int32_t *end = from->value;
	int32_t begin = (int32_t)cells->text_bytes;

	if (from->text_bytes > cells->text_room - cells->text_bytes &&
	    !grow_text(batch, cells, from->text_bytes))
		return false;
	memcpy(cells->text + cells->text_bytes, from->text, from->text_bytes);
	cells->text_bytes += from->text_bytes;
	for (size_t i = 0; i < rows; i++)
		to[i] = end[i] ? begin + end[i] : 0;
	return true;
}

bool pfw_read_batch_append(struct pfw_read_batch *batch, struct pfw_read_texts *texts,
			   const struct pfw_read_batch *from,
			   const struct pfw_read_columns *columns, struct pfw_read_numbers *numbers)
{
	size_t rows = from->rows;

	if (!pfw_read_batch_more(batch, rows))
		return false;
	for (unsigned i = 0; i < batch->columns; i++) {
		struct pfw_read_cells *cells = &batch->cells[i];
		const struct pfw_read_cells *more = &from->cells[i];
		enum pfw_read_kind kind = columns->known[columns->column[i]].kind;

		if (!more->value)
			continue;
		if (!cells->value && !begin_cells(batch, cells, more->size))
			return false;
		append_valid(cells, batch->rows, more, rows);
		if (pfw_read_has_texts(kind)
			    ? !append_texts(batch, &texts->ids[i], cells, more, rows, numbers)
			    : kind == PFW_READ_REST && !append_rest(batch, cells, more, rows))
			return false;
		if (!pfw_read_has_texts(kind) && kind != PFW_READ_REST)
			memcpy((char *)cells->value + batch->rows * cells->size, more->value,
			       rows * more->size);
	}
	batch->rows += rows;
	batch->text += from->text;
	return true;
}

/* ---- what a thread keeps ---- */

bool pfw_read_texts_init(struct pfw_read_texts *texts)
{
	texts->scratch = pfw_scratch_new();
	texts->form = calloc(PFW_READ_NUMBERS, sizeof(*texts->form));
	return texts->scratch && texts->form;
}

void pfw_read_texts_release(struct pfw_read_texts *texts)
{
	for (unsigned i = 0; i < PFW_READ_COLUMNS; i++)
		pfw_text_ids_release(&texts->ids[i]);
	pfw_scratch_free(texts->scratch);
	free(texts->form);
}

/* ---- the end of a batch ---- */

static bool get_offsets(struct pfw_read_batch *batch, struct pfw_read_cells *cells, size_t texts)
{
	cells->texts = (uint32_t)texts;
	cells->offset = malloc((texts + 1) * sizeof(*cells->offset));
	if (!cells->offset)
		return fail(batch, -ENOMEM);
	batch->bytes += (texts + 1) * sizeof(*cells->offset);
	cells->offset[0] = 0;
	return true;
}

/* Rows without args_json end where the row before them does. */
static void end_rest(struct pfw_read_batch *batch, struct pfw_read_cells *cells)
{
	const int32_t *end = cells->value;

	if (!get_offsets(batch, cells, batch->rows))
		return;
	for (size_t i = 0; i < batch->rows; i++)
		cells->offset[i + 1] = end[i] ? end[i] : cells->offset[i];
}

static void end_texts(struct pfw_read_batch *batch, struct pfw_read_cells *cells,
		      const struct pfw_text_ids *ids)
{
	size_t bytes = 0;

	for (uint32_t i = 0; i < ids->count; i++)
		bytes += ids->name[i].bytes;
	if (!get_offsets(batch, cells, ids->count) || !grow_text(batch, cells, bytes))
		return;
	for (uint32_t i = 0; i < ids->count; i++) {
		memcpy(cells->text + cells->text_bytes, ids->name[i].text, ids->name[i].bytes);
		cells->text_bytes += ids->name[i].bytes;
		cells->offset[i + 1] = (int32_t)cells->text_bytes;
	}
}

void pfw_read_batch_end(struct pfw_read_batch *batch, const struct pfw_read_columns *columns,
			struct pfw_read_texts *texts)
{
	texts->batch++;
	for (unsigned i = 0; i < batch->columns; i++) {
		struct pfw_read_cells *cells = &batch->cells[i];
		enum pfw_read_kind kind = columns->known[columns->column[i]].kind;

		if (!cells->value)
			continue;
		if (cells->dense < batch->rows)
			set_bits(cells->valid, 0, cells->dense);
		if (kind == PFW_READ_REST)
			end_rest(batch, cells);
		else if (pfw_read_has_texts(kind))
			end_texts(batch, cells, &texts->ids[i]);
		if (pfw_read_has_texts(kind))
			pfw_text_ids_clear(&texts->ids[i]);
	}
}
