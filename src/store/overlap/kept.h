/* store/overlap/kept.h - the file that keeps the overlaps of ranks in several trace files.
 *
 * The overlap of several processes can be computed only from their lines, and no index of one trace can
 * have it.  So `pfw overlap` keeps it in one file of the directory.  The key of an overlap is the names of
 * its trace files and the proofs in their indexes, so it is never used for other files or other content.
 * docs/index_format.rst has the format.
 */
#pragma once

#include <sys/types.h>

struct pfw_blob;
struct pfw_index;
struct pfw_overlap;
struct pfw_overlaps; /* opaque: see kept.c; one thread at a time */

/* Append a trace file of a rank to `files`, the key of the rank's overlap.  The order counts. */
void pfw_overlaps_add_file(struct pfw_blob *files, const char *path, const struct pfw_index *index);

/* Open the kept overlaps of a directory: those of its file, and those in the user's cache.  There may be
 * none.  Return 0 with *out for pfw_overlaps_close(), or -ENOMEM. */
int pfw_overlaps_open(struct pfw_overlaps **out, const char *directory);
void pfw_overlaps_close(struct pfw_overlaps *overlaps);
size_t pfw_overlaps_count(const struct pfw_overlaps *overlaps);

/* Fill *overlap, which must be empty, with the overlap of the key `files`, as pfw_overlap_end() leaves it.
 * Return 0, -ENOENT if none is kept, or another -errno. */
int pfw_overlaps_find(const struct pfw_overlaps *overlaps, const struct pfw_blob *files,
		      struct pfw_overlap *overlap);

/* Add the overlap of a rank, after pfw_overlap_end(), for pfw_overlaps_write().  Return 0 or -ENOMEM. */
int pfw_overlaps_keep(struct pfw_overlaps *overlaps, const struct pfw_blob *files,
		      const struct pfw_overlap *overlap);

/*
 * Write the added overlaps, and the older ones whose trace files still exist.  The user did not ask for this
 * file, so pfw_index_may_be_beside() decides whether it may be in the directory.  `trace` is any trace of the
 * directory, `mode` the permissions of all its traces.  Return 0 with the path of the file in `where`
 * (PATH_MAX bytes), or -errno.
 */
int pfw_overlaps_write(struct pfw_overlaps *overlaps, const char *trace, mode_t mode, char *where);
