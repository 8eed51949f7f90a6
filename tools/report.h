/* report.h - what `pfw run` says when its program has ended. */
#ifndef PFW_REPORT_H
#define PFW_REPORT_H

#include <stdbool.h>
#include <stdint.h>

/* One run, as its end finds it. */
struct report {
	const char *run;     /* PFW_RUN */
	const char *base;    /* absolute, without suffix; or a directory, ending in '/' */
	const char *shown;   /* the same as the user would write it */
	const char *cwd;     /* where it ran */
	const char *program; /* argv[0] of what ran */
	int64_t rank;	     /* of this process, -1: none */
	bool quiet;
	bool no_io; /* --no-io */
	bool all;   /* everything was to be traced */
	int status; /* of wait() */
	int64_t wall_ns;
};

/* Adopt the spools of the run's killed processes, then say what was recorded, on standard error. */
void report_run(const struct report *report);

#endif
