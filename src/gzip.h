/* gzip.h - text -> one independent gzip member, by ISA-L where it is found, else zlib.
 *
 * Both libraries are dlopened (RTLD_LOCAL), only when compression is asked for: the traced program
 * never sees them.  Each member's header has an FEXTRA subfield, ids 'P' 'F', PFW_GZIP_EXTRA_BYTES
 * of little-endian figures: member bytes (u32, whole member), lines (u32), least ts (u64, ns since
 * the epoch), greatest end (u64, ns).  gzip and zlib skip it (RFC 1952, 2.3.1.1).
 */
#ifndef PFW_GZIP_H
#define PFW_GZIP_H

#include <stddef.h>
#include <stdint.h>

#define PFW_GZIP_TEXT_MAX (1u << 20) /* text of one member, at most */
#define PFW_GZIP_EXTRA_BYTES 24u
#define PFW_GZIP_HEADER_BYTES (10u + 2u + 4u + PFW_GZIP_EXTRA_BYTES)

struct pfw_gzip; /* opaque: library, work memory */

struct pfw_gzip_summary {
	uint32_t member_bytes; /* filled by pfw_gzip_member() */
	uint32_t lines;
	uint64_t least_ns;
	uint64_t greatest_ns;
};

/*
 * Load a library and its work memory (mmapped; below 1 MiB).  Return 0 with *out for
 * pfw_gzip_close(); -ENOENT where neither library is there, -ENOMEM.
 * Thread: init or drain.  Signal: unsafe (dlopen).
 */
int pfw_gzip_open(struct pfw_gzip **out);
void pfw_gzip_close(struct pfw_gzip *gzip);

/* "ISA-L 2.30.0", "zlib 1.2.13": what will compress.  Static text. */
const char *pfw_gzip_library(const struct pfw_gzip *gzip);

/* Room that pfw_gzip_member() may need for that much text. */
size_t pfw_gzip_bound(size_t text_bytes);

/*
 * Compress text (at most PFW_GZIP_TEXT_MAX bytes, or one longer line) into one member at out, which
 * has `room` bytes, at least pfw_gzip_bound().  Return the member's length, or -ENOSPC, -EIO.
 * Thread: the owner, one at a time.  Signal: unsafe.  Keeps the AVX state clean for SSE code.
 */
int64_t pfw_gzip_member(struct pfw_gzip *gzip, void *out, size_t room, const void *text,
			size_t text_bytes, struct pfw_gzip_summary *summary);

/* The shortest member that pfw_gzip_pad() can make. */
#define PFW_GZIP_PAD_LEAST (PFW_GZIP_HEADER_BYTES + 1u + 2u + 8u)

/* Make a member without text of exactly `bytes`, at least PFW_GZIP_PAD_LEAST.  Thread: any. */
void pfw_gzip_pad(void *out, size_t bytes);

/* Make pfw_gzip_member()'s last result `by` bytes longer, for which there is room: a comment in its
 * header, of blanks, which every reader passes over.  Return its length.  Thread: the owner. */
size_t pfw_gzip_lengthen(void *member, size_t bytes, size_t by);

/*
 * Read the summary out of a member's header.  Return 0, -EAGAIN where `bytes` is too short to
 * tell, or -ENOENT where it is not one of ours.  Thread: any.  Signal: safe.
 */
int pfw_gzip_read_summary(const void *member, size_t bytes, struct pfw_gzip_summary *summary);

#endif
