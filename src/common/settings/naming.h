/* common/settings/naming.h - which run a process belongs to, and what its file is called.
 *
 * Pure: it opens no file.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "common/settings/rank.h"

#define PFW_NAME_MAX 256  /* one path component with its NUL */
#define PFW_PATH_MAX 4096 /* a whole path with its NUL */

/*
 * The name of the run: PFW_RUN, else SLURM's job, step and restart count, else torchelastic's run
 * id and restart count, else the job id of PALS, Flux or LSF, else PMIx's namespace, else
 * `fallback` (host, and pid and start time of the root or session leader).  Characters outside
 * [A-Za-z0-9._:@-] become '_'.  Thread: init.  Signal: safe.
 */
void pfw_run_find(char *run, size_t size, const struct pfw_config *config, char *const *environ,
		  const char *fallback);

/* Input of pfw_name_build(). */
struct pfw_name {
	const char *base; /* of DFTRACER_LOG_FILE, pfw_start() or -o; may have %-words, suffix */
	const char *cwd;  /* base is relative to this */
	const char *host;
	const char *job;      /* %j: the job id; NULL expands to "nojob" */
	char *const *environ; /* for %q{VAR} */
	const struct pfw_rank *rank;
	pid_t pid;
	bool child;	  /* a traced ancestor has the same rank: adds -pidNNN */
	bool compression; /* if base has no suffix */
};

/*
 * Write the absolute path of the trace to out (PFW_PATH_MAX bytes).  Words expand: %p pid, %h host,
 * %r rank, %j job, %q{VAR} (empty if unset), %%.  A directory gets the name "trace".  The suffix is
 * that of base, else by `compression` .pfw or .pfw.gz; before it come -rankNNNN (4 digits or more),
 * -pidNNN or -launcher-HOST-pidNNN.  *compressed follows from the suffix.  Return 0, -ENAMETOOLONG,
 * or -EINVAL for an empty base or a bad %-word (then out holds the word).
 * Thread: init, drain.  Signal: safe.
 */
int pfw_name_build(char *out, const struct pfw_name *name, bool *compressed);

/*
 * The n-th alternative of a used name, n >= 2: "t-rank0003.pfw.gz" -> "t-rank0003.2.pfw.gz".
 * Return 0 or -ENAMETOOLONG.  Thread: any.  Signal: safe.
 */
int pfw_name_numbered(char *out, const char *path, unsigned n);

/* The n-th dump of a flight recorder, n >= 1: "t-rank0003.pfw.gz" -> "t-rank0003-dump1.pfw.gz".
 * As above. */
int pfw_name_dump(char *out, const char *path, unsigned n);
