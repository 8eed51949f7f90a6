/* index_build.h - the indexes of traces, made or checked in one pass over their lines. */
#ifndef PFW_INDEX_BUILD_H
#define PFW_INDEX_BUILD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "scan.h"
#include "traces.h"

struct pfw_summary;

/* How it went with one file. */
struct pfw_index_built {
	int error; /* -errno: there is no index of it; -ESTALE: it changed while it was read */
	uint64_t blocks, lines, problems;
	const struct pfw_summary *total;
	int64_t ns;   /* since its first block was begun */
	bool differs; /* of a check: the index is not what the trace makes it */
	char difference[256];
};

struct pfw_index_build {
	const struct pfw_traces *traces; /* regular files only */
	unsigned jobs;			 /* as in struct pfw_pass */
	bool check; /* compare with the index that is there, and write nothing */
	void *user;
	/* Each file once, in order, behind what is told of its lines. */
	void (*built)(void *user, size_t file, const struct pfw_index_built *built);
	/* As in struct pfw_pass. */
	void (*problem)(void *user, size_t file, const struct pfw_scan_problem *problem);
	void (*progress)(void *user, uint64_t bytes, uint64_t all);
	const volatile bool *stop;
};

/* Return 0, also where a file's `error` is not; -EINTR, -ENOMEM.  What is unfinished then is gone.
 * Thread: any. */
int pfw_index_build(const struct pfw_index_build *build);

/*
 * Compare the index of one trace, all of its rows, with the trace.  Return 0; then *differs, with one
 * line in `how` (of at least 128 bytes), also where it is not of the trace as it is.  -ENOENT: there
 * is no index; -EINTR, or why the trace cannot be read.  Thread: any.
 */
int pfw_index_check(const char *path, bool *differs, char *how, size_t size);

#endif
