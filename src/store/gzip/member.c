/* store/gzip/member.c - makes one marked gzip member of sorted lines; see member.h. */
#include "store/gzip/member.h"

#include <errno.h>
#include <libdeflate.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/base/le.h"
#include "store/gzip/inflate.h"

#define MARK_VERSION 1
#define MARK_SORTED 1
#define MARK_FIRST 2
#define MARK_CUT 4

struct pfw_member {
	int level;
	struct pfw_gzip *fast;				/* PFW_LEVEL_FAST */
	struct libdeflate_compressor *deflate, *harder; /* harder: for PFW_LEVEL_MOST */
};

/* ---- the mark ---- */

/* The check of a mark's bytes. */
static uint16_t check_of(const unsigned char *in)
{
	unsigned char bytes[PFW_MARK_BYTES];
	uint32_t crc;

	memcpy(bytes, in, sizeof(bytes));
	pfw_le_put(bytes + 2, 0, 2);
	crc = libdeflate_crc32(0, bytes, sizeof(bytes));
	crc = (crc >> 16 ^ crc) & 0xffff;
	return (uint16_t)(crc ? crc : 0xffff);
}

int pfw_sorted_mark_read(const void *member, size_t bytes, struct pfw_sorted_mark *mark)
{
	struct pfw_gzip_summary summary;
	const unsigned char *in = member;
	int error = pfw_gzip_read_summary(member, bytes, &summary);
	size_t at, more;
	uint64_t check;

	if (error)
		return error;
	at = pfw_gzip_more(in, &more);
	if (more < 4 + PFW_MARK_BYTES)
		return -ENOENT;
	if (bytes < at + 4 + PFW_MARK_BYTES)
		return -EAGAIN;
	in += at;
	if (in[0] != 'P' || in[1] != 'S' || pfw_le_get(in + 2, 2) != PFW_MARK_BYTES ||
	    in[4] != MARK_VERSION || (in[5] & ~(MARK_FIRST | MARK_CUT)) != MARK_SORTED)
		return -ENOENT;
	check = pfw_le_get(in + 6, 2);
	if (check && check != check_of(in + 4))
		return -EBADMSG;
	mark->first = in[5] & MARK_FIRST;
	mark->cut = in[5] & MARK_CUT;
	mark->metadata = (uint32_t)pfw_le_get(in + 8, 4);
	mark->pid = pfw_le_get(in + 12, 8);
	mark->least_ns = (int64_t)pfw_le_get(in + 20, 8);
	mark->greatest_ns = (int64_t)pfw_le_get(in + 28, 8);
	mark->checksum = pfw_le_get(in + 36, 8);
	return 0;
}

bool pfw_header_is_damaged(const void *member, size_t bytes)
{
	struct pfw_gzip_summary summary;
	struct pfw_sorted_mark mark;

	return pfw_gzip_read_summary(member, bytes, &summary) == 0 &&
	       (summary.damaged || pfw_sorted_mark_read(member, bytes, &mark) == -EBADMSG);
}

static enum pfw_gzip_effort effort(int level)
{
	if (level == PFW_LEVEL_FAST || level == 1)
		return PFW_GZIP_FASTEST;
	return level == PFW_LEVEL_MOST ? PFW_GZIP_SLOWEST : PFW_GZIP_USUAL;
}

static void put_header(unsigned char *out, const struct pfw_gzip_summary *summary,
		       const struct pfw_sorted_mark *mark, int level)
{
	pfw_gzip_put_header(out, summary, effort(level), 4 + PFW_MARK_BYTES);
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
	pfw_le_put(out + 6, check_of(out + 4), 2);
}

/* ---- compressing ---- */

/* Level 7 takes a third of gzip -9's time and comes within 2 % of its size.  Level 8 takes as long
 * as gzip -9 and is 5 % smaller.  With three members of ten at level 8 the file is no larger than
 * gzip -9's, in half its time. */
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

int pfw_member_open(struct pfw_member **out, int level)
{
	struct pfw_member *member = calloc(1, sizeof(*member));
	int error = 0;

	if (!member)
		return -ENOMEM;
	member->level = level;
	if (level == PFW_LEVEL_FAST)
		error = pfw_gzip_open(&member->fast);
	else
		error = open_deflate(member, level);
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
	libdeflate_free_compressor(member->deflate);
	libdeflate_free_compressor(member->harder);
	free(member);
}

size_t pfw_member_bound(size_t text_bytes)
{
	return pfw_gzip_bound(text_bytes) + PFW_MEMBER_HEADER_BYTES;
}

