/* store/index/place.h - where the index of a trace may be: beside it, or in the user's cache.
 *
 * The cache is the directory pfw in $XDG_CACHE_HOME, or in ~/.cache.  It has HASH.idx for a trace
 * whose path has this hash, and HASH.trace, a link to the trace.  It counts only if it and the
 * directory that it is in belong to this user, and nobody else writes in it.
 */
#pragma once

#include <stdbool.h>

/* "CACHE/HASH" for a trace, to be freed; with `make` the directory is made if there is none.  NULL:
 * there is no cache, or no such trace.  Thread: any, as all here. */
char *pfw_index_in_cache(const char *trace, bool make);

/* Say whose index "CACHE/HASH" is, so that it can be removed when the trace is gone.  0 or -errno. */
int pfw_index_cache_link(const char *stem, const char *trace);

/* Remove indexes of traces that are gone, then the oldest while all take more than 1 GiB; but not
 * that of `stem`. */
void pfw_index_cache_trim(const char *stem);

/*
 * Whether an index that nobody asked for may be made beside a trace: the trace is this user's, and
 * so is an index that it would replace, which is of no newer format.  Root makes it only in a
 * directory of root's where nobody else can replace files.
 */
bool pfw_index_may_be_beside(const char *trace);
