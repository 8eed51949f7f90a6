/* ordered.h - the wanted lines of many traces in order of ts, those that begin at one time the
 * longest first: so a span comes before all that lies in it.
 */
#ifndef PFW_ORDERED_H
#define PFW_ORDERED_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "blocks.h"
#include "entry.h"
#include "problems.h"
#include "select.h"
#include "traces.h"

/* Further lines of one of the traces, in a file of their own. */
struct pfw_ordered_more {
	size_t file; /* of traces */
	const char *path;
	struct pfw_blocks blocks;
};

struct pfw_ordered {
	const struct pfw_traces *traces;
	const size_t *file; /* those of them that are read; NULL: all */
	size_t count;
	const struct pfw_ordered_more *more; /* only those of files that are read */
	size_t more_count;
	const struct pfw_select *select; /* resolved */
	unsigned jobs;
	const volatile bool *stop; /* set by a signal handler; may be NULL */
	void *user;
	/* Forget all lines that were given: they come once more.  Or -errno, which ends it. */
	int (*again)(void *user);
	/* A line.  0, or -errno, which ends it. */
	int (*line)(void *user, size_t file, const struct pfw_entry *entry);
	void (*problem)(void *user, size_t file, const struct pfw_scan_problem *problem);
	void (*progress)(void *user, uint64_t bytes, uint64_t all); /* may be NULL */
};

/*
 * Run it, in about 160 MiB of memory; more goes to a temporary file.  Lines of metadata (ph M) are
 * given where select->meta is set.  Return 0, -EINTR, -ENOMEM, what a callback said, or why the file
 * *where cannot be read.  Thread: any; starts jobs - 1 threads and joins them.
 */
int pfw_ordered_run(const struct pfw_ordered *ordered, const char **where);

#endif
