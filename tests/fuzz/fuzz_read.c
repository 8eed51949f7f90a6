/* fuzz_read.c - any lines as rows: columns as Arrow specifies them, args_json as JSON, and a few columns
 * as among all. */
#include <assert.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "read/arrow.h"
#include "read/rows.h"
#include "store/json/reader.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static struct pfw_read_texts texts;

static bool is_null(const struct ArrowArray *array, int64_t row)
{
	const uint8_t *valid = array->buffers[0];

	return array->null_count && !(valid[row / 8] >> row % 8 & 1);
}

/* The text of a row of a dictionary, or of args_json. */
static struct pfw_slice text_of(const struct ArrowArray *array, int64_t row)
{
	const struct ArrowArray *from = array->dictionary ? array->dictionary : array;
	int64_t number = array->dictionary ? ((const int32_t *)array->buffers[1])[row] : row;
	const int32_t *begin = from->buffers[1];

	assert(number >= 0 && number < from->length && begin[number] <= begin[number + 1]);
	return (struct pfw_slice){ .at = (const char *)from->buffers[2] + begin[number],
				   .bytes = (size_t)(begin[number + 1] - begin[number]) };
}

static void check_json(struct pfw_slice text)
{
	struct pfw_reader reader = { .at = text.at, .end = text.at + text.bytes };
	struct pfw_value value;

	assert(pfw_reader_value(&reader, &value) && reader.at == reader.end);
}

static void check_column(const struct ArrowArray *array, const struct pfw_read_known *known,
			 int64_t rows)
{
	int64_t nulls = 0;

	assert(array->length == rows && array->offset == 0);
	for (int64_t i = 0; i < rows; i++) {
		nulls += is_null(array, i);
		if (is_null(array, i) || !(known->kind == PFW_READ_REST || array->dictionary))
			continue;
		if (known->kind == PFW_READ_TEXT)
			text_of(array, i);
		else
			check_json(text_of(array, i));
	}
	assert(nulls == array->null_count);
}

static void make(struct ArrowArray *out, const struct pfw_read_columns *columns, const char *text,
		 size_t bytes)
{
	const struct pfw_read_rows rows = { columns, NULL };
	struct pfw_read_batch *batch = pfw_read_batch_new(columns, 1, NULL);
	const char *end = text + bytes, *at = text;
	struct pfw_read_zeros *zeros = NULL;
	struct pfw_entry entry = { .numbered = true };

	assert(batch);
	while (at < end) {
		at = pfw_entry_parse_next(&entry, at, end);
		at += at < end;
		if (entry.kind == PFW_ENTRY_EVENT)
			pfw_read_rows_add(&rows, batch, &texts, &entry, 7);
	}
	pfw_read_batch_end(batch, columns, &texts);
	assert(!batch->error);
	assert(pfw_read_arrow_batch(out, columns, batch, &zeros) == 0);
	pfw_read_zeros_drop(zeros);
}

static void same_columns(const struct ArrowArray *some, const struct pfw_read_columns *columns,
			 const struct ArrowArray *all)
{
	for (unsigned i = 0; i < columns->count; i++) {
		const struct ArrowArray *one = some->children[i];
		const struct ArrowArray *other = all->children[columns->column[i]];

		for (int64_t row = 0; row < all->length; row++) {
			assert(is_null(one, row) == is_null(other, row));
			if (is_null(one, row))
				continue;
			if (one->dictionary) {
				struct pfw_slice a = text_of(one, row), b = text_of(other, row);

				assert(a.bytes == b.bytes && memcmp(a.at, b.at, a.bytes) == 0);
			} else {
				assert(((const int64_t *)one->buffers[1])[row] ==
				       ((const int64_t *)other->buffers[1])[row]);
			}
		}
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char *text = calloc(1, size + PFW_ENTRY_PADDING), why[200];
	struct pfw_read_columns all, few;
	struct ArrowArray batch, some;

	assert(text && (texts.form || pfw_read_texts_init(&texts)));
	memcpy(text, data, size);
	assert(!pfw_read_columns_parse(&all, NULL, why, sizeof(why)));
	assert(!pfw_read_columns_parse(&few, "name,args.ret,step,args.fname", why, sizeof(why)));
	make(&batch, &all, text, size);
	make(&some, &few, text, size);
	for (unsigned i = 0; i < all.count; i++)
		check_column(batch.children[i], &pfw_read_known[i], batch.length);
	same_columns(&some, &few, &batch);
	some.release(&some);
	batch.release(&batch);
	free(text);
	return 0;
}
