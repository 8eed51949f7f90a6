/* store/traces/ends.h - facts about a trace from its first and last line only. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct pfw_trace {
	uint64_t bytes; /* of the file */
	bool ours;	/* begins with a `process` line, which gives the members below */
	char run[128];
	char host[72];
	char boot[40]; /* the kernel's boot id */
	bool imported; /* by `pfw import`: its lines stand in the order in which spans begin */
	bool stacks;   /* calls have args.stack: PFW_STACK was set */
	bool named;    /* its rank is that of its name: see below */
	uint64_t pid;
	int64_t rank; /* -1: none */
	uint64_t world_size;
	int64_t start_ns;
	uint64_t first_id; /* its id: above 1 if the trace was begun in another file */
	bool ended;	   /* the last line is an `end`, which gives the members below */
	char reason[16];
	uint64_t events;
	uint64_t lost;
	uint64_t excluded; /* calls, from the `excluded` line before it */
	uint64_t untraced; /* children that were not traced */
	int64_t end_ns;
};

struct pfw_entry;

/* The rank in the name of a trace (t-rank0003.pfw, t-rank0003-pid7.2.pfw.gz), -1: none.  A program that says
 * its rank after it has begun has it there, and in a line `rank`, which may be anywhere. */
int64_t pfw_trace_rank_of_name(const char *path);

/* Fill *trace, which is zero except `bytes`, from a `process` line.  Thread: any. */
void pfw_trace_take_process(struct pfw_trace *trace, const struct pfw_entry *entry);

/* Fill *trace from the first line.  Return 0 (also if it is not ours); -EDOM: DFTracer's times are
 * not µs there; or -errno if the file cannot be read.  Thread: any. */
int pfw_trace_head(struct pfw_trace *trace, const char *path);

/* Which of `count` (at least 1) traces, `stride` bytes apart, is of the newest run: of the process
 * that began last.  If that is of a Slurm job's script, of the job's newest step, since a script
 * goes on after its steps. */
size_t pfw_trace_newest(const struct pfw_trace *first, size_t stride, size_t count);

/* The same as pfw_trace_head(), and the `end` from the last lines. */
int pfw_trace_read(struct pfw_trace *trace, const char *path);

/* Remove an empty trace that is unlocked and a second old: its process died between creating and
 * writing it.  Waits for that second.  Return whether it is removed.  It must have no spool.
 * Thread: any. */
bool pfw_trace_remove_empty(const char *path);
