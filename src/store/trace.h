/* trace.h - what the first and the last line of a trace say of it, without reading the rest. */
#ifndef PFW_TRACE_H
#define PFW_TRACE_H

#include <stdbool.h>
#include <stdint.h>

struct pfw_trace {
	uint64_t bytes; /* of the file */
	bool ours;	/* begins with a `process` line; all below are from it */
	char run[128];
	char host[72];
	uint64_t pid;
	int64_t rank; /* -1: none */
	uint64_t world_size;
	int64_t start_ns;
	uint64_t first_id; /* of that line: more than 1 where the trace was begun in another file */
	bool ended;	   /* its last line is an `end`; all below are from it */
	char reason[16];
	uint64_t events;
	uint64_t lost;
	uint64_t excluded; /* calls, by the `excluded` before it */
	int64_t end_ns;
};

struct pfw_entry;

/* Fill *trace, which is zero but for `bytes`, from a `process` line.  Thread: any. */
void pfw_trace_take_process(struct pfw_trace *trace, const struct pfw_entry *entry);

/* Fill *trace from the first line.  Return 0 (also where it is not ours) or why the file cannot be
 * read, -errno.  Thread: any. */
int pfw_trace_head(struct pfw_trace *trace, const char *path);

/* The same, and the `end` from the last lines. */
int pfw_trace_read(struct pfw_trace *trace, const char *path);

/*
 * Remove a trace of no bytes, that nobody has locked and that has been so for a second: its process was
 * gone between making it, behind its end, and writing to it.  Waits for that second.  True where it is
 * gone.  Nobody may have a spool for it.  Thread: any.
 */
bool pfw_trace_remove_empty(const char *path);

#endif
