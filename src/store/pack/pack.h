/* store/pack/pack.h - writes lines in order as marked gzip members, compressed by the pool.
 *
 * Room store/pack: writes a compacted file and verifies it.  It may use store/{gzip,merge,index}
 * and the rooms before them.  Start here.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "store/gzip/member.h"
#include "store/merge/rows.h"
#include "store/read/blocks.h"
#include "store/sys/pool.h"

struct pfw_fname_hashes;
struct pfw_index_writer;
struct pfw_processes;
struct pfw_pack; /* opaque: see pack.c */

/* Figures of the whole file. */
struct pfw_pack_sum {
	uint64_t bytes, text_bytes; /* text: without copied members */
	uint64_t lines, metadata, checksum;
	uint64_t members, copied;
	uint64_t problems;	       /* bad lines, as the index counts them */
	int64_t least_ns, greatest_ns; /* least ts, greatest end; least > greatest: no times */
};

/* Write to `fd` from its begin.  Return 0 with *out for pfw_pack_close(), -ENOMEM, or -ENOENT if
 * there is no library to compress with.  Thread: the pool's owner, for all functions here. */
int pfw_pack_open(struct pfw_pack **out, int fd, int level, struct pfw_pool *pool);

/* Put each new member into this index, too; not copied ones.  `processes`, `fnames`: those of all lines,
 * or NULL.  `sorted`: all lines come in order of ts.  Before the first line. */
void pfw_pack_index(struct pfw_pack *pack, struct pfw_index_writer *index,
		    const struct pfw_processes *processes, const struct pfw_fname_hashes *fnames,
		    bool sorted);

/* Mark each new member as cut: events around it were left out.  Before the first line. */
void pfw_pack_cut(struct pfw_pack *pack);

/* Append rows->row[first..first + count). 0 or -errno, after which the pack can only be closed. */
int pfw_pack_rows(struct pfw_pack *pack, const struct pfw_rows *rows, size_t first, size_t count);

/* Let the next rows begin a new member.  0 or -errno, as above. */
int pfw_pack_apart(struct pfw_pack *pack);

/* Append an unchanged member of the file at `path`.  The text of `path` must stay valid, and be the same
 * pointer for each member of that file.  If the file has become shorter, this or a later call returns
 * -EIO. */
int pfw_pack_member(struct pfw_pack *pack, const char *path, const struct pfw_block *block,
		    const struct pfw_sorted_mark *mark);

/* Write everything collected so far. */
int pfw_pack_flush(struct pfw_pack *pack);

const struct pfw_pack_sum *pfw_pack_sum(const struct pfw_pack *pack);

/* Read the file back from `fd` and compare, until *stop (stop may be NULL).  Return 0, -EBADMSG if
 * the file is not what was written, -EINTR, or why it cannot be read. */
int pfw_pack_verify(struct pfw_pack *pack, const _Atomic bool *stop);

void pfw_pack_close(struct pfw_pack *pack);
