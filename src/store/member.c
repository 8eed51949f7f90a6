/* member.c - sorted lines -> one marked gzip member; see member.h. */
#include "member.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>
#ifdef PFW_HAVE_LIBDEFLATE
#include <libdeflate.h>
#endif

#include "le.h"

#define MARK_VERSION 1
#define MARK_SORTED 1
#define MARK_FIRST 2
#define MARK_CUT 4
#define TRAILER_BYTES 8u

struct pfw_member {
	int level;
	struct pfw_gzip *fast; /* PFW_LEVEL_FAST */
#ifdef PFW_HAVE_LIBDEFLATE
	struct libdeflate_compressor *deflate, *harder; /* harder: PFW_LEVEL_MOST */
#endif
};

/* ---- the mark ---- */

int pfw_mark_read(const void *member, size_t bytes, struct pfw_mark *mark)
{
	struct pfw_gzip_summary summary;
	const unsigned char *in = member;
	int error = pfw_gzip_read_summary(member, bytes, &summary);

	if (error)
		return error;
	if (pfw_le_get(in + 10, 2) < PFW_MEMBER_HEADER_BYTES - 12)
		return -ENOENT;
	if (bytes < PFW_MEMBER_HEADER_BYTES)
		return -EAGAIN;
	in += PFW_GZIP_HEADER_BYTES;
	if (in[0] != 'P' || in[1] != 'S' || pfw_le_get(in + 2, 2) != PFW_MARK_BYTES ||
	    in[4] != MARK_VERSION || (in[5] & ~(MARK_FIRST | MARK_CUT)) != MARK_SORTED)
		return -ENOENT;
	mark->first = in[5] & MARK_FIRST;
	mark->cut = in[5] & MARK_CUT;
	mark->metadata = (uint32_t)pfw_le_get(in + 8, 4);
	mark->pid = pfw_le_get(in + 12, 8);
	mark->least_ns = (int64_t)pfw_le_get(in + 20, 8);
	mark->greatest_ns = (int64_t)pfw_le_get(in + 28, 8);
	mark->checksum = pfw_le_get(in + 36, 8);
	return 0;
}

/* RFC 1952: ids, deflate, FEXTRA, no time, how hard it tried, Unix; then both subfields. */
static void put_header(unsigned char *out, const struct pfw_gzip_summary *summary,
		       const struct pfw_mark *mark, int level)
{
	memcpy(out, "\x1f\x8b\x08\4\0\0\0\0\4\3", 10);
	out[8] = level == PFW_LEVEL_FAST || level == 1 ? 4 : level == PFW_LEVEL_MOST ? 2 : 0;
	pfw_le_put(out + 10, PFW_MEMBER_HEADER_BYTES - 12, 2);
	memcpy(out + 12, "PF", 2);
	pfw_le_put(out + 14, PFW_GZIP_EXTRA_BYTES, 2);
	pfw_le_put(out + 16, summary->member_bytes, 4);
	pfw_le_put(out + 20, summary->lines, 4);
	pfw_le_put(out + 24, summary->least_ns, 8);
	pfw_le_put(out + 32, summary->greatest_ns, 8);
	out += PFW_GZIP_HEADER_BYTES;
	memcpy(out, "PS", 2);
	pfw_le_put(out + 2, PFW_MARK_BYTES, 2);
	pfw_le_put(out + 4, MARK_VERSION, 1);
	pfw_le_put(out + 5,
		   MARK_SORTED | (mark->first ? MARK_FIRST : 0) | (mark->cut ? MARK_CUT : 0), 1);
	pfw_le_put(out + 6, 0, 2);
	pfw_le_put(out + 8, mark->metadata, 4);
	pfw_le_put(out + 12, mark->pid, 8);
	pfw_le_put(out + 20, (uint64_t)mark->least_ns, 8);
	pfw_le_put(out + 28, (uint64_t)mark->greatest_ns, 8);
	pfw_le_put(out + 36, mark->checksum, 8);
}

/* ---- compressing ---- */

#ifdef PFW_HAVE_LIBDEFLATE
/*
 * Level 7 takes a third of gzip -9's time and comes within 2 % of its size, 8 takes as long and is
 * 5 % smaller: three members of ten by 8 make a file no larger than gzip -9's in half its time.
 */
