/* ranks.h - a compacted file of several ranks (`pfw compact --split-by none`), taken apart by whose its
 * processes are.
 *
 * Such a file is among the traces once for each rank, in order of rank as files of their own would be.
 * One of these, the whole, has its blocks; a line is that of the rank whose `process` line names its pid
 * and was last before it.
 */
#ifndef PFW_RANKS_H
#define PFW_RANKS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct pfw_entry;
struct pfw_traces;

/* A process of such a file. */
struct pfw_ranks_process {
	uint64_t pid;
	int64_t start_ns;
	size_t part;
};

/* What the parts of one file share. */
struct pfw_ranks {
	size_t *file; /* where in traces each part is, by rank; the first one is the whole */
	size_t count; /* at least 2 */
	struct pfw_ranks_process *process; /* by pid, then start */
	size_t processes;
	size_t numbered; /* of file[], filled in */
	size_t users;	 /* files of traces that have it */
};

/*
 * Take the files apart that hold several ranks; the blocks of the others may not be laid out yet.  One
 * in which nobody can tell lines apart (two hosts have processes of the same pid) stays one, which is
 * told to say(user, path, why).  Before anything numbers the traces.  0, or -ENOMEM: the traces are to
 * be closed.  Thread: any, as all here.
 */
int pfw_ranks_part(struct pfw_traces *traces,
		   void (*say)(void *user, const char *path, const char *why), void *user);
/* One of the parts is done with; NULL: nothing. */
void pfw_ranks_free(struct pfw_ranks *ranks);

/* The part that a line is of: 0 where no `process` line names its pid. */
size_t pfw_ranks_of(const struct pfw_ranks *ranks, const struct pfw_entry *entry);

/* The number in traces of what a line of `file` is of: itself, where that is not several. */
size_t pfw_ranks_file(const struct pfw_traces *traces, size_t file, const struct pfw_entry *entry);

/* Where a file stands among those that are read one after the other. */
size_t pfw_ranks_whole(const struct pfw_traces *traces, size_t file);

#endif
