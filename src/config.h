/* config.h - what to trace: the variables of one process, read once into one constant struct.
 *
 * config.def is the only list of variables: it makes this parser, `pfw config`, the table in
 * README.rst and the "did you mean".  config.c holds the only getenv of the recorder.
 */
#ifndef PFW_CONFIG_H
#define PFW_CONFIG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "schedule.h"

enum pfw_init { PFW_INIT_FUNCTION, PFW_INIT_PRELOAD };
/* What to record of GPUs: X(bit, word of PFW_CUPTI). */
#define PFW_GPU_WORDS(X)                \
	X(PFW_GPU_KERNEL, "kernel")     \
	X(PFW_GPU_MEMCPY, "memcpy")     \
	X(PFW_GPU_MEMSET, "memset")     \
	X(PFW_GPU_RUNTIME, "runtime")   \
	X(PFW_GPU_LAUNCH, "launch")     \
	X(PFW_GPU_DRIVER, "driver")     \
	X(PFW_GPU_SYNC, "sync")         \
	X(PFW_GPU_EVENT, "event")       \
	X(PFW_GPU_OVERHEAD, "overhead") \
	X(PFW_GPU_MEMORY, "memory")     \
	X(PFW_GPU_JIT, "jit")           \
	X(PFW_GPU_GRAPH, "graph")

enum pfw_gpu {
	PFW_GPU_KERNEL = 1,
	PFW_GPU_MEMCPY = 2,
	PFW_GPU_MEMSET = 4,
	PFW_GPU_RUNTIME = 8,
	PFW_GPU_LAUNCH = 16,
	PFW_GPU_DRIVER = 32,
	PFW_GPU_SYNC = 64,
	PFW_GPU_EVENT = 128,
	PFW_GPU_OVERHEAD = 256,
	PFW_GPU_MEMORY = 512,
	PFW_GPU_JIT = 1024,
	PFW_GPU_GRAPH = 2048,
	PFW_GPU_USUAL = PFW_GPU_KERNEL | PFW_GPU_MEMCPY | PFW_GPU_MEMSET | PFW_GPU_RUNTIME |
			PFW_GPU_LAUNCH | PFW_GPU_OVERHEAD,
	PFW_GPU_ASKED = 1 << 30, /* for: say why where there is none */
};

enum pfw_on_full { PFW_ON_FULL_BLOCK, PFW_ON_FULL_DROP };

/* Strings point into the process's environment block or to constants: copy what must last. */
struct pfw_config {
	bool enable_set; /* DFTRACER_ENABLE is there at all: pfw_start() asks */
	bool enable;
	enum pfw_init init;
	const char *log_file; /* the base name as given; naming.h expands it */
	const char *data_dir; /* NULL = unset (the default exclusions), "all", or a ':' list */
	bool compression;
	bool metadata; /* write `args` */
	bool disable_io;
	bool disable_posix;
	bool disable_stdio;
	bool disable_tids;
	const char *calls;     /* PFW_CALLS, or NULL: all */
	const char *exclude;   /* PFW_EXCLUDE, or NULL */
	uint64_t min_dur_ns;   /* shorter calls are summed; 0 = none */
	uint32_t gpu;	       /* enum pfw_gpu */
	const char *cupti_lib; /* PFW_CUPTI_LIB, or NULL */
	uint64_t counters_ns;  /* sample counters this often; 0 = never */
	bool nvtx;	       /* record NVTX's ranges */
	bool whole_us;	       /* DFTRACER_TIME_METRIC=US was set: ts and dur in whole µs */
	bool quiet;
	enum pfw_on_full on_full;
	uint64_t ring_max_bytes; /* a thread's ring grows to this; power of two, 32 KiB..64 MiB */
	uint64_t flush_ns;	 /* an event is in the file after this long at most */
	uint64_t write_buffer_bytes; /* text of one write or member, at most 1 MiB */
	uint64_t max_bytes;	     /* the trace stops growing there; 0 = never */
	struct pfw_plan plan;	     /* PFW_SCHEDULE */
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
	PFW_CONFIG_IGNORED, /* a DFTracer variable we accept and answer with "ignored" and why */
};

/* A row of the table, for `pfw config` and the documentation. */
struct pfw_config_row {
	const char *name;     /* "DFTRACER_LOG_FILE" */
	const char *accepts;  /* "a path", "0|1", "bytes, 32KiB..64MiB" */
	const char *fallback; /* the default as text */
	const char *meaning;  /* one line */
	enum pfw_config_state state;
};

/* One line of complaint, without "pfw: " and without '\n'; the caller prints or drops it. */
typedef void pfw_config_say(void *user, const char *line);

/*
 * Read the variables of `environ` (a NULL-terminated array of NAME=VALUE, as execve gets it) into
 * *config.  Every bad value, unknown DFTRACER_ or PFW_ name, not-built and ignored variable is one
 * call of say() (say may be NULL): the variable, the value, what is accepted, the default used.
 * Unless config->enable nothing but DFTRACER_ENABLE and PFW_QUIET is looked at, and nothing but a
 * bad value of the first is said; the other fields then have their defaults.  An empty value counts
 * as unset.
 * config->quiet is known before the first call of say().
 * Thread: init.  Signal: unsafe only as say() is.  No malloc, no locale, no stdio.
 */
void pfw_config_read(struct pfw_config *config, char *const *environ, pfw_config_say *say,
		     void *user);

/* The same for a process that is enabled whatever DFTRACER_ENABLE says: pfw_start() and `pfw
 * config`.  config->enable is true, enable_set as the variable says. */
void pfw_config_read_enabled(struct pfw_config *config, char *const *environ, pfw_config_say *say,
			     void *user);

/* Whether `ranks` ("0,8-15", as PFW_RANKS) holds rank: 1 or 0, or -EINVAL where it is not such a
 * list.  Thread: any.  Signal: safe. */
int pfw_config_ranks_hold(const char *ranks, uint64_t rank);

/* The rows, in the order of config.def; *count gets their number.  Thread: any.  Signal: safe. */
const struct pfw_config_row *pfw_config_rows(size_t *count);

/*
 * The value that the variable named in `row` has in effect, as text in buf (at most size bytes with
 * its NUL); return false where that is the default, because it is unset or bad.
 * For `pfw config`.  Thread: any.
 */
bool pfw_config_value(const struct pfw_config_row *row, char *const *environ, char *buf,
		      size_t size);

/* The value of NAME in environ, or NULL.  Thread: any.  Signal: safe. */
const char *pfw_config_lookup(char *const *environ, const char *name);

#endif
