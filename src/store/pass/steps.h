/* store/pass/steps.h - the times of the steps of all processes, to find the step of an event.
 *
 * An event is in the step that its line says (args.step).  If the line says none, it is in the step
 * that its process was in when it began; a process without steps, such as a worker of a DataLoader,
 * follows the one process of its rank that has steps.
 */
#pragma once

#include "store/line/entry.h"
#include "store/pass/times.h"
#include "store/traces/traces.h"

struct pfw_steps; /* opaque: see steps.c */

/* Find the steps, which may stand after lines that are in them.  Pipes are not read, and damage is
 * ignored, as in pfw_extent_find().  Return 0, -ENOMEM, -EINTR.  Thread: any, as all here. */
int pfw_steps_read(struct pfw_steps **out, const struct pfw_traces *traces,
		   const struct pfw_extent_options *options);
void pfw_steps_free(struct pfw_steps *steps);

/* The span of a step. */
struct pfw_step {
	size_t file;
	uint64_t process, pid, number; /* process: as of struct pfw_entry */
	int64_t start_ns, end_ns;
};

/* Whether a line is the span of a step: then *step gets all but its file. */
bool pfw_step_of(struct pfw_step *step, const struct pfw_entry *entry);

/* Make the steps of one file, number 0, from these.  0 or -ENOMEM. */
int pfw_steps_make(struct pfw_steps **out, const struct pfw_step *step, size_t count);

/* How many processes of the file's rank have steps; 2: several. */
unsigned pfw_steps_leaders(const struct pfw_steps *steps, size_t file);

/* The step that a process was in at some time. */
struct pfw_in_step {
	bool in;  /* it was in step `number` */
	bool own; /* the process has steps itself */
	uint64_t number;
	int64_t begin_ns, end_ns; /* the same holds from begin_ns up to, but not at, end_ns */
};

struct pfw_in_step pfw_steps_at(const struct pfw_steps *steps, size_t file, uint64_t process,
				int64_t ts_ns);

/* The step of an event; `steps` may be NULL.  False: it is in none. */
bool pfw_steps_find(const struct pfw_steps *steps, size_t file, const struct pfw_entry *entry,
		    uint64_t *number);

/* The duration of a step in the process in which it took longest, of this rank and process (-1:
 * any).  *processes: how many processes have the step. 0: none. */
int64_t pfw_steps_ns(const struct pfw_steps *steps, const struct pfw_traces *traces,
		     uint64_t number, int64_t rank, int64_t pid, uint64_t *processes);
