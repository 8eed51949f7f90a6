/* common/format/gzip_header.h - header of our gzip members with the FEXTRA subfield "PF".
 *
 * Ids 'P' 'F', then PFW_GZIP_EXTRA_BYTES, little-endian: member bytes (u32, whole member), lines
 * (u32), least ts (u64, ns since the epoch), greatest end (u64, ns), and the CRC-32 of these 24
 * bytes (u32), since gzip's own CRC is of the text only.  Members made before that have no CRC, and
 * are read as well.  It is the first subfield; others may follow it.  gzip and zlib skip them (RFC
 * 1952, 2.3.1.1).
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define PFW_GZIP_FIGURES_BYTES 24u
#define PFW_GZIP_EXTRA_BYTES (PFW_GZIP_FIGURES_BYTES + 4u)
#define PFW_GZIP_HEADER_BYTES (10u + 2u + 4u + PFW_GZIP_EXTRA_BYTES)
#define PFW_GZIP_HEADER_LEAST (PFW_GZIP_HEADER_BYTES - 4u) /* without a CRC */
/* Ids and lengths up to the first figure.  Fewer bytes might match compressed data by chance. */
#define PFW_GZIP_SIGNATURE_BYTES 16u
#define PFW_GZIP_TRAILER_BYTES 8u /* CRC and length of the text */
/* The greatest ratio of deflate: 258 bytes from two bits. */
#define PFW_DEFLATE_MOST 1032u

struct pfw_gzip_summary {
	uint32_t member_bytes; /* set by the function that makes the member */
	uint32_t lines;
	uint64_t least_ns;
	uint64_t greatest_ns;
	bool damaged; /* read: the CRC of the header is of other figures */
};

/* Add an event's times: those before 1970, which the header cannot have, as 1970. */
static inline void pfw_gzip_add_times(struct pfw_gzip_summary *summary, int64_t ts_ns,
				      int64_t end_ns)
{
	uint64_t least_ns = ts_ns < 0 ? 0 : (uint64_t)ts_ns;
	uint64_t greatest_ns = end_ns < 0 ? 0 : (uint64_t)end_ns;

	summary->least_ns = least_ns < summary->least_ns ? least_ns : summary->least_ns;
	summary->greatest_ns = greatest_ns > summary->greatest_ns ? greatest_ns
								  : summary->greatest_ns;
}

/* XFL of RFC 1952: how hard the compressor tried. */
enum pfw_gzip_effort { PFW_GZIP_USUAL = 0, PFW_GZIP_SLOWEST = 2, PFW_GZIP_FASTEST = 4 };

/* Whether a gzip file begins with these bytes.  Thread: any.  Signal: safe; as all below. */
static inline bool pfw_is_gzip(const unsigned char *at, size_t bytes)
{
	return bytes >= 2 && at[0] == 0x1f && at[1] == 0x8b;
}

/* Whether one of our members begins with these PFW_GZIP_SIGNATURE_BYTES. */
static inline bool pfw_gzip_is_signature(const unsigned char *at)
{
	return pfw_is_gzip(at, 2) && at[2] == 8 && (at[3] & 4) && at[12] == 'P' && at[13] == 'F' &&
	       (at[14] == PFW_GZIP_EXTRA_BYTES || at[14] == PFW_GZIP_FIGURES_BYTES) && at[15] == 0;
}

/* Write a header with our subfield.  `more`: bytes of the subfields that the caller appends. */
void pfw_gzip_put_header(unsigned char *out, const struct pfw_gzip_summary *summary,
			 enum pfw_gzip_effort effort, size_t more);

/* Change the member bytes in a header of pfw_gzip_put_header(). */
void pfw_gzip_set_bytes(unsigned char *member, size_t bytes);

/* Where the subfields after ours begin if ours is the first; *bytes: theirs. */
size_t pfw_gzip_more(const unsigned char *member, size_t *bytes);

/* Read the summary out of a member's header.  Return 0, -EAGAIN if `bytes` is too short to tell, or
 * -ENOENT if the header has no subfield of ours. */
int pfw_gzip_read_summary(const void *member, size_t bytes, struct pfw_gzip_summary *summary);
