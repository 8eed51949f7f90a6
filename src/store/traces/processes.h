/* store/traces/processes.h - the processes that wrote the lines of a file.
 *
 * A process is (host, boot, pid, start), never a pid: a program that execs keeps its pid, and the
 * kernel gives a pid again after its process has ended.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "store/line/entry.h"
#include "store/traces/ends.h"

struct pfw_trace_file;
struct pfw_traces;

/* A process of a file. */
struct pfw_traced_process {
	uint64_t pid;
	int64_t start_ns;
	uint64_t number; /* the same in all traces that were opened together, by start, rank, pid */
	size_t part;	 /* its rank's, see ranks.h */
};

/* Shared by the parts of one file. */
struct pfw_processes {
	struct pfw_traced_process *process; /* by pid, then start */
	struct pfw_trace *head;		    /* the `process` line of each */
	size_t count;
	bool compacted; /* its lines are sorted, after all `process` lines */
	bool too_many;	/* the file claims to have more, which are not known */
	size_t users;	/* files of the traces that refer to it */
};

/* How many processes a file or partial of that size may have: no `process` line of a real program
 * takes fewer than 16 bytes, compressed. */
static inline uint64_t pfw_processes_most(uint64_t bytes)
{
	return 64 + bytes / 16;
}

/* Read the `process` lines of a file whose head is known: file->processes, which may be NULL.  A
 * file that cannot be read has no processes.  0 or -ENOMEM.  Thread: any, as all here. */
int pfw_processes_read(struct pfw_trace_file *file);

/* The processes of these `process` lines, which it takes.  NULL: no memory, and they are freed. */
struct pfw_processes *pfw_processes_of(struct pfw_trace *head, size_t count);

/* Make the processes of lines that are written from files: all of those.  NULL: no memory. */
struct pfw_processes *pfw_processes_join(const struct pfw_trace_file *const *file, size_t count);

/* Drop the reference of one file; NULL: nothing. */
void pfw_processes_free(struct pfw_processes *processes);

/* Give each process its number, after the processes of all files are read.  0 or -ENOMEM. */
int pfw_processes_number(struct pfw_traces *traces);

/* Close the files whose processes others have, too: see struct pfw_traces_double.  0 or -ENOMEM. */
int pfw_processes_drop_doubles(struct pfw_traces *traces);

/* The process of that pid that began last before ts_ns, else the first; NULL: there is none. */
const struct pfw_traced_process *pfw_processes_find(const struct pfw_processes *processes,
						    uint64_t pid, int64_t ts_ns);

/* The head of the process of those files, and of their rank, that began first, and its number;
 * NULL: no file has a `process` line. */
const struct pfw_trace *pfw_processes_first(const struct pfw_traces *traces, const size_t *file,
					    size_t count, uint64_t *number);

/* The last one found, since lines of one process mostly come in sequence.  All zero: none. */
struct pfw_processes_recent {
	uint64_t pid, process;
	int64_t since_ns, until_ns; /* the pid is its own in this time */
	bool imported;
};

/* Make the process of a line the recent one. */
void pfw_processes_look(const struct pfw_processes *processes, size_t file,
			const struct pfw_entry *entry, struct pfw_processes_recent *recent);

/* Set entry->process and at_begin.  The first identifies the process of a line of `file` among the
 * processes of all traces: its number, or a number made of file and pid if there is no `process`
 * line.  `processes` may be NULL.  Inline: this runs for every line. */
static inline void pfw_processes_set(const struct pfw_processes *processes, size_t file,
				     struct pfw_entry *entry, struct pfw_processes_recent *recent)
{
	if (recent->pid != entry->pid || entry->ts_ns < recent->since_ns ||
	    entry->ts_ns >= recent->until_ns)
		pfw_processes_look(processes, file, entry, recent);
	entry->process = recent->process;
	entry->at_begin = recent->imported;
}

/* Orders lines of equal times in all traces that are opened together: their process, or the pid of
 * those without one. */
static inline uint64_t pfw_processes_order(const struct pfw_entry *entry)
{
	return entry->process >> 63 ? entry->pid : entry->process;
}
