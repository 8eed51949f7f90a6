/* naming.h - which rank this process is, which run it belongs to, and what its file is called.
 *
 * DESIGN section 4 as code.  Pure but for the /proc reads it names; it opens no trace file.
 */
#ifndef PFW_NAMING_H
#define PFW_NAMING_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct pfw_config;

#define PFW_NAME_MAX 256  /* one path component with its NUL */
#define PFW_PATH_MAX 4096 /* a whole path with its NUL */

/* Who this process is among its fellows. */
struct pfw_rank {
	int32_t rank;	    /* -1: no world */
	int32_t world_size; /* 1 where there is no world; 0: a rank of a world of unknown size */
	int32_t local_rank; /* -1: unknown */
	bool launcher;	    /* torchrun, mpirun, srun and their like: records under its own name */
	bool recorded;	    /* false: PFW_RANKS leaves this rank out */
	char source[32];    /* the variable that gave the rank, "pfw_set_rank", or "none" */
};

/*
 * Find the rank from `environ` by DESIGN section 4's order (config gives PFW_RANK, PFW_RANK_VAR and
 * PFW_RANKS).  argc/argv of the process (from /proc/self/cmdline) tell a launcher from a rank: a
 * torchrun agent under srun has SLURM_PROCID but is no rank.  Never fails: nothing found is
 * rank -1, world_size 1.
 * Thread: init.  Signal: safe (no malloc, no stdio).
 */
void pfw_rank_find(struct pfw_rank *rank, const struct pfw_config *config, char *const *environ,
		   int argc, char *const *argv);

/*
 * The run's name, from PFW_RUN, else SLURM's job, step and restart count, else torchelastic's run
 * id and restart count, else PALS/Flux/LSF job ids, else PMIx's namespace, else `fallback` (the
 * caller passes host, and pid and start time of the root or session leader).  Characters outside
 * [A-Za-z0-9._:@-] become '_'.  Thread: init.  Signal: safe.
 */
void pfw_run_find(char *run, size_t size, const struct pfw_config *config, char *const *environ,
		  const char *fallback);

/* What pfw_name_build() needs to know. */
struct pfw_name {
	const char *base; /* DFTRACER_LOG_FILE, pfw_start's or -o's; may have %-words and a suffix */
	const char *cwd;  /* made absolute against this */
	const char *host;
	const char *job;      /* %j: the run's job id, or NULL: expands to "nojob" */
	char *const *environ; /* for %q{VAR} */
	const struct pfw_rank *rank;
	pid_t pid;
	bool child;	  /* a traced ancestor of the same rank exists: gets -pidNNN */
	bool compression; /* unless the base's suffix decides */
};

/*
 * Build the absolute trace path into out (PFW_PATH_MAX bytes): words expanded (%p pid, %h host, %r
 * rank, %j job, %q{VAR}, %%; an unset VAR is empty), a directory completed by "trace", suffix .pfw or
 * .pfw.gz taken from base or from `compression`, -rankNNNN (4 digits or more), -pidNNN or
 * -launcher-HOST-pidNNN put before it.  *compressed gets what the suffix says.
 * Return 0, -ENAMETOOLONG, or -EINVAL for an empty base or a bad %-word (out then holds the word).
 * Thread: init, drain.  Signal: safe.
 */
int pfw_name_build(char *out, const struct pfw_name *name, bool *compressed);

/*
 * The n-th alternative of a taken name, n >= 2: "t-rank0003.pfw.gz" -> "t-rank0003.2.pfw.gz".
 * Return 0 or -ENAMETOOLONG.  Thread: any.  Signal: safe.
 */
int pfw_name_numbered(char *out, const char *path, unsigned n);

/* What /proc/PID/stat says that matters here. */
struct pfw_process {
	pid_t pid, ppid, session;
	uint64_t start_time; /* clock ticks since boot: with pid and boot id unique; 0 = unknown */
};

/* Fill *process from /proc/<pid>/stat; 0 or -errno.  Thread: any.  Signal: safe. */
int pfw_process_read(struct pfw_process *process, pid_t pid);

/*
 * The calling process: its pid as it knows it, the rest from /proc/self, for a /proc of another pid
 * namespace has somebody else under that number.  Without a /proc, or without a descriptor to read it
 * by, the start stays unknown.
 * Thread: any.  Signal: safe.
 */
void pfw_process_self(struct pfw_process *process);

/* Now, in nanoseconds since boot, by the clock that processes' starts are told by. */
uint64_t pfw_process_now(void);

/* The same for a forked child that has still its parent's: it began between two points of that clock,
 * which are mostly of one tick; else (or where they are 0) /proc is asked. */
void pfw_process_forked(struct pfw_process *process, uint64_t after_ns, uint64_t before_ns);

#endif
