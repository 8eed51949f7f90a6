/* store/read/problems.h - the problems of a block, kept until they are reported in order. */
#pragma once

#include <stdarg.h>

#include "store/read/scan.h"

/*
 * For one block; further ones are only counted, so that garbage takes no more memory than its text.
 */
#define PFW_PROBLEMS_MAX 32u

/* How a problem begins that is of the machine, not of the file. */
#define PFW_PROBLEM_CANNOT "cannot be "

struct pfw_problems {
	struct pfw_scan_problem *problem;
	size_t count;
};

/* Add a problem with its place (see struct pfw_scan_problem), or count it in the last one's `more`
 * if the list is full.  Thread: one at a time. */
__attribute__((format(printf, 4, 0))) void pfw_problems_vadd(struct pfw_problems *problems,
							     uint64_t line, uint64_t at,
							     const char *format, va_list args);
__attribute__((format(printf, 4, 5))) void pfw_problems_add(struct pfw_problems *problems,
							    uint64_t line, uint64_t at,
							    const char *format, ...);

/* A line of `bytes` bytes is too long. */
void pfw_problems_add_long(struct pfw_problems *problems, uint64_t line, uint64_t at,
			   uint64_t bytes);

void pfw_problems_free(struct pfw_problems *problems);
