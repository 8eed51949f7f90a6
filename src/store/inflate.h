/* inflate.h - gzip members and deflate streams -> text, piece by piece: by ISA-L where it is found,
 * which takes less than half of zlib's time, else zlib. */
#ifndef PFW_INFLATE_H
#define PFW_INFLATE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct pfw_inflate; /* opaque: see inflate.c */

/* Return one for pfw_inflate_free(), or NULL where there is no memory.  Thread: one at a time, as all
 * here. */
struct pfw_inflate *pfw_inflate_new(void);
void pfw_inflate_free(struct pfw_inflate *inflate);

/* Whether it is by ISA-L, which is faster than libdeflate, too. */
bool pfw_inflate_is_isal(const struct pfw_inflate *inflate);

/* Begin at the first byte of a gzip member; its CRC and length will be checked. */
void pfw_inflate_member(struct pfw_inflate *inflate);

/*
 * Begin inside of one, at the border of a deflate block: `bits` (0 to 7) highest bits of `byte` come
 * before the first byte of the input, and `window` is the text before it.  Nothing is checked at the
 * end, where PFW_INFLATE_END leaves *trailer bytes of the member unread.  0 or -ENOMEM.
 */
int pfw_inflate_resume(struct pfw_inflate *inflate, unsigned bits, unsigned char byte,
		       const void *window, size_t window_bytes);

enum pfw_inflate_result {
	PFW_INFLATE_MORE, /* all input is used, the output is full, or it stopped at a border */
	PFW_INFLATE_END,  /* of the member; input behind it is left */
	PFW_INFLATE_BAD,  /* see pfw_inflate_why(); what was made before it is good */
	PFW_INFLATE_FULL, /* no memory */
};

struct pfw_inflate_io {
	const unsigned char *in;
	size_t in_bytes;
	unsigned char *out;
	size_t out_bytes;
	/* Whether to stop at the next border of two deflate blocks, slowly; then stopped is set, and
	 * the border lies so many bits before io->in. */
	bool stop;
	bool stopped;
	unsigned bits_back;
};

/* Inflate, and move io->in and io->out on. */
enum pfw_inflate_result pfw_inflate_step(struct pfw_inflate *inflate, struct pfw_inflate_io *io);

/* What is wrong, in zlib's words. */
const char *pfw_inflate_why(const struct pfw_inflate *inflate);

/* Whether text of this member has come yet. */
bool pfw_inflate_begun(const struct pfw_inflate *inflate);

/* Behind PFW_INFLATE_END of what was resumed: bytes of the member's CRC and length that are still to
 * be passed over. */
unsigned pfw_inflate_trailer(const struct pfw_inflate *inflate);

#endif
