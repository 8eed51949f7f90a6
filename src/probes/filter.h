/* filter.h - which paths are traced: DFTRACER_DATA_DIR, or the default exclusions; PFW_EXCLUDE. */
#ifndef PFW_FILTER_H
#define PFW_FILTER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct pfw_config;

/* What tells where a Python, if this process is one, has its own files.  NULL = unknown. */
struct pfw_filter_python {
	const char *exe;    /* the process's executable, absolute */
	const char *called; /* as it was started: in a virtual environment, a link to exe */
	const char *venv;   /* VIRTUAL_ENV's value */
	const char *cwd;    /* where it was started */
};

/*
 * Set the filter up from config->data_dir and exclude, and the files of a Python itself.  Other
 * threads may be asking it meanwhile: each question is answered by the old one or by the new one.
 * 0; -E2BIG: there was no room for all of it, and the last directories are not traced; -ENOSPC: it
 * has been another too often, or -ENOMEM: the one before stays.
 * Thread: init, or pfw_start() under session's lock.
 */
int pfw_filter_init(const struct pfw_config *config, const struct pfw_filter_python *python);

/*
 * Whether an absolute path (`bytes` long, no NUL needed) is traced.  What is left out is counted by
 * reason, see pfw_filter_excluded.  Thread: app.  Signal: safe.
 */
bool pfw_filter_path(const char *path, size_t bytes);

/*
 * Whether a stat of this path is left out: each import of a Python looks at the directory it was
 * started in, a hundred times for pandas.  Counted.  Thread: app.  Signal: safe.
 */
bool pfw_filter_looks(const char *path, size_t bytes);

/* Whether descriptors without a path (pipes, sockets, memfd) are traced. */
bool pfw_filter_nameless(void);

/* Where exclusions are counted, an array of PFW_EXCLUDED_REASONS (spool.h).  Thread: any. */
void pfw_filter_count_into(_Atomic uint64_t *counters);

/* The trace's own path: never traced.  Thread: any. */
void pfw_filter_set_trace(const char *path);

#endif
