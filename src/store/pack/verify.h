/* store/pack/verify.h - checks written members by reading them back, by several threads. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "store/sys/pool.h"

/* A member that was written. */
struct pfw_packed {
	uint64_t at;
	uint32_t bytes, lines;
	uint64_t checksum; /* sum over its lines, or hash of its bytes if it was copied */
	uint64_t header;   /* hash of the bytes that no CRC covers; 0 if it was copied */
	bool copied;
};

/* Check members of the file `fd` until *stop; stop may be NULL.  Return 0, -EBADMSG if a member is
 * not what was written, -EINTR, -ENOMEM, or why it cannot be read.  Thread: the pool's owner. */
int pfw_verify_run(const struct pfw_packed *packed, size_t members, int fd, struct pfw_pool *pool,
		   const _Atomic bool *stop);
