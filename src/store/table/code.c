/* store/table/code.c - rows as bytes; see code.h. */
#include "store/table/code.h"

#include <errno.h>
#include <string.h>

int pfw_table_put_text(struct pfw_blob *blob, const char *text, size_t bytes)
{
	if (pfw_blob_put(blob, &(uint64_t){ bytes }, 1) || pfw_blob_reserve(blob, bytes))
		return -ENOMEM;
	if (bytes) /* a text of none may be NULL */
		memcpy(blob->data + blob->bytes, text, bytes);
	blob->bytes += bytes;
	return 0;
}

/* The bits of the first number say which sums follow: those that are not 0. */
int pfw_table_put_tally(struct pfw_blob *blob, const struct pfw_tally *sums)
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
	return pfw_blob_put(blob, value, count);
}

int pfw_table_put_sketch(struct pfw_blob *blob, const struct pfw_sketch *sketch)
{
	uint8_t bytes[PFW_SKETCH_BYTES_MAX];

	return pfw_table_put_text(blob, (const char *)bytes, pfw_sketch_encode(sketch, bytes));
}

static int64_t get_ns(struct pfw_varints *reader)
{
	uint64_t value = pfw_varints_next(reader);

	reader->bad |= value > INT64_MAX;
	return (int64_t)value;
}

struct pfw_slice pfw_table_get_text(struct pfw_varints *reader)
{
	uint64_t bytes = pfw_varints_next(reader);
	struct pfw_slice text = { .at = (const char *)reader->at, .bytes = bytes };

	if (bytes > (size_t)(reader->end - reader->at)) {
		reader->bad = true;
		return (struct pfw_slice){ .at = "" };
	}
	reader->at += bytes;
	return text;
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
		sums->min_ns = get_ns(reader);
		reader->bad |= __builtin_add_overflow(sums->min_ns, get_ns(reader), &sums->max_ns);
	}
	for (unsigned i = 0; i < PFW_TALLY_SUMS; i++) {
		if (some >> i & 1)
			sums->sum[i] = pfw_varint_unfold(pfw_varints_next(reader));
	}
	reader->bad |= some >> PFW_TALLY_SUMS != 0;
}
