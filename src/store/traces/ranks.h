/* store/traces/ranks.h - splits a compacted file of several ranks (`pfw compact --split-by none`).
 *
 * The file is then among the traces once for each rank, in the order of files of one rank.  One of
 * these entries, the whole, has the blocks.  A line belongs to the rank of its process, which is
 * the last `process` line of its pid before it.
 */
#pragma once

#include <stddef.h>

struct pfw_entry;
struct pfw_traces;

/* Reports a file that is left out or not split. */
typedef void pfw_traces_say(void *user, const char *path, const char *why);

/* Shared by the parts of one file. */
struct pfw_ranks {
	size_t *file; /* the index in traces of each part, by rank; the first is the whole */
	size_t count; /* at least 2 */
	const struct pfw_processes *processes; /* of the file, each with its part */
	size_t numbered;		       /* number of entries of file[] that are set */
	size_t users;			       /* parts that refer to it */
};

/* Split the files that hold several ranks; the others need not be laid out yet.  A file whose
 * lines are ambiguous (two hosts have processes of the same pid) stays one, and say(user, path,
 * why) is called.  Must precede all use of indexes in traces.  0, or -ENOMEM: close the traces
 * then.  Thread: any, as all here. */
int pfw_ranks_part(struct pfw_traces *traces, pfw_traces_say *say, void *user);
/* Drop the reference of one part; NULL: nothing. */
void pfw_ranks_free(struct pfw_ranks *ranks);

/* The part that a line belongs to; 0 if no `process` line has its pid. */
size_t pfw_ranks_of(const struct pfw_ranks *ranks, const struct pfw_entry *entry);

/* The index in traces of the trace that a line of `file` belongs to; `file` if it is not split. */
size_t pfw_ranks_file(const struct pfw_traces *traces, size_t file, const struct pfw_entry *entry);

/* The index of the whole that `file` is a part of, or `file`. */
size_t pfw_ranks_whole(const struct pfw_traces *traces, size_t file);