static int64_t deflate_hard(struct pfw_member *member, unsigned char *out, size_t room,
			    const char *text, size_t bytes, size_t number)
{
	size_t packed = libdeflate_deflate_compress(compressor(member, number), text, bytes, out,
						    room - PFW_GZIP_TRAILER_BYTES);

	if (!packed)
		return -ENOSPC;
	pfw_le_put(out + packed, libdeflate_crc32(0, text, bytes), 4);
	pfw_le_put(out + packed + 4, bytes, 4);
	return (int64_t)(packed + PFW_GZIP_TRAILER_BYTES);
}

int64_t pfw_member_make(struct pfw_member *member, void *out, size_t room, const char *text,
			size_t text_bytes, struct pfw_gzip_summary *summary,
			const struct pfw_sorted_mark *mark, size_t number)
{
	unsigned char *begin = out;
	int64_t bytes;

	if (room < pfw_member_bound(text_bytes))
		return -ENOSPC;
	if (member->fast) {
		/* Its own header ends where the mark ends; both are then written over it. */
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

struct pfw_unzip {
	struct pfw_inflate *inflate;
	struct libdeflate_decompressor *whole; /* NULL: use inflate */
};

struct pfw_unzip *pfw_unzip_new(void)
{
	struct pfw_unzip *unzip = calloc(1, sizeof(*unzip));

	if (!unzip)
		return NULL;
	unzip->inflate = pfw_inflate_new();
	if (!unzip->inflate) {
		free(unzip);
		return NULL;
	}
	if (!pfw_inflate_is_isal(unzip->inflate))
		unzip->whole = libdeflate_alloc_decompressor();
	return unzip;
}

void pfw_unzip_free(struct pfw_unzip *unzip)
{
	if (!unzip)
		return;
	pfw_inflate_free(unzip->inflate);
	libdeflate_free_decompressor(unzip->whole);
	free(unzip);
}

size_t pfw_unzip_bytes(const void *member, size_t member_bytes)
{
	return (size_t)pfw_le_get((const unsigned char *)member + member_bytes - 4, 4);
}

int pfw_unzip_member(struct pfw_unzip *unzip, const void *member, size_t member_bytes, void *text,
		     size_t text_bytes)
{
	unsigned char nothing; /* output for an empty text, since a library may refuse NULL */
	struct pfw_inflate_io io = { .in = member,
				     .in_bytes = member_bytes,
				     .out = text_bytes ? text : &nothing,
				     .out_bytes = text_bytes ? text_bytes : 1 };
	size_t used = 0;

	if (unzip->whole)
		return libdeflate_gzip_decompress_ex(unzip->whole, member, member_bytes, text,
						     text_bytes, &used,
						     NULL) == LIBDEFLATE_SUCCESS &&
				       used == member_bytes
			       ? 0
			       : -EBADMSG;
	pfw_inflate_member(unzip->inflate);
	if (pfw_inflate_step(unzip->inflate, &io) != PFW_INFLATE_END || io.in_bytes)
		return -EBADMSG;
	return io.out_bytes == (text_bytes ? 0 : 1) ? 0 : -EBADMSG;
}

/* The deflate stream of an empty member has two bytes. */
#define MEMBER_LEAST (PFW_GZIP_HEADER_LEAST + 2 + PFW_GZIP_TRAILER_BYTES)

int pfw_chain_look(struct pfw_link *link, int fd, uint64_t at)
{
	unsigned char look[PFW_GZIP_TRAILER_BYTES + PFW_MEMBER_HEADER_BYTES];
	size_t before = at ? PFW_GZIP_TRAILER_BYTES : 0;
	ssize_t got = pread(fd, look, before + PFW_MEMBER_HEADER_BYTES, (off_t)(at - before));
	int error;

	*link = (struct pfw_link){ .at = at };
	if (got < 0)
		return -errno;
	if ((size_t)got < before)
		return -EAGAIN;
	if (before)
		link->text_before = (uint32_t)pfw_le_get(look + 4, 4);
	link->header_bytes = (size_t)got - before;
	memcpy(link->header, look + before, link->header_bytes);
	error = pfw_gzip_read_summary(link->header, link->header_bytes, &link->summary);
	if (error == -EAGAIN && link->header_bytes == PFW_MEMBER_HEADER_BYTES)
		return -ENOENT;
	link->damaged = !error && pfw_header_is_damaged(link->header, link->header_bytes);
	return !error && link->summary.member_bytes < MEMBER_LEAST ? -ENOENT : error;
}

int pfw_is_gzip_fd(int fd)
{
	unsigned char magic[2];
	ssize_t got = pread(fd, magic, sizeof(magic), 0);

	return got < 0 ? -errno : pfw_is_gzip(magic, (size_t)got);
}
