/* store/gzip/unzip.h - inflates a whole gzip member in memory. */
#pragma once

#include <stddef.h>

struct pfw_unzip; /* opaque: see unzip.c */

/* Make one for pfw_unzip_free(), or NULL without memory.  Thread: one at a time. */
struct pfw_unzip *pfw_unzip_new(void);
void pfw_unzip_free(struct pfw_unzip *unzip);

/* Length of a whole member's text, from its last four bytes.  Thread: any. */
size_t pfw_unzip_bytes(const void *member, size_t member_bytes);

/* Inflate a member that takes exactly `member` and whose text takes exactly `text`; both lengths
 * and the CRC are checked.  Return 0, or -EBADMSG if it is not such a member. */
int pfw_unzip_member(struct pfw_unzip *unzip, const void *member, size_t member_bytes, void *text,
		     size_t text_bytes);
