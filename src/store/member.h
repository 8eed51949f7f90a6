/* member.h - sorted lines -> one gzip member, with a mark in its header that says what it holds.
 *
 * A mark is a second FEXTRA subfield behind that of gzip.h, ids 'P' 'S', PFW_MARK_BYTES of
 * little-endian figures: version and flags (u8, u8, u16 0; 1 sorted, 2 its first lines are `process`
 * lines that stand in front of all, 4 events around it were left out), metadata lines (u32), pid (u64, of all
 * its lines; 0: they differ), least and greatest ts (i64, ns; metadata included, the lines that stand
 * in front of all not), sum of pfw_linehash() over its lines (u64).  Its lines are in order of ts;
 * a file is when its members are.  So a member can be copied, cut out and checked without the rest.
 */
#ifndef PFW_MEMBER_H
#define PFW_MEMBER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "gzip.h"

#define PFW_MARK_BYTES 40u
#define PFW_MEMBER_HEADER_BYTES (PFW_GZIP_HEADER_BYTES + 4u + PFW_MARK_BYTES)
#define PFW_LEVEL_FAST 0 /* ISA-L's 1, or zlib's where it is not there */
#define PFW_LEVEL_MOST 9

struct pfw_mark {
	bool first; /* lines that stand in front of all are among them */
	bool cut;   /* events around it were left out */
	uint32_t metadata;
	uint64_t pid;
	int64_t least_ns, greatest_ns; /* least > greatest: none has a time */
	uint64_t checksum;
};

/* Read the mark out of the header of a member.  Return 0, -EAGAIN where `bytes` is too short to
 * tell, or -ENOENT where it has none.  Thread: any. */
int pfw_mark_read(const void *member, size_t bytes, struct pfw_mark *mark);

struct pfw_member; /* opaque: what one thread compresses with */

/* Level 1 to 9 by libdeflate, else zlib, or PFW_LEVEL_FAST.  Return 0 with *out for
 * pfw_member_close(); -ENOMEM, or -ENOENT where no library is there.  Thread: one at a time. */
int pfw_member_open(struct pfw_member **out, int level);
void pfw_member_close(struct pfw_member *member);

/* Room for the member of that much text. */
size_t pfw_member_bound(size_t text_bytes);

/* Compress at most PFW_GZIP_TEXT_MAX bytes, or one longer line, into `out`; `number`: of the member
 * in its file (PFW_LEVEL_MOST tries harder with some).  summary->member_bytes is
 * filled in.  Return the member's length, or -EIO, -ENOSPC. */
int64_t pfw_member_make(struct pfw_member *member, void *out, size_t room, const char *text,
			size_t text_bytes, struct pfw_gzip_summary *summary,
			const struct pfw_mark *mark, size_t number);

#endif
