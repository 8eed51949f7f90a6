/* common/settings/config.h - reads the variables of a process into one struct, once.
 *
 * Room common/settings: variables, schedules, ranks, names of runs and files, as pure functions of
 * environment and text; only process.c reads /proc.  It uses common/base.  Start here.
 *
 * config.def is the only list of variables: the parser, `pfw config`, the table in
 * docs/variables.rst and the "did you mean" are made from it.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/settings/keep.h"
#include "common/settings/schedule.h"

/* Which calls have their stacks taken.  At least one member is 0; both 0: no calls. */
struct pfw_stack_when {
	uint64_t min_ns; /* calls of so long */
	uint64_t every;	 /* each so many recorded calls of a thread */
};

enum pfw_init { PFW_INIT_FUNCTION, PFW_INIT_PRELOAD };

/* What to record of GPUs: X(name, bit, word of PFW_CUPTI). */
#define PFW_GPU_WORDS(X)             \
	X(KERNEL, 1, "kernel")       \
	X(MEMCPY, 2, "memcpy")       \
	X(MEMSET, 4, "memset")       \
	X(RUNTIME, 8, "runtime")     \
	X(LAUNCH, 16, "launch")      \
	X(DRIVER, 32, "driver")      \
	X(SYNC, 64, "sync")          \
	X(EVENT, 128, "event")       \
	X(OVERHEAD, 256, "overhead") \
	X(MEMORY, 512, "memory")     \
	X(JIT, 1024, "jit")          \
	X(GRAPH, 2048, "graph")

enum pfw_gpu {
#define X(name, bit, word) PFW_GPU_##name = bit,
	PFW_GPU_WORDS(X)
#undef X
		PFW_GPU_USUAL = PFW_GPU_KERNEL | PFW_GPU_MEMCPY | PFW_GPU_MEMSET | PFW_GPU_RUNTIME |
				PFW_GPU_LAUNCH | PFW_GPU_OVERHEAD,
	PFW_GPU_ASKED = 1 << 30, /* requested: say why if GPUs cannot be recorded */
};

enum pfw_on_full { PFW_ON_FULL_BLOCK, PFW_ON_FULL_DROP };

/* Strings point into the environment block or to constants: copy those that must last. */
struct pfw_config {
	bool enable_set; /* DFTRACER_ENABLE is set: for pfw_start() */
	bool enable;
	enum pfw_init init;
	const char *log_file; /* base name; naming.h expands it */
	const char *data_dir; /* NULL = unset (the default exclusions), "all", or a ':' list */
	bool compression;
	bool metadata; /* write `args` */
	bool disable_io;
	bool disable_posix;
	bool disable_stdio;
	bool net;
	bool disable_tids;
	const char *calls;	     /* PFW_CALLS, or NULL: all */
	const char *exclude;	     /* PFW_EXCLUDE, or NULL */
	uint64_t min_dur_ns;	     /* sum shorter calls; 0 = none */
	uint64_t sync_min_ns;	     /* the same for calls that wait in locks */
	struct pfw_stack_when stack; /* PFW_STACK */
	uint32_t gpu;		     /* enum pfw_gpu */
	const char *cupti_lib;	     /* PFW_CUPTI_LIB, or NULL */
	uint64_t counters_ns;	     /* interval of counter samples; 0 = never */
	bool nvtx;		     /* record NVTX's ranges */
	bool whole_us;		     /* DFTRACER_TIME_METRIC=US was set: ts and dur in whole µs */
	bool quiet;
	enum pfw_on_full on_full;
	uint64_t ring_max_bytes;     /* largest ring of a thread; power of two, 32 KiB..64 MiB */
	uint64_t flush_ns;	     /* most time until an event is in the file */
	uint64_t write_buffer_bytes; /* most text of one write or member; up to 1 MiB */
	uint64_t max_bytes;	     /* largest trace; 0 = no limit */
	struct pfw_plan plan;	     /* PFW_SCHEDULE */
	struct pfw_keep keep;	     /* PFW_KEEP */
	struct pfw_dump_on dump_on;  /* PFW_DUMP_ON */
	bool torch_ops;		     /* PFW_TORCH_OPS */
	const char *step;	     /* PFW_STEP, or NULL */
	const char *spool_dir;	     /* NULL = choose */
	const char *run;	     /* PFW_RUN, set by `pfw run`; NULL = none */
	bool keep_name;		     /* PFW_KEEP_NAME: pfw_start() does not rename the trace */
	int64_t rank;		     /* PFW_RANK, or -1 */
	const char *rank_var;	     /* PFW_RANK_VAR, or NULL */
	const char *ranks;	     /* PFW_RANKS, or NULL: record all */
	const char *children;	     /* "all", "none", or globs of program names */
	bool follow;
};

