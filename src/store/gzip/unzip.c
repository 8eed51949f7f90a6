/* store/gzip/unzip.c - inflates one whole gzip member in memory; see unzip.h. */
#include "store/gzip/unzip.h"

#include <errno.h>
#include <libdeflate.h>
#include <stdlib.h>

#include "common/base/le.h"
#include "store/gzip/inflate.h"

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
	const unsigned char *end = (const unsigned char *)member + member_bytes;

	return (size_t)pfw_le_get(end - 4, 4);
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
