/* unzip.h - one whole gzip member in memory -> its text: by ISA-L where it is found, else libdeflate,
 * where it was built with it, else zlib, which takes twice the time of either. */
#ifndef PFW_UNZIP_H
#define PFW_UNZIP_H

#include <stddef.h>

struct pfw_unzip; /* opaque: see unzip.c */

/* Return one for pfw_unzip_free(), or NULL where there is no memory.  Thread: one at a time. */
struct pfw_unzip *pfw_unzip_new(void);
void pfw_unzip_free(struct pfw_unzip *unzip);

/* How long the text of a whole member is, as it says in its last four bytes.  Thread: any. */
size_t pfw_unzip_bytes(const void *member, size_t member_bytes);

/*
 * Inflate the member that takes all of `member`, and whose text takes all of `text`; both lengths
 * and the CRC are checked.  Return 0, or -EBADMSG where it is not such a member.
 */
int pfw_unzip_member(struct pfw_unzip *unzip, const void *member, size_t member_bytes, void *text,
		     size_t text_bytes);

#endif