enum pfw_config_state {
	PFW_CONFIG_BUILT,   /* works in this version */
	PFW_CONFIG_IGNORED, /* a variable of DFTracer: accepted, reported as ignored */
};

/* A row of config.def, for `pfw config` and the documentation. */
struct pfw_config_row {
	const char *name;     /* "DFTRACER_LOG_FILE" */
	const char *accepts;  /* "a path", "0|1", "bytes, 32KiB..64MiB" */
	const char *fallback; /* the default as text */
	const char *meaning;  /* one line */
	enum pfw_config_state state;
};

/* Called for each complaint: one line without "pfw: " and '\n', to print or to drop. */
typedef void pfw_config_say(void *user, const char *line);

/* Read the variables of `environ` (a NULL-terminated array of NAME=VALUE; NULL after clearenv(), as
 * in all functions here) into *config.  Each bad
 * value, unknown DFTRACER_ or PFW_ name and ignored variable is one call of say() (which may be
 * NULL).  An empty value counts as unset.  If config->enable is false, only DFTRACER_ENABLE and
 * PFW_QUIET are read, and the other fields have their defaults.  config->quiet is set before the
 * first call of say().
 * Thread: init.  Signal: unsafe only as say() is.  No malloc, no locale, no stdio. */
void pfw_config_read(struct pfw_config *config, char *const *environ, pfw_config_say *say,
		     void *user);

/* The same, but with config->enable true whatever DFTRACER_ENABLE is: for pfw_start() and `pfw
 * config`.  enable_set still says whether it is set. */
void pfw_config_read_enabled(struct pfw_config *config, char *const *environ, pfw_config_say *say,
			     void *user);

/* Whether `ranks` ("0,8-15", as PFW_RANKS) contains rank: 1 or 0, or -EINVAL if it is no such list.
 * Thread: any.  Signal: safe. */
int pfw_config_ranks_hold(const char *ranks, uint64_t rank);

/* Whether an item of PFW_CALLS (NULL: unset) begins with a +.  Thread: any.  Signal: safe. */
bool pfw_calls_adds(const char *calls);

/* The rows, in the order of config.def; *count gets their number.  Thread: any.  Signal: safe. */
const struct pfw_config_row *pfw_config_rows(size_t *count);

/* The effective value of a variable as text in buf (at most size bytes with its NUL), for `pfw
 * config`.  False: it is the default, because the variable is unset or bad.  Thread: any. */
bool pfw_config_value(const struct pfw_config_row *row, char *const *environ, char *buf,
		      size_t size);

/* The value of NAME in environ, or NULL.  Thread: any.  Signal: safe. */
const char *pfw_config_lookup(char *const *environ, const char *name);

/* The number from 0 to INT32_MAX that NAME is set to, or -1.  name NULL: -1. */
int32_t pfw_config_number(char *const *environ, const char *name);

/* Damerau-Levenshtein distance: a swap of neighbours is one edit.  SIZE_MAX: a word has more than
 * 48 bytes.  Thread: any.  Signal: safe. */
size_t pfw_edit_distance(const char *a, const char *b);
