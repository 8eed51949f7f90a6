/* store/read/chain.c - the header of one member of a file; see chain.h. */
#include "store/read/chain.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "common/base/le.h"

/* The deflate stream of an empty member has two bytes. */
#define MEMBER_LEAST (PFW_GZIP_HEADER_LEAST + 2 + PFW_GZIP_TRAILER_BYTES)

int pfw_chain_look(struct pfw_link *link, int fd, uint64_t at)
{
	unsigned char look[PFW_GZIP_TRAILER_BYTES + PFW_MEMBER_HEADER_BYTES];
	size_t before = at ? PFW_GZIP_TRAILER_BYTES : 0;
	ssize_t got = pread(fd, look, before + PFW_MEMBER_HEADER_BYTES, (off_t)(at - before));
	int error;

	*link = (struct pfw_link){ .at = at };
	if (got < 0)
		return -errno;
	if ((size_t)got < before)
		return -EAGAIN;
	if (before)
		link->text_before = (uint32_t)pfw_le_get(look + 4, 4);
	link->header_bytes = (size_t)got - before;
	memcpy(link->header, look + before, link->header_bytes);
	error = pfw_gzip_read_summary(link->header, link->header_bytes, &link->summary);
	if (error == -EAGAIN && link->header_bytes == PFW_MEMBER_HEADER_BYTES)
		return -ENOENT;
	link->damaged = !error && pfw_header_is_damaged(link->header, link->header_bytes);
	return !error && link->summary.member_bytes < MEMBER_LEAST ? -ENOENT : error;
}

int pfw_is_gzip_fd(int fd)
{
	unsigned char magic[2];
	ssize_t got = pread(fd, magic, sizeof(magic), 0);

	return got < 0 ? -errno : pfw_is_gzip(magic, (size_t)got);
}
