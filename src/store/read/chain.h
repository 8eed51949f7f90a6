/* store/read/chain.h - the chain of our gzip members: each header gives the next one's place. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "store/gzip/member.h"

/* The header of one member; the next member is at `at` + summary.member_bytes. */
struct pfw_link {
	uint64_t at;
	struct pfw_gzip_summary summary;
	/* from the trailer before `at`: text bytes of the member that ends there */
	uint32_t text_before;
	unsigned char header[PFW_MEMBER_HEADER_BYTES];
	size_t header_bytes; /* fewer at the end of the file */
	bool damaged; /* the header is not the one that was written: believe only its length */
};

/*
 * Read the header of the member at that byte of a regular file, with one read.  Return 0; -EAGAIN
 * if the file ends in or before the header; -ENOENT if it is no member of ours or has an impossible
 * length; or -errno.  If its length leads beyond the end of the file, the member is cut.  Thread:
 * any, as all here.
 */
int pfw_chain_look(struct pfw_link *link, int fd, uint64_t at);

/* Whether a regular file begins with gzip's magic number: 1 or 0, or -errno. */
int pfw_is_gzip_fd(int fd);
