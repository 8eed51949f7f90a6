/* store/table/code.c - rows as bytes; see code.h. */
#include "store/table/code.h"

#include "store/table/key.h"

void pfw_table_put_key(struct pfw_blob *blob, const char *key, unsigned fields)
{
	for (unsigned i = 0; i < fields; i++) {
		size_t bytes;
		const char *text = pfw_table_key_field(key, i, &bytes);

		pfw_blob_bytes(blob, text, bytes);
	}
}

/* The bits of the first number say which sums follow: those that are not 0. */
void pfw_table_put_tally(struct pfw_blob *blob, const struct pfw_tally *sums)
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
	pfw_blob_put(blob, value, count);
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
	uint64_t some = pfw_varints_next(reader), first;

	sums->count = pfw_varints_next(reader);
	sums->transfers = pfw_varints_next(reader);
	sums->timed = pfw_varints_next(reader);
	sums->first_ns = pfw_varint_unfold(pfw_varints_next(reader));
	first = pfw_varints_next(reader);
	sums->first_dur_ns = (int64_t)(first >> 1);
	sums->first_inside = first & 1;
	if (sums->timed) {
		sums->min_ns = pfw_varints_ns(reader);
		reader->bad |=
			__builtin_add_overflow(sums->min_ns, pfw_varints_ns(reader), &sums->max_ns);
	}
	for (unsigned i = 0; i < PFW_TALLY_SUMS; i++) {
		if (some >> i & 1)
			sums->sum[i] = pfw_varint_unfold(pfw_varints_next(reader));
	}
	reader->bad |= some >> PFW_TALLY_SUMS != 0;
}
