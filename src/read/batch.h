/* read/batch.h - the columns of a batch while its rows are added. */
#pragma once

#include <stddef.h>
#include <string.h>

#include "read/columns.h"
#include "store/json/value.h"
#include "store/kit/text_ids.h"

/* ---- memory of columns, which is used again for later batches of a stream (memory.c) ----
 *
 * A batch has some 20 MiB.  Without this, malloc() gives them back to the kernel after each batch
 * that a program releases, and the kernel clears each page anew.
 */

struct pfw_read_memory; /* opaque: see memory.c */

/* NULL: no memory. */
struct pfw_read_memory *pfw_read_memory_new(void);

/* After the last get; what is in use remains valid.  NULL: nothing. */
void pfw_read_memory_close(struct pfw_read_memory *memory);

/* `bytes` bytes of any content, at a multiple of 64; memory NULL: not used again.  NULL: no memory.
 * Thread: any, as all here. */
void *pfw_read_memory_get(struct pfw_read_memory *memory, size_t bytes);

/* Return what pfw_read_memory_get() gave; NULL: nothing. */
void pfw_read_memory_put(void *content);

/* ---- columns (batch.c) ---- */

/* One column.  It gets memory with its first value: most columns have no value in most traces. */
struct pfw_read_cells {
	/* int64_t, double, three int32_t, a byte of a flag, int32_t of a dictionary, or where a
	 * row's args_json ends; from pfw_read_memory_get(); NULL: no value yet */
	void *value;
	uint8_t *valid; /* a bit each row; in the same memory */
	/* The first so many rows are not null; their bits are set by pfw_read_batch_end(), and not at
	 * all if there is no other row.  SIZE_MAX: no value yet. */
	size_t dense;
	/* The dictionary, or the texts of args_json, each from offset[n] to offset[n + 1]. */
	int32_t *offset;
	char *text;
	size_t text_bytes, text_room;
	uint32_t texts;
	uint8_t size; /* of a value */
};

struct pfw_read_batch {
	struct pfw_read_batch *next; /* in a queue */
	/* Room is that of each column that has memory, a multiple of PFW_READ_CLEARED; so many rows
	 * of it are zero or have been set. */
	size_t rows, room, cleared;
	struct pfw_read_memory *memory;
	size_t bytes; /* of all memory */
	size_t text;  /* bytes of the lines, as counted by the caller that adds them */
	int error;    /* -ENOMEM, -EOVERFLOW: the first one; nothing is added after it */
	unsigned columns;
	struct pfw_read_cells cells[]; /* of each wanted column */
};

/* Rows are cleared just before they are set, while they fit into the processor's cache. */
#define PFW_READ_CLEARED 256u

#define PFW_READ_RECENT 32u
#define PFW_READ_NUMBERS 256u /* as PFW_ENTRY_NUMBERS */
#define PFW_READ_PUTS 16u

/* Where an arg of the lines of one form goes. */
struct pfw_read_put {
	uint8_t arg;	/* of entry->arg[] */
	uint8_t size;	/* of the value that all of them have; 0: it differs, or has no column */
	int8_t place;	/* of the column */
	int16_t column; /* -1: none */
	_Alignas(8) char value[12];
};

/* The args of lines with the same entry->form; values hold for one batch. */
struct pfw_read_form {
	uint64_t number; /* 0: none */
	uint32_t batch;
	unsigned puts;
	struct pfw_read_put put[PFW_READ_PUTS];
};

/* Name and cat of lines with the same entry->named, in one batch. */
struct pfw_read_named {
	uint64_t number; /* 0: none */
	uint32_t batch;
	int32_t name, cat;
};

/* What a thread needs to fill one batch after another: the dictionaries by text. */
struct pfw_read_texts {
	uint32_t batch; /* changes with each batch */
	struct pfw_read_named named[PFW_READ_NUMBERS];
	/* Of each ph by its letter, which all differ modulo 32. */
	struct {
		uint32_t batch; /* plus 1; 0: none */
		int32_t number;
	} ph[32];
	struct pfw_read_form *form;		   /* of PFW_READ_NUMBERS */
	struct pfw_text_ids ids[PFW_READ_COLUMNS]; /* of the wanted column of this place */
	/* A cache of the latest texts, by their last bytes: most are found without a hash. */
	uint32_t recent[PFW_READ_COLUMNS][PFW_READ_RECENT];
	/* The column of the arg that came after this one's the last time; 0: after none. */
	uint8_t after[PFW_READ_COLUMNS + 1];
	char *scratch; /* store/read/scan.h */
};

