/* tools/export/ordered.h - the wanted lines of many traces in order of ts.
 *
 * Of lines with the same ts the longest span comes first, so that a span precedes the spans in it;
 * of spans with identical times the outer one.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "store/line/entry.h"
#include "store/read/blocks.h"
#include "store/read/scan.h"
#include "store/select/select.h"
#include "store/traces/traces.h"

/* More lines of one of the traces, in another file. */
struct pfw_ordered_more {
	size_t file; /* index of the trace */
	const char *path;
	struct pfw_blocks blocks;
};

struct pfw_ordered {
	const struct pfw_traces *traces;
	const size_t *file; /* indices of the traces to read; NULL: all */
	size_t count;
	const struct pfw_ordered_more *more; /* only for traces that are read */
	size_t more_count;
	const struct pfw_select *select; /* resolved */
	unsigned jobs;
	const _Atomic bool *stop; /* set by a signal handler; may be NULL */
	void *user;
	/* Forget all lines taken so far: they come again.  An -errno ends the run. */
	int (*again)(void *user);
	/* Take a line.  An -errno ends the run. */
	int (*line)(void *user, size_t file, const struct pfw_entry *entry);
	void (*problem)(void *user, size_t file, const struct pfw_scan_problem *problem);
	void (*progress)(void *user, uint64_t bytes, uint64_t all); /* may be NULL */
};

/*
 * Run it in about 160 MiB of memory; more data goes to a temporary file.  Metadata lines (ph M) are
 * included if select->meta is set.  Return 0, -EINTR, -ENOMEM, the result of a callback, or the
 * error of the file *where.  Thread: any; starts jobs - 1 threads and joins them.
 */
int pfw_ordered_run(const struct pfw_ordered *ordered, const char **where);
