/* problems.h - what a block had wrong with it, kept until its turn to be told comes. */
#ifndef PFW_PROBLEMS_H
#define PFW_PROBLEMS_H

#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include "scan.h"

/* Of one block.  A file of rubbish must not cost more memory than its text: the rest is counted. */
#define PFW_PROBLEMS_MAX 32u

struct pfw_problems {
	struct pfw_scan_problem *problem;
	size_t count;
};

/* Add one with its place (see struct pfw_scan_problem); where there is no room it is counted in the
 * last one's `more`.  Thread: one at a time. */
__attribute__((format(printf, 4, 0))) void pfw_problems_vadd(struct pfw_problems *problems,
							     uint64_t line, uint64_t at,
							     const char *format, va_list args);
__attribute__((format(printf, 4, 5))) void pfw_problems_add(struct pfw_problems *problems,
							    uint64_t line, uint64_t at,
							    const char *format, ...);

/* A line of `bytes` bytes, more than any may have. */
void pfw_problems_add_long(struct pfw_problems *problems, uint64_t line, uint64_t at,
			   uint64_t bytes);

void pfw_problems_free(struct pfw_problems *problems);

#endif
