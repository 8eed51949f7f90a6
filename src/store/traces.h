/* traces.h - the traces that a command was given: their files, whose they are, which run.
 */
#ifndef PFW_TRACES_H
#define PFW_TRACES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "blocks.h"
#include "trace.h"

struct pfw_ranks;

struct pfw_trace_file {
	char *path;
	struct pfw_trace head; /* of its first line; not of its `end` */
	struct pfw_blocks blocks;
	/* When it was laid out; 0 for standard input. */
	uint64_t device, inode;
	int64_t changed_ns;
	/* One rank of a file that holds several: see ranks.h; else NULL. */
	struct pfw_ranks *ranks;
};

struct pfw_traces {
	struct pfw_trace_file *file;
	size_t count;
	size_t left_out; /* files of older runs */
	bool ranks;	 /* more than one rank is among them */
};

/*
 * The traces that `arguments` stand for (see paths.h; none: the newest run here), laid out and in
 * order of rank (none first), then path, each once.  Files of a directory or base name that belong to older runs are left
 * out unless all_runs; those that name no run (another tool's) stay.  What cannot be opened is handed to say(user, path, error) and left out.
 * Return 0; -ENOENT after saying where nothing is left; -ENOMEM.  Thread: any.
 */
int pfw_traces_open(struct pfw_traces *traces, char *const *arguments, size_t count, bool all_runs,
		    void (*say)(void *user, const char *path, const char *why), void *user);

/* The same, and take files of several ranks apart: see pfw_ranks_part().  Thread: any. */
int pfw_traces_open_ranks(struct pfw_traces *traces, char *const *arguments, size_t count,
			  bool all_runs, void (*say)(void *user, const char *path, const char *why),
			  void *user);

/* The same as the first, but lay out nothing: an index may be all that is read of them.  Their `blocks` are empty
 * until pfw_traces_lay_out() has found them, which returns 0, or -errno after saying of which file it
 * cannot.  Thread: any. */
int pfw_traces_open_heads(struct pfw_traces *traces, char *const *arguments, size_t count,
			  bool all_runs, void (*say)(void *user, const char *path, const char *why),
			  void *user);
int pfw_traces_lay_out(struct pfw_traces *traces,
		       void (*say)(void *user, const char *path, const char *why), void *user);

/* Put them in order again, and see anew whether there are several ranks. */
void pfw_traces_sort(struct pfw_traces *traces);

void pfw_traces_close(struct pfw_traces *traces);

#endif
