/* unzip.c - one whole gzip member in memory -> its text; see unzip.h. */
#include "unzip.h"

#include <errno.h>
#include <stdlib.h>
#ifdef PFW_HAVE_LIBDEFLATE
#include <libdeflate.h>
#endif

#include "inflate.h"

struct pfw_unzip {
	struct pfw_inflate *inflate;
	struct libdeflate_decompressor *whole; /* NULL: by inflate */
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
#ifdef PFW_HAVE_LIBDEFLATE
	if (!pfw_inflate_is_isal(unzip->inflate))
		unzip->whole = libdeflate_alloc_decompressor();
#endif
	return unzip;
}

void pfw_unzip_free(struct pfw_unzip *unzip)
{
	if (!unzip)
		return;
	pfw_inflate_free(unzip->inflate);
#ifdef PFW_HAVE_LIBDEFLATE
	libdeflate_free_decompressor(unzip->whole);
#endif
	free(unzip);
}

size_t pfw_unzip_bytes(const void *member, size_t member_bytes)
{
	const unsigned char *end = (const unsigned char *)member + member_bytes;

	return end[-4] | (size_t)end[-3] << 8 | (size_t)end[-2] << 16 | (size_t)end[-1] << 24;
}

int pfw_unzip_member(struct pfw_unzip *unzip, const void *member, size_t member_bytes, void *text,
		     size_t text_bytes)
{
	unsigned char nothing; /* for a library that wants room also for no text */
	struct pfw_inflate_io io = { .in = member,
				     .in_bytes = member_bytes,
				     .out = text_bytes ? text : &nothing,
				     .out_bytes = text_bytes ? text_bytes : 1 };

#ifdef PFW_HAVE_LIBDEFLATE
	size_t used = 0;

	if (unzip->whole)
		return libdeflate_gzip_decompress_ex(unzip->whole, member, member_bytes, text,
						     text_bytes, &used,
						     NULL) == LIBDEFLATE_SUCCESS &&
				       used == member_bytes
			       ? 0
			       : -EBADMSG;
#endif
	pfw_inflate_member(unzip->inflate);
	if (pfw_inflate_step(unzip->inflate, &io) != PFW_INFLATE_END || io.in_bytes)
		return -EBADMSG;
	return io.out_bytes == (text_bytes ? 0 : 1) ? 0 : -EBADMSG;
}