static int open_deflate(struct pfw_member *member, int level)
{
	member->deflate = libdeflate_alloc_compressor(level < 7 ? level : 7);
	if (level == PFW_LEVEL_MOST)
		member->harder = libdeflate_alloc_compressor(8);
	if (member->deflate && (level < PFW_LEVEL_MOST || member->harder))
		return 0;
	libdeflate_free_compressor(member->deflate);
	return -ENOMEM;
}

static struct libdeflate_compressor *compressor(const struct pfw_member *member, size_t number)
{
	return member->harder && number % 10 % 3 == 1 ? member->harder : member->deflate;
}
#endif

int pfw_member_open(struct pfw_member **out, int level)
{
	struct pfw_member *member = calloc(1, sizeof(*member));
	int error = 0;

	if (!member)
		return -ENOMEM;
	member->level = level;
	if (level == PFW_LEVEL_FAST)
		error = pfw_gzip_open(&member->fast);
#ifdef PFW_HAVE_LIBDEFLATE
	else
		error = open_deflate(member, level);
#endif
	if (error) {
		free(member);
		return error;
	}
	*out = member;
	return 0;
}

void pfw_member_close(struct pfw_member *member)
{
	if (!member)
		return;
	pfw_gzip_close(member->fast);
#ifdef PFW_HAVE_LIBDEFLATE
	libdeflate_free_compressor(member->deflate);
	libdeflate_free_compressor(member->harder);
#endif
	free(member);
}

size_t pfw_member_bound(size_t text_bytes)
{
	return pfw_gzip_bound(text_bytes) + PFW_MEMBER_HEADER_BYTES;
}

#ifdef PFW_HAVE_LIBDEFLATE
static int64_t deflate_hard(struct pfw_member *member, unsigned char *out, size_t room,
			    const char *text, size_t bytes, size_t number)
{
	size_t packed = libdeflate_deflate_compress(compressor(member, number), text, bytes, out,
						    room - TRAILER_BYTES);

	if (!packed)
		return -ENOSPC;
	pfw_le_put(out + packed, libdeflate_crc32(0, text, bytes), 4);
	pfw_le_put(out + packed + 4, bytes, 4);
	return (int64_t)(packed + TRAILER_BYTES);
}
#else
static int64_t deflate_hard(struct pfw_member *member, unsigned char *out, size_t room,
			    const char *text, size_t bytes, size_t number)
{
	z_stream z = { .next_in = (unsigned char *)text,
		       .avail_in = (uInt)bytes,
		       .next_out = out,
		       .avail_out = (uInt)(room - TRAILER_BYTES) };
	int64_t packed;
	int result;

	(void)number;

	if (deflateInit2(&z, member->level, Z_DEFLATED, -MAX_WBITS, 8, Z_DEFAULT_STRATEGY) != Z_OK)
		return -ENOMEM;
	result = deflate(&z, Z_FINISH);
	packed = z.next_out - out;
	deflateEnd(&z);
	if (result != Z_STREAM_END)
		return -ENOSPC;
	pfw_le_put(out + packed, crc32(0, (const unsigned char *)text, (uInt)bytes), 4);
	pfw_le_put(out + packed + 4, bytes, 4);
	return packed + TRAILER_BYTES;
}
#endif

int64_t pfw_member_make(struct pfw_member *member, void *out, size_t room, const char *text,
			size_t text_bytes, struct pfw_gzip_summary *summary,
			const struct pfw_mark *mark, size_t number)
{
	unsigned char *begin = out;
	int64_t bytes;

	if (room < pfw_member_bound(text_bytes))
		return -ENOSPC;
	if (member->fast) {
		/* Its own header ends where the mark's does, which is then written over it. */
		bytes = pfw_gzip_member(member->fast, begin + 4 + PFW_MARK_BYTES,
					room - 4 - PFW_MARK_BYTES, text, text_bytes, summary);
		bytes += bytes < 0 ? 0 : 4 + PFW_MARK_BYTES;
	} else {
		bytes = deflate_hard(member, begin + PFW_MEMBER_HEADER_BYTES,
				     room - PFW_MEMBER_HEADER_BYTES, text, text_bytes, number);
		bytes += bytes < 0 ? 0 : PFW_MEMBER_HEADER_BYTES;
	}
	if (bytes < 0)
		return bytes;
	summary->member_bytes = (uint32_t)bytes;
	put_header(begin, summary, mark, member->level);
	return bytes;
}
