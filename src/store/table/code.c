/* store/table/code.c - rows as bytes; see code.h. */
#include "store/table/code.h"

#include "common/base/order.h"
#include "store/table/key.h"

void pfw_table_put_key(struct pfw_blob *blob, const char *key, unsigned fields)
{
	for (unsigned i = 0; i < fields; i++) {
		size_t bytes;
		const char *text = pfw_table_key_field(key, i, &bytes);

		pfw_blob_bytes(blob, text, bytes);
	}
}

/* ---- sums ---- */

enum { COUNT, TRANSFERS, TIMED, FIRST, FIRST_DUR, MIN, SPREAD, SUMS };

void pfw_table_values(const struct pfw_tally *sums, uint64_t value[PFW_TABLE_VALUES])
{
	_Static_assert(SUMS + PFW_TALLY_SUMS == PFW_TABLE_VALUES, "all have a place");
	value[COUNT] = sums->count;
	value[TRANSFERS] = sums->transfers;
	value[TIMED] = sums->timed;
	value[FIRST] = pfw_varint_fold(sums->first_ns);
	value[FIRST_DUR] = (uint64_t)sums->first_dur_ns << 1 | sums->first_inside;
	value[MIN] = (uint64_t)sums->min_ns;
	value[SPREAD] = (uint64_t)(sums->max_ns - sums->min_ns);
	for (unsigned i = 0; i < PFW_TALLY_SUMS; i++)
		value[SUMS + i] = pfw_varint_fold(sums->sum[i]);
}

bool pfw_table_tally_of(struct pfw_tally *sums, const uint64_t value[PFW_TABLE_VALUES])
{
	sums->count = value[COUNT];
	sums->transfers = value[TRANSFERS];
	sums->timed = value[TIMED];
	sums->first_ns = pfw_varint_unfold(value[FIRST]);
	sums->first_dur_ns = (int64_t)(value[FIRST_DUR] >> 1);
	sums->first_inside = value[FIRST_DUR] & 1;
	for (unsigned i = 0; i < PFW_TALLY_SUMS; i++)
		sums->sum[i] = pfw_varint_unfold(value[SUMS + i]);
	sums->min_ns = (int64_t)value[MIN];
	return value[MIN] <= INT64_MAX && value[SPREAD] <= INT64_MAX - value[MIN] &&
	       !__builtin_add_overflow(sums->min_ns, (int64_t)value[SPREAD], &sums->max_ns);
}

/* The bits of the first number say which sums follow: those that are not 0. */
void pfw_table_put_tally(struct pfw_blob *blob, const struct pfw_tally *sums)
{
	uint64_t value[PFW_TABLE_VALUES], out[1 + PFW_TABLE_VALUES] = { 0 };
	size_t count = 1;

	pfw_table_values(sums, value);
	for (unsigned i = 0; i < PFW_TABLE_VALUES; i++) {
		if (i >= SUMS && !value[i])
			continue;
		if (i >= SUMS)
			out[0] |= 1u << (i - SUMS);
		if (sums->timed || (i != MIN && i != SPREAD))
			out[count++] = value[i];
	}
	pfw_blob_put(blob, out, count);
}

void pfw_table_put_sketch(struct pfw_blob *blob, const struct pfw_sketch *sketch)
{
	uint8_t bytes[PFW_SKETCH_BYTES_MAX];

	pfw_blob_bytes(blob, bytes, pfw_sketch_encode(sketch, bytes));
}

struct pfw_slice pfw_table_get_text(struct pfw_varints *reader)
{
	const struct pfw_varints text = pfw_varints_part(reader);

	return (struct pfw_slice){ .at = (const char *)text.at,
				   .bytes = (size_t)(text.end - text.at) };
}

void pfw_table_get_tally(struct pfw_varints *reader, struct pfw_tally *sums)
{
	uint64_t value[PFW_TABLE_VALUES], some = pfw_varints_next(reader);

	for (unsigned i = 0; i < PFW_TABLE_VALUES; i++) {
		bool there = i >= SUMS ? some >> (i - SUMS) & 1
				       : (i != MIN && i != SPREAD) || value[TIMED];

		value[i] = there ? pfw_varints_next(reader) : 0;
	}
	reader->bad |= !pfw_table_tally_of(sums, value) || some >> PFW_TALLY_SUMS != 0;
}

/* ---- columns ---- */

/* No index has more rows of one kind. */
#define ROWS_MAX (1u << 20)
/* A number is read with the seven bytes after it. */
#define SLACK 7u

static unsigned bytes_of(uint64_t value)
{
	return value ? (71u - (unsigned)__builtin_clzll(value)) / 8 : 0;
}

/* Append one column: its least number, its width, its numbers minus the least one. */
static void put_column(struct pfw_blob *head, struct pfw_blob *data, const uint64_t *value,
		       unsigned columns, size_t rows)
{
	uint64_t least = *value, most = *value;
	unsigned width;

	for (size_t i = 1; i < rows; i++) {
		PFW_LOWER(least, value[i * columns]);
		PFW_RAISE(most, value[i * columns]);
	}
	width = bytes_of(most - least);
	PFW_BLOB_PUT(head, least, width);
	if (pfw_blob_reserve(data, rows * width + SLACK))
		return;
	for (size_t i = 0; i < rows; i++) {
		uint64_t more = htole64(value[i * columns] - least);

		memcpy(data->data + data->bytes, &more, sizeof(more));
		data->bytes += width;
	}
}

void pfw_table_put_columns(struct pfw_blob *blob, const uint64_t *value, unsigned columns,
			   size_t rows)
{
	struct pfw_blob data = { 0 };

	PFW_BLOB_PUT(blob, rows);
	for (unsigned i = 0; i < columns && rows; i++)
		put_column(blob, &data, value + i, columns, rows);
	if (!pfw_blob_reserve(&data, SLACK)) {
		memset(data.data + data.bytes, 0, SLACK);
		data.bytes += SLACK;
	}
	pfw_blob_part(blob, &data);
}

void pfw_table_get_columns(struct pfw_varints *reader, unsigned columns,
			   struct pfw_table_columns *out)
{
	struct pfw_varints data;
	uint64_t bytes = SLACK;

	*out = (struct pfw_table_columns){ .rows = pfw_varints_next(reader) };
	reader->bad |= out->rows > ROWS_MAX;
	for (unsigned i = 0; i < columns && out->rows && !reader->bad; i++) {
		struct pfw_table_column *of = &out->of[out->varying];
		uint64_t width;

		out->least[i] = pfw_varints_next(reader);
		width = pfw_varints_next(reader);
		reader->bad |= width > sizeof(uint64_t);
		if (!width || reader->bad)
			continue;
		*of = (struct pfw_table_column){ .mask = UINT64_MAX >> (64 - 8 * width),
						 .column = i,
						 .width = (unsigned)width };
		out->varying++;
	}
	data = pfw_varints_part(reader);
	for (unsigned i = 0; i < out->varying && !reader->bad; i++) {
		out->of[i].at = data.at + (bytes - SLACK);
		bytes += out->rows * out->of[i].width;
		reader->bad |= bytes > (size_t)(data.end - data.at);
	}
	if (reader->bad)
		out->rows = 0;
}
