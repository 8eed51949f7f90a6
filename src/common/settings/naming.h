/* common/settings/naming.h - which run a process belongs to, and what its file is called.
 *
 * Pure: it opens no file.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct pfw_config;

#define PFW_NAME_MAX 256  /* one path component with its NUL */
#define PFW_PATH_MAX 4096 /* a whole path with its NUL */
#define PFW_BASE_MAX 1024 /* a base name, absolute, with its NUL */

/* The name of the run: PFW_RUN, else SLURM's job, step and restart count, else torchelastic's run
 * id and restart count, else the job id of PALS, Flux or LSF, else PMIx's namespace, else
 * `fallback` (host, and pid and start time of the root or session leader).  Characters outside
 * [A-Za-z0-9._:@-] become '_'.  Thread: init.  Signal: safe. */
void pfw_run_find(char *run, size_t size, const struct pfw_config *config, char *const *environ,
		  const char *fallback);

struct pfw_text;

/* Append a path, of a directory or a program, to a base, in which '%' begins a word.  Signal: safe. */
void pfw_name_add_path(struct pfw_text *base, const char *path);

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

/* Write the absolute path of the trace to out (PFW_PATH_MAX bytes).  Words expand: %p pid, %h host,
 * %r rank, %j job, %q{VAR} (empty if unset), %%.  A directory gets the name "trace".  The suffix is
 * that of base, else by `compression` .pfw or .pfw.gz; before it come -rankNNNN (4 digits or more),
 * -pidNNN or -launcher-HOST-pidNNN.  *compressed follows from the suffix.  Return 0, -ENAMETOOLONG,
 * or -EINVAL for an empty base or a bad %-word (then out holds the word).
 * Thread: init, drain.  Signal: safe. */
int pfw_name_build(char *out, const struct pfw_name *name, bool *compressed);

/* Whether a base without a suffix names a directory: "out/", ".", "..".  Thread: any.  Signal: safe. */
bool pfw_name_is_directory(const char *base);

/* Append "trace" to such a base.  Thread: any.  Signal: safe. */
void pfw_name_complete(struct pfw_text *out);

/* The n-th alternative of a used name, n >= 2: "t-rank0003.pfw.gz" -> "t-rank0003.2.pfw.gz".
 * Return 0 or -ENAMETOOLONG.  Thread: any.  Signal: safe. */
int pfw_name_numbered(char *out, const char *path, unsigned n);

/* The n-th dump, n >= 1: "t-rank0003.pfw.gz" -> "t-rank0003-dump1.pfw.gz".  As above. */
int pfw_name_dump(char *out, const char *path, unsigned n);

/* The place of a process in its world. */
struct pfw_rank {
	int32_t rank;	    /* -1: no world */
	int32_t world_size; /* 1: no world; 0: unknown size */
	int32_t local_rank; /* -1: unknown */
	bool launcher;	    /* torchrun, mpirun, srun, ...: has a trace name of its own */
	bool recorded;	    /* false: PFW_RANKS excludes this rank */
	char source[32];    /* the variable that gave the rank, "pfw_set_rank", or "none" */
};

/* Find the rank: PFW_RANK, else the variable PFW_RANK_VAR (both in config), else the variables of
 * launchers in the order of naming.c.  argc/argv (from /proc/self/cmdline) distinguish launchers
 * from ranks: a torchrun agent under srun has SLURM_PROCID but is no rank.  Without a rank the
 * result is rank -1, world_size 1.  Thread: init.  Signal: safe (no malloc, no stdio). */
void pfw_rank_find(struct pfw_rank *rank, const struct pfw_config *config, char *const *environ,
		   int argc, char *const *argv);
