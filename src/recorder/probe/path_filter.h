/* recorder/probe/path_filter.h - which paths are traced: DFTRACER_DATA_DIR, PFW_EXCLUDE. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct pfw_config;

/* Where a Python, if this process is one, has its own files.  NULL = unknown. */
struct pfw_path_filter_python {
	const char *exe;    /* the process's executable, absolute */
	const char *called; /* as called: in a virtual environment, a link to exe */
	const char *venv;   /* VIRTUAL_ENV's value */
	const char *cwd;    /* the directory it was started in */
};

/*
 * Build the filter from config->data_dir, config->exclude and a Python's own files.  Threads that
 * ask it meanwhile get the answer of the old or of the new one.  0; -E2BIG: no room for all
 * directories, the last ones are not traced; -ENOSPC (changed too often) or -ENOMEM: the old one
 * stays.  Thread: init, or pfw_start() under session's lock.
 */
int pfw_path_filter_init(const struct pfw_config *config,
			 const struct pfw_path_filter_python *python);

/* Whether an absolute path (`bytes` long, no NUL needed) is traced.  Counts exclusions by reason.
 * Thread: app.  Signal: safe. */
bool pfw_path_filter_path(const char *path, size_t bytes);

/* Whether a stat of this path is excluded: each import of a Python looks at its start directory, a
 * hundred times for pandas.  Counted.  Thread: app.  Signal: safe. */
bool pfw_path_filter_looks(const char *path, size_t bytes);

/* Whether descriptors without a path (pipes, sockets, epolls) are traced.  PFW_EXCLUDE has no say:
 * it is about paths. */
bool pfw_path_filter_nameless(void);

/* Count exclusions in this array of PFW_EXCLUDED_REASONS (common/format/spool.h).  Thread: any. */
void pfw_path_filter_count_into(_Atomic uint64_t *counters);

/* Set here the bit of each glob of PFW_EXCLUDE that matches a path.  Thread: any. */
void pfw_path_filter_mark_into(_Atomic uint64_t *marks);

/* Set the trace's own path, which is never traced.  Thread: any. */
void pfw_path_filter_set_trace(const char *path);
