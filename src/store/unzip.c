/* unzip.c - one whole gzip member in memory -> its text; see unzip.h. */
#include "unzip.h"

#include <errno.h>
#include <stdlib.h>
#include <zlib.h>
#ifdef PFW_HAVE_LIBDEFLATE
#include <libdeflate.h>
#endif

#ifdef PFW_HAVE_LIBDEFLATE

struct pfw_unzip *pfw_unzip_new(void)
{
	return (struct pfw_unzip *)libdeflate_alloc_decompressor();
}

void pfw_unzip_free(struct pfw_unzip *unzip)
{
	libdeflate_free_decompressor((struct libdeflate_decompressor *)unzip);
}

int pfw_unzip_member(struct pfw_unzip *unzip, const void *member, size_t member_bytes, void *text,
		     size_t text_bytes)
{
	size_t used = 0;

	return libdeflate_gzip_decompress_ex((struct libdeflate_decompressor *)unzip, member,
					     member_bytes, text, text_bytes, &used,
					     NULL) == LIBDEFLATE_SUCCESS &&
			       used == member_bytes
		       ? 0
		       : -EBADMSG;
}

#else

struct pfw_unzip {
	z_stream z;
};

struct pfw_unzip *pfw_unzip_new(void)
{
	struct pfw_unzip *unzip = calloc(1, sizeof(*unzip));

	if (unzip && inflateInit2(&unzip->z, 16 + MAX_WBITS) != Z_OK) {
		free(unzip);
		return NULL;
	}
	return unzip;
}

void pfw_unzip_free(struct pfw_unzip *unzip)
{
	if (!unzip)
		return;
	inflateEnd(&unzip->z);
	free(unzip);
}

int pfw_unzip_member(struct pfw_unzip *unzip, const void *member, size_t member_bytes, void *text,
		     size_t text_bytes)
{
	z_stream *z = &unzip->z;

	inflateReset(z);
	z->next_in = (unsigned char *)member;
	z->avail_in = (uInt)member_bytes;
	z->next_out = text;
	z->avail_out = (uInt)text_bytes;
	return inflate(z, Z_FINISH) == Z_STREAM_END && !z->avail_in && !z->avail_out ? 0 : -EBADMSG;
}

#endif