/* Before lines are added, of texts that are all zero; false: no memory. */
bool pfw_read_texts_init(struct pfw_read_texts *texts);
void pfw_read_texts_release(struct pfw_read_texts *texts);

/* An empty batch with room for `room` rows at first, with memory from there; NULL: no memory.
 * Thread: any, as all here, one at a time for one batch. */
struct pfw_read_batch *pfw_read_batch_new(const struct pfw_read_columns *columns, size_t room,
					  struct pfw_read_memory *memory);
void pfw_read_batch_free(struct pfw_read_batch *batch);

/* Have room for `rows` more rows, all null; false: batch->error. */
bool pfw_read_batch_more(struct pfw_read_batch *batch, size_t rows);

/* Begin a row, rows - 1: all its cells are null. */
static inline void pfw_read_batch_row(struct pfw_read_batch *batch)
{
	if (__builtin_expect(batch->rows < batch->cleared, 1) || pfw_read_batch_more(batch, 1))
		batch->rows++;
}

/* The same of the next function, if the column has no value yet or the row has one. */
void *pfw_read_batch_new_cell(struct pfw_read_batch *batch, struct pfw_read_cells *cells,
			      uint8_t size);

/* The last row's cell in a column with values of that size, which is then not null and has to be
 * set.  NULL: batch->error. */
static inline void *pfw_read_batch_cell(struct pfw_read_batch *batch, unsigned place, uint8_t size)
{
	struct pfw_read_cells *cells = &batch->cells[place];
	size_t row = batch->rows - 1;

	if (__builtin_expect(cells->dense > row, 0))
		return pfw_read_batch_new_cell(batch, cells, size);
	if (cells->dense == row)
		cells->dense = row + 1;
	else
		cells->valid[row / 8] |= (uint8_t)(1u << row % 8);
	return (char *)cells->value + row * size;
}

/* Set the cell of a column of this kind in the last row. */
static inline void pfw_read_batch_int(struct pfw_read_batch *batch, unsigned place, int64_t number)
{
	int64_t *value = pfw_read_batch_cell(batch, place, sizeof(*value));

	if (value)
		*value = number;
}

static inline void pfw_read_batch_real(struct pfw_read_batch *batch, unsigned place, double number)
{
	double *value = pfw_read_batch_cell(batch, place, sizeof(*value));

	if (value)
		*value = number;
}

static inline void pfw_read_batch_dim3(struct pfw_read_batch *batch, unsigned place,
				       const int32_t number[3])
{
	int32_t *value = pfw_read_batch_cell(batch, place, 3 * sizeof(*value));

	if (value)
		memcpy(value, number, 3 * sizeof(*value));
}

static inline void pfw_read_batch_flag(struct pfw_read_batch *batch, unsigned place, bool flag)
{
	uint8_t *value = pfw_read_batch_cell(batch, place, sizeof(*value));

	if (value)
		*value = flag;
}

/* `text` has no escapes. */
void pfw_read_batch_text(struct pfw_read_batch *batch, struct pfw_read_texts *texts, unsigned place,
			 const char *text, size_t bytes);
/* Append to the last row's args_json; it is null if nothing is. */
void pfw_read_batch_rest(struct pfw_read_batch *batch, unsigned place, const char *text,
			 size_t bytes);

/* Whether the last row's cell is not null. */
static inline bool pfw_read_cells_set(const struct pfw_read_batch *batch,
				      const struct pfw_read_cells *cells)
{
	size_t row = batch->rows - 1;

	return cells->value && (cells->dense > row || cells->valid[row / 8] >> row % 8 & 1);
}

/* Make the cell null again. */
void pfw_read_batch_unset(struct pfw_read_batch *batch, unsigned place);

/* Append the rows of `from`, which has ended, to a batch that has not, with the same columns;
 * `texts` are the latter's.  `number` is memory for the numbers of texts, kept from call to call.
 * False: batch->error. */
struct pfw_read_numbers {
	int32_t *number;
	size_t room;
};
bool pfw_read_batch_append(struct pfw_read_batch *batch, struct pfw_read_texts *texts,
			   const struct pfw_read_batch *from,
			   const struct pfw_read_columns *columns,
			   struct pfw_read_numbers *numbers);

/* After the last row: move the dictionaries from `texts` into the batch. */
void pfw_read_batch_end(struct pfw_read_batch *batch, const struct pfw_read_columns *columns,
			struct pfw_read_texts *texts);
