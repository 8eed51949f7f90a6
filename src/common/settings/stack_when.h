/* common/settings/stack_when.h - which calls have their stacks taken: PFW_STACK. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

/* Both 0: none.  One of them is. */
struct pfw_stack_when {
	uint64_t min_ns; /* calls of so long */
	uint64_t every;	 /* each so many recorded calls of a thread */
};

/* Read "min:1ms" or "every:1000".  False: it is neither, and *out is as before.  Thread: any.
 * Signal: safe. */
bool pfw_stack_when_parse(struct pfw_stack_when *out, const char *text);
