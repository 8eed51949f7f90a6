/* tools/run/run.h - the parts of `pfw run`.
 *
 * Room tools/run: `pfw run`.  It may use tools/ui, tools/share and the store.  Start with run.c,
 * then name.c, env.c, launch.c, report.c, repair.c.
 */
#pragma once

#include <limits.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <time.h>

#include "common/settings/naming.h"

struct run {
	const char *output, *data_dir;
	bool quiet, no_io, no_gpu, all, gzip;
	bool python;	  /* each Python that starts must run our _site */
	char **words;	  /* the program and its arguments */
	char **completed; /* words with a Python in front, to be freed; else NULL */
	int count;
	struct pfw_rank rank;
	bool many;   /* one of several ranks */
	bool inside; /* inside an outer `pfw run` */
	char id[128];
	char name[NAME_MAX];  /* the trace's default name */
	char cwd[PATH_MAX];   /* "" if it was removed */
	char base[PATH_MAX];  /* value of DFTRACER_LOG_FILE: absolute, with the given suffix */
	char found[PATH_MAX]; /* base of the traces on disk; or their directory, ending in '/' */
	char glob[PATH_MAX];  /* of the traces, without suffix, if the base has %-words; else "" */
	char links[PATH_MAX]; /* directory of our symlinks, or "" */
};

/*
 * Complete the words (train.py and -m pkg get a Python), find rank, run and name, and choose the
 * base of the traces. run->words, count and output are set.  Return 0, or -errno after a message.
 * Sets DFTRACER_ENABLE.
 */
int run_name(struct run *run);

/* Set the recorder's variables and LD_PRELOAD.  Return 0, or -errno after a message. */
int run_environment(struct run *run);

/* Remove the symbolic links that run_environment() made. */
void run_remove_links(const struct run *run);

/* Whether words[0] is a launcher that does not pass our environment on (srun, docker, ...); if so,
 * print the command line to use instead. */
bool run_refuse(int count, char *const *words);

/*
 * Run argv with this process's environment and wait for its end.  Signals sent to this process
 * alone are forwarded.  Signals of the terminal reach the child anyway, since it stays in our
 * process group.  When the child stops, this process stops.  Return 0 with *status as from wait(),
 * or the -errno of fork or exec.
 */
int run_launch(char *const *argv, int *status);

/* Finish the traces of this user's killed processes of other runs on this host, and say so.  Takes
 * 10 s at most. */
void run_repair(const struct run *run);

/* Adopt the spools of the run's killed processes, then print the summary to standard error. */
void run_report(const struct run *run, int status, int64_t wall_ns);

static inline int64_t run_now_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (int64_t)ts.tv_sec * 1000000000 + ts.tv_nsec;
}
