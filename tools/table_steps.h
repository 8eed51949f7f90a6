/* table_steps.h - when each step of each process was: for lines that do not say their step, and speeds. */
#ifndef TABLE_STEPS_H
#define TABLE_STEPS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct pfw_entry;
struct pfw_traces;

struct table_step {
	size_t file;
	uint64_t pid, number;
	int64_t start_ns, end_ns;
	char text[24]; /* of the number */
};

/* All zero: none. */
struct table_steps {
	struct table_step *step;
	size_t count, room;
};

/* Add the step that a line is; a line that is none is passed over.  0 or -ENOMEM.  Thread: one at a time
 * for one of these, as all here. */
int table_steps_take(struct table_steps *steps, size_t file, const struct pfw_entry *entry);

/* Append those of a block. */
int table_steps_join(struct table_steps *steps, const struct table_steps *more);

/* No more are added: from now on they can be looked up, by any thread. */
void table_steps_sort(struct table_steps *steps);

/* The step of its process that was under way then, or NULL. */
const struct table_step *table_steps_find(const struct table_steps *steps, size_t file,
					  uint64_t pid, int64_t ts_ns);

/* How long steps of that number took, of ranks and processes that are asked for (-1: all): all of one
 * process together, of the process that took longest; *processes gets how many there are.  0: none. */
int64_t table_steps_ns(const struct table_steps *steps, const struct pfw_traces *traces,
		       uint64_t number, int64_t rank, int64_t pid, uint64_t *processes);

void table_steps_release(struct table_steps *steps);

#endif
