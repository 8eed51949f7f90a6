/* copies.h - stretches of files copied into another by several threads: read, hashed and written by
 * whichever has time, each to its place.
 */
#ifndef PFW_COPIES_H
#define PFW_COPIES_H

#include <stddef.h>
#include <stdint.h>

#include "pool.h"

struct pfw_copies; /* opaque: see copies.c */

/* Copy to `fd`; copied() hears, in order, of each that is done: what it was started with, and
 * pfw_linehash() of its bytes.  Return 0 with *out for pfw_copies_close(), or -ENOMEM.  Thread: the
 * pool's owner, as all here. */
int pfw_copies_open(struct pfw_copies **out, int fd, struct pfw_pool *pool,
		    void (*copied)(void *user, size_t number, uint64_t hash), void *user);

/* Copy `bytes` bytes of the file at `path`, from byte `from` on, to byte `to`.  The name of a file must
 * last, and be the same pointer each time.  Return 0 or -errno, also of one started before. */
int pfw_copies_start(struct pfw_copies *copies, const char *path, uint64_t from, uint32_t bytes,
		     uint64_t to, size_t number);

/* Wait for all.  0, or -errno of the first that failed; -EIO also where a file was shorter. */
int pfw_copies_finish(struct pfw_copies *copies);

/* Wait for all, whatever becomes of them. */
void pfw_copies_close(struct pfw_copies *copies);

#endif
