/* summary_lines.h - the tracer's own lines in a summary. */
#ifndef PFW_SUMMARY_LINES_H
#define PFW_SUMMARY_LINES_H

#include "summary.h"

/* Add what a line of cat "pfw" and ph M tells, beyond that it is there; `thread`: its row.  Return 0
 * or -ENOMEM.  Thread: as pfw_summary_add(). */
int pfw_summary_own_line(struct pfw_summary *summary, const struct pfw_entry *entry,
			 uint32_t thread);

/* The same for a span whose name may be that of a step. */
int pfw_summary_step_line(struct pfw_summary *summary, const struct pfw_entry *entry);

/* Whether a name is a step's: ProfilerStep#N. */
bool pfw_summary_is_step(const char *name, size_t bytes, uint64_t *number);

#endif
