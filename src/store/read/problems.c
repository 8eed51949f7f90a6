/* store/read/problems.c - a list of the problems of a block; see problems.h. */
#include "store/read/problems.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

void pfw_problems_vadd(struct pfw_problems *problems, uint64_t line, uint64_t at,
		       const char *format, va_list args)
{
	struct pfw_scan_problem *problem;

	if (problems->count == PFW_PROBLEMS_MAX) {
		problems->problem[PFW_PROBLEMS_MAX - 1].more++;
		return;
	}
	if (!problems->problem)
		problems->problem = malloc(PFW_PROBLEMS_MAX * sizeof(*problems->problem));
	if (!problems->problem)
		return;
	problem = &problems->problem[problems->count++];
	problem->line = line;
	problem->at = at;
	problem->more = 0;
	vsnprintf(problem->text, sizeof(problem->text), format, args);
}

void pfw_problems_add(struct pfw_problems *problems, uint64_t line, uint64_t at, const char *format,
		      ...)
{
	va_list args;

	va_start(args, format);
	pfw_problems_vadd(problems, line, at, format, args);
	va_end(args);
}

void pfw_problems_add_long(struct pfw_problems *problems, uint64_t line, uint64_t at,
			   uint64_t bytes)
{
	pfw_problems_add(problems, line, at,
			 "a line of %" PRIu64
			 " bytes: more than the %u that a line may have; left out",
			 bytes, PFW_SCAN_LINE_MAX);
}

void pfw_problems_free(struct pfw_problems *problems)
{
	free(problems->problem);
	*problems = (struct pfw_problems){ 0 };
}
