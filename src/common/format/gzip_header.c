/* common/format/gzip_header.c - header of our gzip members; see gzip_header.h. */
#include "common/format/gzip_header.h"

#include <errno.h>
#include <string.h>

#include "common/base/le.h"

#define EXTRA_AT 12u /* after the fixed ten bytes and the length of FEXTRA */
#define FIGURES_AT PFW_GZIP_SIGNATURE_BYTES

/* CRC-32 of IEEE 802.3, as gzip's, four bits at a time.  A library for it may not be there. */
static uint32_t crc_of(const unsigned char *figures)
{
	static const uint32_t of_bits[16] = { 0x00000000, 0x1db71064, 0x3b6e20c8, 0x26d930ac,
					      0x76dc4190, 0x6b6b51f4, 0x4db26158, 0x5005713c,
					      0xedb88320, 0xf00f9344, 0xd6d6a3e8, 0xcb61b38c,
					      0x9b64c2b0, 0x86d3d2d4, 0xa00ae278, 0xbdbdf21c };
	uint32_t crc = ~0u;

	for (unsigned i = 0; i < PFW_GZIP_FIGURES_BYTES; i++) {
		crc ^= figures[i];
		crc = crc >> 4 ^ of_bits[crc & 15];
		crc = crc >> 4 ^ of_bits[crc & 15];
	}
	return ~crc;
}

static void put_crc(unsigned char *figures)
{
	pfw_le_put(figures + PFW_GZIP_FIGURES_BYTES, crc_of(figures), 4);
}

void pfw_gzip_put_header(unsigned char *out, const struct pfw_gzip_summary *summary,
			 enum pfw_gzip_effort effort, size_t more)
{
	/* RFC 1952: ids, deflate, FEXTRA, no time, effort, Unix. */
	memcpy(out, "\x1f\x8b\x08\4\0\0\0\0\0\3", 10);
	out[8] = (unsigned char)effort;
	pfw_le_put(out + 10, 4 + PFW_GZIP_EXTRA_BYTES + more, 2);
	memcpy(out + EXTRA_AT, "PF", 2);
	pfw_le_put(out + 14, PFW_GZIP_EXTRA_BYTES, 2);
	out += FIGURES_AT;
	pfw_le_put(out, summary->member_bytes, 4);
	pfw_le_put(out + 4, summary->lines, 4);
	pfw_le_put(out + 8, summary->least_ns, 8);
	pfw_le_put(out + 16, summary->greatest_ns, 8);
	put_crc(out);
}

void pfw_gzip_set_bytes(unsigned char *member, size_t bytes)
{
	pfw_le_put(member + FIGURES_AT, bytes, 4);
	put_crc(member + FIGURES_AT);
}

size_t pfw_gzip_more(const unsigned char *member, size_t *bytes)
{
	size_t extra = pfw_le_get(member + 10, 2), ours = 4 + pfw_le_get(member + 14, 2);

	*bytes = extra > ours ? extra - ours : 0;
	return EXTRA_AT + ours;
}

static void take(struct pfw_gzip_summary *summary, const unsigned char *figures, bool crc)
{
	summary->member_bytes = (uint32_t)pfw_le_get(figures, 4);
	summary->lines = (uint32_t)pfw_le_get(figures + 4, 4);
	summary->least_ns = pfw_le_get(figures + 8, 8);
	summary->greatest_ns = pfw_le_get(figures + 16, 8);
	summary->damaged = crc &&
			   pfw_le_get(figures + PFW_GZIP_FIGURES_BYTES, 4) != crc_of(figures);
}

int pfw_gzip_read_summary(const void *member, size_t bytes, struct pfw_gzip_summary *summary)
{
	static const unsigned char start[] = { 0x1f, 0x8b, 8 };
	const unsigned char *in = member, *field, *end, *have;
	uint64_t field_bytes;

	if (memcmp(in, start, bytes < sizeof(start) ? bytes : sizeof(start)) != 0)
		return -ENOENT;
	if (bytes < 4)
		return -EAGAIN;
	if (!(in[3] & 4))
		return -ENOENT;
	if (bytes < EXTRA_AT)
		return -EAGAIN;
	/* Other subfields may come first; what follows ours need not be there. */
	end = in + EXTRA_AT + pfw_le_get(in + 10, 2);
	have = in + bytes;
	for (field = in + EXTRA_AT; end - field >= 4; field += 4 + field_bytes) {
		if (have - field < 4)
			return -EAGAIN;
		field_bytes = pfw_le_get(field + 2, 2);
		if (field_bytes > (uint64_t)(end - field - 4))
			return -ENOENT;
		if (field[0] != 'P' || field[1] != 'F' ||
		    (field_bytes != PFW_GZIP_EXTRA_BYTES && field_bytes != PFW_GZIP_FIGURES_BYTES))
			continue;
		if ((uint64_t)(have - field) < 4 + field_bytes)
			return -EAGAIN;
		take(summary, field + 4, field_bytes == PFW_GZIP_EXTRA_BYTES);
		return 0;
	}
	return -ENOENT;
}
