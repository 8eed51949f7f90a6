/* store/gzip/inflate.h - inflates gzip members and deflate streams piece by piece.
 *
 * It uses ISA-L if that is found, which takes less than half of zlib's time, else zlib.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

struct pfw_inflate; /* opaque: see inflate.c */

/* Make one for pfw_inflate_free(), or NULL without memory.  Thread: one at a time, for all
 * functions here. */
struct pfw_inflate *pfw_inflate_new(void);
void pfw_inflate_free(struct pfw_inflate *inflate);

/* Whether ISA-L is used, which is also faster than libdeflate. */
bool pfw_inflate_is_isal(const struct pfw_inflate *inflate);

/* Begin at the first byte of a gzip member; its CRC and length will be checked. */
void pfw_inflate_member(struct pfw_inflate *inflate);

/* Begin inside a member, at the border of a deflate block: the `bits` (0 to 7) highest bits of
 * `byte` precede the input, and `window` is the text before it.  Nothing is checked at the end;
 * PFW_INFLATE_END then leaves *trailer bytes of the member unread. 0 or -ENOMEM. */
int pfw_inflate_resume(struct pfw_inflate *inflate, unsigned bits, unsigned char byte,
		       const void *window, size_t window_bytes);

enum pfw_inflate_result {
	PFW_INFLATE_MORE, /* the input is used up, the output is full, or stopped at a border */
	PFW_INFLATE_END,  /* end of the member; input after it is left */
	PFW_INFLATE_BAD,  /* see pfw_inflate_why(); the output before it is good */
	PFW_INFLATE_FULL, /* no memory */
};

struct pfw_inflate_io {
	const unsigned char *in;
	size_t in_bytes;
	unsigned char *out;
	size_t out_bytes;
	/* Whether to stop at the next border between deflate blocks, which is slow; `stopped` is
	 * then set, and the border is that many bits before io->in. */
	bool stop;
	bool stopped;
	unsigned bits_back;
};

/* Inflate, and advance io->in and io->out. */
enum pfw_inflate_result pfw_inflate_step(struct pfw_inflate *inflate, struct pfw_inflate_io *io);

/* The error in zlib's words. */
const char *pfw_inflate_why(const struct pfw_inflate *inflate);

/* Whether this member has produced text yet. */
bool pfw_inflate_begun(const struct pfw_inflate *inflate);

/* After PFW_INFLATE_END of a resumed member: how many bytes of CRC and length are to be skipped. */
unsigned pfw_inflate_trailer(const struct pfw_inflate *inflate);
