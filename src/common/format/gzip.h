/* common/format/gzip.h - compresses text into one gzip member, by ISA-L if found, else zlib.
 *
 * The libraries are dlopened (RTLD_LOCAL) only for compression, so the traced program never sees
 * them.  gzip_header.h describes the header of a member.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "common/format/gzip_header.h"

#define PFW_GZIP_TEXT_MAX (1u << 20) /* most text of one member */

struct pfw_gzip; /* opaque: library, work memory */

/* Load a library and map its work memory (below 1 MiB).  Return 0 with *out for pfw_gzip_close();
 * -ENOENT if there is no library; -ENOMEM.  Thread: init or drain.  Signal: unsafe (dlopen). */
int pfw_gzip_open(struct pfw_gzip **out);
void pfw_gzip_close(struct pfw_gzip *gzip);

/* The library: "ISA-L 2.30", "zlib 1.2.13".  Valid until pfw_gzip_close(). */
const char *pfw_gzip_library(const struct pfw_gzip *gzip);

/* The room that pfw_gzip_member() needs for so much text. */
size_t pfw_gzip_bound(size_t text_bytes);

/* Compress text (at most PFW_GZIP_TEXT_MAX bytes, or one longer line) into one member at out.
 * `room` is at least pfw_gzip_bound().  Return the length of the member, or -ENOSPC, -EIO.  Thread:
 * the owner, one at a time.  Signal: unsafe.  Keeps the AVX state clean for SSE code. */
int64_t pfw_gzip_member(struct pfw_gzip *gzip, void *out, size_t room, const void *text,
			size_t text_bytes, struct pfw_gzip_summary *summary);

/* The shortest member that pfw_gzip_pad() can make. */
#define PFW_GZIP_PAD_LEAST (PFW_GZIP_HEADER_BYTES + 1u + 2u + 8u)

/* Make a member without text of exactly `bytes`, at least PFW_GZIP_PAD_LEAST.  Thread: any. */
void pfw_gzip_pad(void *out, size_t bytes);

/* Make the last member of pfw_gzip_member() `by` bytes longer, by a comment of blanks in its
 * header, which readers skip.  The caller has room.  Return the new length.  Thread: the owner. */
size_t pfw_gzip_lengthen(void *member, size_t bytes, size_t by);
