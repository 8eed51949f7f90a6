/* summary_lines.h - the tracer's own lines in a summary. */
#ifndef PFW_SUMMARY_LINES_H
#define PFW_SUMMARY_LINES_H

#include "call.h"
#include "summary.h"

/* The role (see call.h) of PFW_SUMMARY_STEPS, under which all steps of cat "PP" are counted. */
#define PFW_SUMMARY_STEP 100u

/* Whether a name is ProfilerStep#N, and its number. */
bool pfw_summary_is_step(const char *name, size_t bytes, uint64_t *number);

/* Add what a line of cat "pfw" and ph M tells, beyond that it is there; `thread`: its row.  Return 0
 * or -ENOMEM.  Thread: as pfw_summary_add(). */
int pfw_summary_own_line(struct pfw_summary *summary, const struct pfw_entry *entry,
			 uint32_t thread);

/* The same of a span whose name is that of a step. */
int pfw_summary_step_line(struct pfw_summary *summary, const struct pfw_entry *entry);

/* Add so many calls of one kind on a file, which took and moved that much together. */
void pfw_summary_add_calls(struct pfw_summary_file *file, struct pfw_call call, uint64_t count,
			   uint64_t ns, uint64_t bytes);

/* What lines of that cat and name do.  Thread: any. */
struct pfw_call pfw_summary_call(const char *cat, size_t cat_bytes, const char *name,
				 size_t name_bytes);

#endif
