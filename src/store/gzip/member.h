/* store/gzip/member.h - makes one gzip member of sorted lines, with a mark in its header.
 *
 * Room store/gzip: gzip members and deflate streams, in both directions, and seek points.  It may
 * use common/format and store/kit.  Start here.
 *
 * A mark is a second FEXTRA subfield after that of common/format/gzip.h.  Its ids are 'P' 'S';
 * PFW_MARK_BYTES of little-endian numbers follow: version and flags (u8, u8; flag 1: sorted; 2: its
 * first lines are `process` lines, which precede all lines of the file; 4: events around it were
 * left out), check (u16), number of metadata lines (u32), pid (u64, of all its lines; 0: several),
 * least and greatest ts (i64, ns; with metadata, without those first lines), sum of pfw_linehash()
 * over its lines (u64).  The check is the CRC-32 of the 40 bytes with 0 in its place, upper half
 * XOR lower half, 65535 instead of 0; marks made before it have 0.  The lines are in order of ts; a
 * file is in order if its members are.  So a member can be copied, cut out and checked without the
 * others.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/format/gzip.h"

#define PFW_MARK_BYTES 40u
#define PFW_MEMBER_HEADER_BYTES (PFW_GZIP_HEADER_BYTES + 4u + PFW_MARK_BYTES)
#define PFW_LEVEL_FAST 0 /* ISA-L's level 1, or zlib's without ISA-L */
#define PFW_LEVEL_MOST 9

struct pfw_sorted_mark {
	bool first; /* includes `process` lines that precede all lines */
	bool cut;   /* events around it were left out */
	uint32_t metadata;
	uint64_t pid;
	int64_t least_ns, greatest_ns; /* least > greatest: no line has a time */
	uint64_t checksum;
};

/* Read the mark in a member's header.  Return 0, -EAGAIN if `bytes` is too few to tell, -ENOENT if
 * there is none, or -EBADMSG if its check is of another mark.  Thread: any. */
int pfw_sorted_mark_read(const void *member, size_t bytes, struct pfw_sorted_mark *mark);

/* Whether a header or the mark in it is not the one that was written.  Thread: any. */
bool pfw_header_is_damaged(const void *member, size_t bytes);

struct pfw_member; /* opaque: one thread's compressor */

/* Level 1 to 9 by libdeflate, or PFW_LEVEL_FAST.  Return 0 with *out for
 * pfw_member_close(); -ENOMEM, or -ENOENT where no library is there.  Thread: one at a time. */
int pfw_member_open(struct pfw_member **out, int level);
void pfw_member_close(struct pfw_member *member);

/* Room that is enough for a member of that much text. */
size_t pfw_member_bound(size_t text_bytes);

/* Compress at most PFW_GZIP_TEXT_MAX bytes, or one longer line, into `out`.  `number` is the
 * member's in its file: PFW_LEVEL_MOST tries harder with some.  Fills in summary->member_bytes.
 * Return the member's length, or -EIO, -ENOSPC. */
int64_t pfw_member_make(struct pfw_member *member, void *out, size_t room, const char *text,
			size_t text_bytes, struct pfw_gzip_summary *summary,
			const struct pfw_sorted_mark *mark, size_t number);

/* ---- inflating a whole member in memory ---- */

struct pfw_unzip; /* opaque: see member.c */

/* Make one for pfw_unzip_free(), or NULL without memory.  Thread: one at a time. */
struct pfw_unzip *pfw_unzip_new(void);
void pfw_unzip_free(struct pfw_unzip *unzip);

/* Length of a whole member's text, from its last four bytes.  Thread: any. */
size_t pfw_unzip_bytes(const void *member, size_t member_bytes);

/* Inflate a member that takes exactly `member` and whose text takes exactly `text`; both lengths
 * and the CRC are checked.  Return 0, or -EBADMSG if it is not such a member. */
int pfw_unzip_member(struct pfw_unzip *unzip, const void *member, size_t member_bytes, void *text,
		     size_t text_bytes);

/* ---- the chain of our members: each header gives the place of the next one ---- */

/* The header of one member; the next member is at `at` + summary.member_bytes. */
struct pfw_link {
	uint64_t at;
	struct pfw_gzip_summary summary;
	/* from the trailer before `at`: text bytes of the member that ends there */
	uint32_t text_before;
	unsigned char header[PFW_MEMBER_HEADER_BYTES];
	size_t header_bytes; /* fewer at the end of the file */
	bool damaged; /* the header is not the one that was written: believe only its length */
};

/* Read the header of the member at that byte of a regular file, with one read.  Return 0; -EAGAIN
 * if the file ends in or before the header; -ENOENT if it is no member of ours or has an impossible
 * length; or -errno.  If its length leads beyond the end of the file, the member is cut.  Thread:
 * any, as all here. */
int pfw_chain_look(struct pfw_link *link, int fd, uint64_t at);

/* Whether a regular file begins with gzip's magic number: 1 or 0, or -errno. */
int pfw_is_gzip_fd(int fd);
