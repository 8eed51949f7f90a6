/* tools/advice/figures.h - the figures that the rules look at, taken from rows of commands. */
#pragma once

#include "ui/cli.h"
#include "ui/grid.h"

/* clang-format off */
/* X(key): of all ranks, by `pfw overlap` */
#define OVERLAP_FIGURES(X) \
	X(wall) X(io) X(compute) X(load) X(io_load) X(io_unoverlapped) X(comm_unoverlapped) X(idle) X(idle_copy) \
	X(idle_load) X(idle_io) X(idle_launch) X(wait) X(launches)

/* X(key): of all files, by `pfw patterns`; shares in thousandths */
#define PATTERNS_FIGURES(X) \
	X(opens) X(opens_again) X(metadata_calls) X(metadata_us) X(data_us) X(reads) X(writes) X(read_bytes) \
	X(written_bytes) X(read_us) X(write_us) X(read_random) X(read_unaligned) X(write_unaligned) \
	X(read_unplaced) X(write_unplaced) X(read_consecutive) X(write_consecutive) \
	X(size_read_0_100) X(size_read_100_1k) X(size_write_0_100) X(size_write_100_1k) X(calls_read_bytes) \
	X(storage_read_bytes)

/* X(key): added up here, of several rows */
#define OTHER_FIGURES(X) \
	X(lock_calls) X(lock_ns) X(mutex_calls) X(mutex_ns) X(sync_calls) X(sync_ns) X(major_faults) X(steps_grown) X(steps_seen) X(grown_bytes) \
	X(rss_grown) X(rss_last) X(rss_pid)

/* X(key): what else a row says */
#define OTHER_COLUMNS(X) \
	X(rank) X(step) X(steps_own) X(fname) X(section) X(name) X(key) X(count) X(total) X(process) X(mapped_bytes) \
	X(growth_bytes) X(line) X(pid) X(min) X(mean) X(max) X(last)
/* clang-format on */

enum figure {
#define X(key) F_##key,
	OVERLAP_FIGURES(X) PATTERNS_FIGURES(X) OTHER_FIGURES(X) FIGURES,
#undef X
	F_PATTERNS = F_opens, /* the first one of patterns */
	F_OTHER = F_lock_calls
};

enum column {
#define X(key) C_##key,
	OVERLAP_FIGURES(X) PATTERNS_FIGURES(X) OTHER_COLUMNS(X) COLUMNS
#undef X
};

#define UNKNOWN INT64_MIN

/* What calls do, as bits: which lines of code a finding asks for. */
enum advice_calls {
	ADVICE_READS = 1 << 0,
	ADVICE_WRITES = 1 << 1, /* syncs, too */
	ADVICE_OPENS = 1 << 2,
	ADVICE_OTHERS = 1 << 3,
	ADVICE_LOCKS = 1 << 4,
	ADVICE_MUTEXES = 1 << 5,
	ADVICE_CALLS = 6, /* how many */
};

#define ADVICE_LINE 256u

/* What the rules look at; all zero: nothing yet. */
struct advice {
	bool any;		 /* there is a row of all ranks */
	bool stacks;		 /* calls have them */
	int64_t figure[FIGURES]; /* of all ranks, of all files */
	int64_t in_steps[FIGURES];
	/* Of these, what is in the first step, which warms up and may begin with the program, and
	 * in the last one, which may end with the program. */
	struct advice_edge {
		int64_t step, in[FIGURES];
		size_t ranks; /* that have it; 0 = there is no step yet */
	} first, last;
	const struct grid_column *columns; /* of the last rows, and where they have what is wanted */
	char section[16];
	size_t place[COLUMNS];
	/* Of each rank in the steps that all ranks have, without waiting; of each step of a rank;
	 * of the I/O of each worker. */
	struct advice_time {
		int64_t rank, step, ns;
	} * rank, *step, *worker;
	/* Of each line of code, the time of its calls that have stacks. */
	struct advice_line {
		char text[ADVICE_LINE]; /* its begin, if it is longer */
		int64_t ns[ADVICE_CALLS];
	} * line;
	size_t lines, line_room;
	size_t ranks, rank_room, steps, step_room, workers, worker_room;
	bool loaders; /* the workers are those of DataLoaders: no other that a process has forked */
	/* Memory of a process in the second half of the time; the last quarter tells if it grew. */
	struct advice_growth {
		int64_t rank, pid, least, mean, last;
	} * half;
	size_t halves, half_room;
	int64_t growth_step; /* of the last row of growth, and its place in its device */
	size_t growth_steps;
	char top_file[256];   /* with the most time in its calls */
	char top_worker[128]; /* the process with the most time in its calls */
	int64_t top_ns, top_worker_ns;
	char mapped_file
		[256]; /* the file with most bytes mapped that is no library, and the sum of such */
	int64_t mapped_top, mapped;
};

/* Note what the traces say of themselves. */
struct pfw_traces;
void advice_see(struct advice *advice, const struct pfw_traces *traces);

/* Take the rows of a command that a host got.  0 or -ENOMEM. */
int advice_take(struct advice *advice, const char *command, const struct grid *grid,
		const char *section);

void advice_release(struct advice *advice);
