/* pack_verify.h - members that were written are what was to be written: read back by several threads. */
#ifndef PFW_PACK_VERIFY_H
#define PFW_PACK_VERIFY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "pool.h"

/* A member that was written. */
struct pfw_packed {
	uint64_t at;
	uint32_t bytes, lines;
	uint64_t checksum; /* of its lines, or of its bytes where it was copied */
	uint64_t header;   /* hash of what no CRC is of; of a copied one 0 */
	bool copied;
};

struct pfw_verify {
	int fd;
	struct pfw_pool *pool;
	const struct pfw_packed *packed;
	size_t members;
	const volatile bool *stop;		      /* may be NULL, as may be progress() */
	void (*progress)(void *user, uint64_t bytes); /* so many more are read */
	void *user;
};

/* Return 0, -EBADMSG where one is not what was to be written, -EINTR, -ENOMEM, or why it cannot be
 * read.  Thread: the pool's owner. */
int pfw_verify_run(const struct pfw_verify *verify);

#endif
