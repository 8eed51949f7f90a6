/* store/index/build.h - makes or checks the indexes of traces in one pass over their lines. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "store/read/scan.h"
#include "store/traces/traces.h"

struct pfw_summary;

/* The result of one file. */
struct pfw_index_built {
	int error; /* -errno: there is no index; -ESTALE: the file changed meanwhile */
	uint64_t blocks, lines, problems;
	const struct pfw_summary *total;
	const char *cached; /* its path in the cache; NULL: it is beside the trace */
	bool grown;	    /* the index of the trace when it was shorter was added to */
	int64_t ns;	    /* since the begin of its first block */
	bool differs;	    /* of a check: the index is not that of the trace */
	char difference[256];
};

struct pfw_index_build {
	const struct pfw_traces *traces; /* regular files only */
	unsigned jobs;			 /* as in struct pfw_pass */
	bool check;			 /* compare with the index on disk, and write nothing */
	bool anew;			 /* add to no index, and tell kinds `once` */
	bool unasked; /* PFW_INDEX_UNASKED; the first index that cannot be made is the end */
	void *user;
	/* Called once for each file, in order, after all its problem() calls; for one whose index
	 * could not be added to after all, at the end. */
	void (*built)(void *user, size_t file, const struct pfw_index_built *built);
	/* As in struct pfw_pass; or NULL. */
	void (*problem)(void *user, size_t file, const struct pfw_scan_problem *problem);
	void (*progress)(void *user, uint64_t bytes, uint64_t all);
	const _Atomic bool *stop;
};

/* Return 0, even if a file's `error` is not 0; -EINTR or -ENOMEM; -ECANCELED: `unasked`.  Unfinished indexes are removed.
 * Thread: any. */
int pfw_index_build(const struct pfw_index_build *build);

/*
 * Compare all rows of the index of a trace with the trace.  Return 0 and *differs, with one line in
 * `how` (at least 128 bytes), also if the index is stale.  -ENOENT: there is no index; -EINTR, or
 * the error of reading the trace.  Thread: any.
 */
int pfw_index_check(const char *path, bool *differs, char *how, size_t size);
