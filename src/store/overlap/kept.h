/* store/overlap/kept.h - overlaps of ranks in several files, in one file of their directory.
 *
 * What several processes do at the same time follows from their lines only, and belongs to none of their
 * indexes.  So `pfw overlap` keeps it, by the files' names and the proofs in their indexes: of other files,
 * or files of other bytes, it is never used.  docs/index_format.rst has the format.
 */
#pragma once

#include <sys/types.h>

struct pfw_blob;
struct pfw_index;
struct pfw_overlap;
struct pfw_overlaps; /* opaque: see kept.c; one thread at a time */

/* Append a file of a rank to what names its files, in their order. */
void pfw_overlaps_add_file(struct pfw_blob *files, const char *path, const struct pfw_index *index);

/* Open what is kept of a directory, there and in the user's cache: maybe nothing.  0 with *out for
 * pfw_overlaps_close(), or -ENOMEM. */
int pfw_overlaps_open(struct pfw_overlaps **out, const char *directory);
void pfw_overlaps_close(struct pfw_overlaps *overlaps);
size_t pfw_overlaps_count(const struct pfw_overlaps *overlaps);

/* Fill *overlap, which must be empty, as pfw_overlap_end() leaves it.  0, -ENOENT or another -errno. */
int pfw_overlaps_find(const struct pfw_overlaps *overlaps, const struct pfw_blob *files,
		      struct pfw_overlap *overlap);

/* Keep the overlap of a rank, which has ended.  0 or -ENOMEM. */
int pfw_overlaps_keep(struct pfw_overlaps *overlaps, const struct pfw_blob *files,
		      const struct pfw_overlap *overlap);

/*
 * Write what is to be kept, with what was kept of other files that are still there; nobody asked for it
 * (see pfw_index_may_be_beside()).  trace: one of the directory; mode: the permissions of all traces.
 * 0 with the place in `where` (PATH_MAX bytes), or -errno.
 */
int pfw_overlaps_write(struct pfw_overlaps *overlaps, const char *trace, mode_t mode, char *where);
