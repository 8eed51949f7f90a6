/* run.h - what the parts of `pfw run` share: run_name.c, run_env.c and run.c. */
#ifndef PFW_RUN_H
#define PFW_RUN_H

#include <limits.h>
#include <stdbool.h>
#include <string.h>

#include "naming.h"

struct run {
	const char *output, *data_dir;
	bool quiet, no_io, no_gpu, all, gzip;
	bool python;	  /* something is to be done in each Python that starts */
	char **words;	  /* the program and its arguments */
	char **completed; /* the same, for free(), where a Python was put in front; else NULL */
	int count;
	struct pfw_rank rank;
	bool inside; /* of an outer `pfw run` */
	char id[128];
	char name[NAME_MAX]; /* what the trace is named after */
	char cwd[PATH_MAX];
	char base[PATH_MAX];  /* for DFTRACER_LOG_FILE: absolute, with the suffix that was given */
	char found[PATH_MAX]; /* where the traces will be: see struct report */
	char links[PATH_MAX]; /* directory of our symlinks, or "" */
};

/*
 * Complete the words (train.py and -m pkg get a Python), find rank, run and name, and choose where
 * the traces go.  run->words, count and output are set.  Return 0, or a -errno after saying why.
 * Sets DFTRACER_ENABLE.
 */
int run_name(struct run *run);

/* Set the variables of the recorder and LD_PRELOAD.  Return 0, or a -errno after saying why. */
int run_environment(struct run *run);

/* Remove what run_environment() made. */
void run_remove_links(const struct run *run);

static inline const char *run_base_name(const char *path)
{
	const char *slash = strrchr(path, '/');

	return slash ? slash + 1 : path;
}

#endif
