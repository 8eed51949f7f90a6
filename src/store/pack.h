/* pack.h - lines in order -> marked gzip members in a file, compressed by the pool, written in order.
 */
#ifndef PFW_PACK_H
#define PFW_PACK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "blocks.h"
#include "member.h"
#include "pool.h"
#include "rows.h"

struct pfw_index_writer;
struct pfw_pack; /* opaque: see pack.c */

/* All of the file. */
struct pfw_pack_sum {
	uint64_t bytes, text_bytes; /* text: of what was not copied */
	uint64_t lines, metadata, checksum;
	uint64_t members, copied;
	uint64_t problems;	       /* of lines, as the index has them */
	int64_t least_ns, greatest_ns; /* least ts, greatest end; least > greatest: none */
};

/* Write to `fd`, from its begin.  Return 0 with *out for pfw_pack_close(), -ENOMEM, or -ENOENT where
 * nothing to compress with is there.  Thread: the pool's owner, as all here. */
int pfw_pack_open(struct pfw_pack **out, int fd, int level, struct pfw_pool *pool);

/* Put each member into this index, too; before the first line.  What is copied is not in it. */
void pfw_pack_index(struct pfw_pack *pack, struct pfw_index_writer *index);

/* Have each new member say that events around it were left out; before the first line. */
void pfw_pack_cut(struct pfw_pack *pack);

/* Append rows->row[first..first + count).  0 or -errno; after that nothing more can be done. */
int pfw_pack_rows(struct pfw_pack *pack, const struct pfw_rows *rows, size_t first, size_t count);

/* Append a member of the file at `path` as it stands; the same pointer each time, and lasting.  -EIO
 * also where the file is shorter than it was: told by this or a later call. */
int pfw_pack_member(struct pfw_pack *pack, const char *path, const struct pfw_block *block,
		    const struct pfw_mark *mark);

/* Write what is in hand. */
int pfw_pack_flush(struct pfw_pack *pack);

const struct pfw_pack_sum *pfw_pack_sum(const struct pfw_pack *pack);

/* Read all of it back, from `fd`, and compare; `progress` (or NULL) hears how many bytes that were.
 * Return 0, -EBADMSG where it is not what was to be written, -EINTR, or why it cannot be read. */
int pfw_pack_verify(struct pfw_pack *pack, const volatile bool *stop,
		    void (*progress)(void *user, uint64_t bytes), void *user);

void pfw_pack_close(struct pfw_pack *pack);

#endif
