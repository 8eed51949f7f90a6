/* summary.h - what a block, a file or a whole run holds: by name, file, thread, process, step.
 *
 * Add lines one by one; merge the summaries of blocks, in order, into that of a file.  Memory is
 * bounded: names, files and threads beyond the limits below are added to row 0 of their table, so
 * that no count is ever lost.  Texts are those behind the escapes.
 */
#ifndef PFW_SUMMARY_H
#define PFW_SUMMARY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "arena.h"
#include "entry.h"
#include "row_slots.h"
#include "sketch.h"

struct pfw_fnames;

#define PFW_SUMMARY_NAMES_MAX (1u << 16)
#define PFW_SUMMARY_FILES_MAX (1u << 17)
#define PFW_SUMMARY_THREADS_MAX (1u << 16)
#define PFW_SUMMARY_STEPS_MAX (1u << 18)
#define PFW_SUMMARY_PROCESSES_MAX (1u << 14)
#define PFW_SUMMARY_LOSSES_MAX (1u << 12)
#define PFW_SUMMARY_TEXT_MAX 65536u	  /* one text; a longer one's row is 0 */
#define PFW_SUMMARY_TEXTS_MAX (24u << 20) /* all that one summary keeps */
/* Of all its sketches; beyond, they no longer widen: what is outside counts at their border. */
#define PFW_SUMMARY_CELLS_MAX (3u << 20)

/*
 * All lines of one (cat, name, ph).  ph is the line's letter, or 's': the calls that `summed` lines
 * stand for (they are not among the lines), whose single durations nobody knows.  Steps of cat "PP"
 * share one row, PFW_SUMMARY_STEPS: each is a struct pfw_summary_step.
 */
#define PFW_SUMMARY_STEPS "ProfilerStep#*"

/* A power of two. */
#define PFW_SUMMARY_RECENT 128u

struct pfw_summary_name {
	const char *cat, *name; /* not terminated */
	uint32_t cat_bytes, name_bytes;
	char ph;
	uint64_t count;
	/* Of those that have a duration: durations.total of them. */
	__int128 sum_ns;
	int64_t min_ns, max_ns; /* min > max: none has */
	uint64_t bytes;		/* moved: by reads, writes, copies, sets of memory */
	struct pfw_sketch durations;
	uint32_t merged; /* row of it in the summary that this one was merged into last */
	uint32_t hash;
	uint8_t role, moves; /* see call.h; roles of its own are private to summary_add.c */
};

/* The calls (POSIX, STDIO) on one file, `summed` ones included; in row 0 also those on none. */
struct pfw_summary_file {
	const char *name;
	uint32_t name_bytes;
	uint32_t merged;
	uint32_t hash;
	uint64_t opens, reads, writes, others; /* calls; others: of metadata, and all else */
	uint64_t lines;			       /* with this fname, of any cat */
	uint64_t read_bytes, written_bytes;
	uint64_t open_ns, read_ns, write_ns, other_ns;
	uint64_t transfers, transfer_ns; /* of the calls that say how many bytes they moved */
};

struct pfw_summary_thread {
	uint64_t pid, tid;
	const char *name; /* of its `thread_name` line; "" */
	uint32_t name_bytes;
	uint32_t merged;
	uint64_t lines;
	int64_t first_ns, last_ns;     /* least ts, greatest end; first > last: no line has a ts */
	int64_t call_ns, calls_end_ns; /* of I/O calls; not in an index */
};

/* A `process` line, and the last `end` of it. */
struct pfw_summary_process {
	uint64_t pid, ppid;
	int64_t start_ns;
	int64_t rank; /* -1: none */
	int64_t local_rank;
	uint64_t world_size;
	const char *run, *host, *command; /* terminated */
	const char *reason;		  /* of its end; NULL: it has none */
	int64_t end_ns;
	uint64_t events, lost; /* as its end says */
};

/* A span of cat "PP" named ProfilerStep#N. */
struct pfw_summary_step {
	uint64_t pid, tid, number;
	int64_t begin_ns, end_ns;
};

/*
 * What is not in the trace, or not as it was: `lost` by reason, `waited`, `excluded` by reason,
 * `unrecorded` by kind, `sums_full`, `untraced_child` by reason, `clock_step`.  Running totals of a
 * process are here once, as last told.
 */
struct pfw_summary_loss {
	uint64_t pid;
	const char *kind, *reason; /* terminated */
	uint64_t count;
	int64_t total_ns; /* of `waited` */
	int64_t last_ns;  /* ts of the last line that told */
};

struct pfw_summary {
	uint64_t lines;		       /* entries added */
	uint64_t events;	       /* with any ph but M */
	int64_t least_ns, greatest_ns; /* least ts, greatest ts + dur of all that have a ts; least >
					* greatest: none */
	bool sorted;		       /* events stand in order of ts */
	int64_t first_ns, last_ns;     /* ts of the first and the last event; INT64_MAX, INT64_MIN:
					* none has one */
	bool nested; /* some I/O call begins before the one before it in its thread is over: without
		      * any, the time of each is its own */
	/* What DFTracer's hashes of names stand for; borrowed, kept by pfw_summary_clear(); NULL: lines
	 * have names. */
	const struct pfw_fnames *fnames;
	/* Row 0 of these three: what has no row of its own; its `lines` or `count` says how much. */
	struct pfw_summary_name *name;
	struct pfw_summary_file *file;
	struct pfw_summary_thread *thread;
	uint32_t names, files, threads; /* rows, with row 0 */
	struct pfw_summary_process *process;
	struct pfw_summary_step *step;
	struct pfw_summary_loss *loss;
	uint32_t processes, steps, losses;
	uint64_t left_out; /* processes, steps and losses beyond the limits */
	/* Private to summary.c. */
	uint32_t name_room, file_room, thread_room, process_room, step_room, loss_room;
	uint32_t last_thread, last_file;
	uint32_t recent[PFW_SUMMARY_RECENT]; /* rows of names, where recent_name() says */
	uint32_t cells;			     /* of all sketches, as far as they were merged */
	uint64_t seed;
	struct pfw_row_slots by_name, by_file, by_thread;
	struct pfw_arena texts;
};

/* Make one empty.  Return 0 or -ENOMEM.  Thread: any, as all here; one summary by one thread at a
 * time. */
int pfw_summary_init(struct pfw_summary *summary);
void pfw_summary_release(struct pfw_summary *summary);

/* Empty it, and keep its memory for the next block. */
void pfw_summary_clear(struct pfw_summary *summary);

/* Add a line (of kind PFW_ENTRY_EVENT).  Return 0 or -ENOMEM. */
int pfw_summary_add(struct pfw_summary *summary, const struct pfw_entry *entry);

/* Add all of `from`, whose lines come behind those of `into`; sets `merged` of its rows.  Return 0
 * or -ENOMEM. */
int pfw_summary_merge(struct pfw_summary *into, struct pfw_summary *from);

/* The row of such a name, made where there is none (0 beyond the limits), or -ENOMEM. */
int64_t pfw_summary_name_row(struct pfw_summary *summary, const char *cat, size_t cat_bytes,
			     const char *name, size_t name_bytes, char ph);
int64_t pfw_summary_file_row(struct pfw_summary *summary, const char *name, size_t bytes);
int64_t pfw_summary_thread_row(struct pfw_summary *summary, uint64_t pid, uint64_t tid);

#endif
