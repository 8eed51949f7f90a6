/* read/internal.h - shared by read.c (what a program calls) and stream.c (one stream). */
#ifndef PFW_READ_INTERNAL_H
#define PFW_READ_INTERNAL_H

#include <stdatomic.h>

#include "pfw/read.h"
#include "store/select/select.h"

#define PFW_READ_PROBLEMS_KEPT 100u
#define PFW_READ_JOBS_MOST 64u

/* A condition as it was given. */
struct pfw_read_condition {
	enum pfw_select_option option;
	char *value;
};

/* What is to be read, and what was found out.  Streams read the former anew, and hold it. */
struct pfw_read {
	atomic_uint users; /* the program, and each stream */
	char **path;
	size_t paths;
	struct pfw_read_condition *condition;
	size_t conditions;
	char *columns; /* NULL: all */
	bool meta, all_runs;
	unsigned jobs;
	uint64_t problems;
	char *problem[PFW_READ_PROBLEMS_KEPT];
	char error[1200];
};

/* Drop a reference; NULL: nothing. */
void pfw_read_drop(struct pfw_read *read);

/* Count a problem and, of the first, keep its text.  Thread: one at a time, as all here. */
__attribute__((format(printf, 3, 4))) void
pfw_read_add_problem(struct pfw_read *read, uint64_t more, const char *format, ...);

/* Keep the text of an error, and return it: what `format` says, or if that is NULL what `error` is. */
__attribute__((format(printf, 3, 4))) int pfw_read_fail(struct pfw_read *read, int error,
							const char *format, ...);

#endif
