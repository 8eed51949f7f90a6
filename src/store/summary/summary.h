/* store/summary/summary.h - a block, file or run by name, file, thread, process and step.
 *
 * Room store/summary: counts and sums of lines, added one by one (add.c), and merged block by block
 * in order (merge.c).  Memory is bounded: beyond the limits below, names, files and threads count
 * in row 0 of their table, so no count is lost.  Texts are unescaped.  It may use
 * store/{pass,line,math,kit}.  Start with pfw_summary_add().
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "store/kit/arena.h"
#include "store/kit/hash.h"
#include "store/kit/saturate.h"
#include "store/line/entry.h"
#include "store/math/sketch.h"

struct pfw_fname_hashes;

#define PFW_SUMMARY_NAMES_MAX (1u << 16)
#define PFW_SUMMARY_FILES_MAX (1u << 17)
#define PFW_SUMMARY_THREADS_MAX (1u << 16)
#define PFW_SUMMARY_STEPS_MAX (1u << 18)
#define PFW_SUMMARY_PROCESSES_MAX (1u << 14)
#define PFW_SUMMARY_LOSSES_MAX (1u << 12)
#define PFW_SUMMARY_TEXT_MAX 65536u	  /* of one text; longer ones count in row 0 */
#define PFW_SUMMARY_TEXTS_MAX (24u << 20) /* of all texts of a summary */
/*
 * Of all sketches.  Beyond, they do not widen any more: values outside count in the border bucket.
 */
#define PFW_SUMMARY_CELLS_MAX (3u << 20)

/*
 * All lines of one (cat, name, ph).  ph is the line's letter, or 's' for the calls of `summed`
 * lines, which are no lines and have no single durations.  Steps of cat "PP" share the row
 * PFW_SUMMARY_STEPS; each is a struct pfw_summary_step.
 */
#define PFW_SUMMARY_STEPS "ProfilerStep#*"
/* The role (see store/line/io.h) of that row. */
#define PFW_SUMMARY_STEP 100u

/* A power of two; a block may have some hundred files. */
#define PFW_SUMMARY_RECENT 1024u
#define PFW_SUMMARY_FILE_SUMS 13u

struct pfw_summary_name {
	const char *cat, *name; /* not terminated */
	uint32_t cat_bytes, name_bytes;
	char ph;
	uint64_t count;
	/* Of the durations.total lines that have a duration. */
	__int128 sum_ns;
	int64_t min_ns, max_ns; /* min > max: no duration */
	/* The lines that say how many bytes they moved: reads, writes, copies, fills.  Without
	 * transfers, pfw_io_unmoved() of them. */
	uint64_t bytes, transfers, transfer_ns;
	struct pfw_sketch durations;
	uint32_t merged; /* its row in the summary that it was last merged into */
	uint32_t hash;
	uint8_t role, moves; /* see store/line/io.h and PFW_SUMMARY_STEP */
};

static inline void pfw_summary_add_transfers(struct pfw_summary_name *name, uint64_t count,
					     uint64_t ns, uint64_t bytes)
{
	pfw_saturate_u64(&name->transfers, count);
	pfw_saturate_u64(&name->transfer_ns, ns);
	pfw_saturate_u64(&name->bytes, bytes);
}

/* The calls (POSIX, STDIO) on one file, with `summed` ones; row 0 also has calls on no file. */
struct pfw_summary_file {
	const char *name;
	uint32_t name_bytes;
	uint32_t merged;
	uint32_t hash;
	/* In the order of the columns of an index's table `file`. */
	union {
		uint64_t sum[PFW_SUMMARY_FILE_SUMS];
		struct {
			uint64_t lines; /* with this fname, of any cat */
			uint64_t opens, reads, writes;
			uint64_t others; /* all other calls, such as those on metadata */
			uint64_t read_bytes, written_bytes;
			uint64_t open_ns, read_ns, write_ns, other_ns;
			/* The calls that report how many bytes they moved. */
			uint64_t transfers, transfer_ns;
		};
	};
};

/* Its calls together. */
static inline uint64_t pfw_summary_file_calls(const struct pfw_summary_file *file)
{
	return file->opens + file->reads + file->writes + file->others;
}

static inline uint64_t pfw_summary_file_bytes(const struct pfw_summary_file *file)
{
	uint64_t bytes = file->read_bytes;

	pfw_saturate_u64(&bytes, file->written_bytes);
	return bytes;
}

static inline uint64_t pfw_summary_file_ns(const struct pfw_summary_file *file)
{
	uint64_t ns = file->open_ns;

	pfw_saturate_u64(&ns, file->read_ns);
	pfw_saturate_u64(&ns, file->write_ns);
	pfw_saturate_u64(&ns, file->other_ns);
	return ns;
}

struct pfw_summary_thread {
	uint64_t pid, tid;
	const char *name; /* from its `thread_name` line, or "" */
	uint32_t name_bytes;
	uint32_t merged;
	uint64_t lines;
	int64_t first_ns, last_ns;     /* least ts, greatest end; first > last: no ts */
	int64_t call_ns, calls_end_ns; /* of I/O calls; not in an index */
};

/* A process: its `process` line, and its last `end` line. */
struct pfw_summary_process {
	uint64_t pid, ppid;
	int64_t start_ns;
	int64_t rank; /* -1: none */
	int64_t local_rank;
	uint64_t world_size;
	const char *run, *host, *command; /* terminated */
	const char *reason;		  /* from its `end` line; NULL: none */
	int64_t end_ns;
	uint64_t events, lost; /* from its `end` line */
};

/* A span of cat "PP" named ProfilerStep#N. */
struct pfw_summary_step {
	uint64_t pid, tid, number;
	int64_t begin_ns, end_ns;
};

/*
 * Missing or changed data: `lost` by reason, `waited`, `excluded` by reason, `unrecorded` by kind,
 * `sums_full`, `untraced_child` by reason, `clock_step`.  A running total of a process has one row
 * with its last value.
 */
struct pfw_summary_loss {
	uint64_t pid;
	const char *kind, *reason; /* terminated */
	uint64_t count;
	int64_t total_ns; /* of `waited` */
	int64_t last_ns;  /* ts of the last such line */
};

struct pfw_summary {
	uint64_t lines;		       /* number of lines added */
	uint64_t events;	       /* lines of any ph but M */
	int64_t least_ns, greatest_ns; /* of all ts and ts + dur; least > greatest: none */
	bool sorted;		       /* events are in order of ts */
	int64_t first_ns, last_ns;     /* ts of first and last event, or INT64_MAX, INT64_MIN */
	/* An I/O call begins before the last call of its thread ended.  Without such calls, the
	 * durations of all calls do not overlap. */
	bool nested;
	bool untimed; /* some line has no ts */
	/* DFTracer's hashes of names; borrowed, kept by pfw_summary_clear(); NULL: lines have
	 * names. */
	const struct pfw_fname_hashes *fnames;
	/* Row 0 of these three tables has everything without a row of its own: see its `lines` or
	 * `count`. */
	struct pfw_summary_name *name;
	struct pfw_summary_file *file;
	struct pfw_summary_thread *thread;
	uint32_t names, files, threads; /* rows, including row 0 */
	struct pfw_summary_process *process;
	struct pfw_summary_step *step;
	struct pfw_summary_loss *loss;
	uint32_t processes, steps, losses;
	/* Of the line added last: its name, and of an I/O call whether it moves bytes, and those. */
	struct pfw_summary_last {
		uint32_t name;
		bool io; /* a call of pfw_is_io() */
		bool moves;
		/* It is a call whose name has no escapes, and says what it returned: that, whether the
		 * bytes follow from it, its file (`at` NULL: none), and the row of that. */
		bool call, moved;
		int64_t ret;
		uint64_t bytes;
		struct pfw_slice fname;
		uint32_t file;
	} last;
	uint64_t left_out; /* processes, steps and losses beyond the limits */
	/* Private to the room. */
	size_t name_room, file_room, thread_room, process_room, step_room, loss_room;
	uint32_t last_thread;
	/* Caches of rows: of names by entry->named, of files by recent_file(). */
	struct pfw_summary_recent {
		uint64_t named;
		/* Of lines of this entry->form: calls have these args here (see pfw_entry_place());
		 * others name no file, nor moved memory. */
		uint64_t form;
		uint32_t row;
		char ph;
		bool io;	     /* as last.io */
		uint8_t role, moves; /* of the name */
		uint8_t fname, ret;
	} recent[PFW_ENTRY_NUMBERS];
	uint32_t recent_file[PFW_SUMMARY_RECENT];
	uint32_t cells; /* of all merged sketches */
	uint64_t seed;
	struct pfw_hash_slots by_name, by_file, by_thread;
	struct pfw_arena texts;
};

/* Make an empty summary.  Return 0 or -ENOMEM.  Thread: any, as all here; one summary by one thread
 * at a time. */
int pfw_summary_init(struct pfw_summary *summary);
void pfw_summary_release(struct pfw_summary *summary);

/* Make it empty; its memory is kept for the next block. */
void pfw_summary_clear(struct pfw_summary *summary);

/* Add a line (of kind PFW_ENTRY_EVENT).  Return 0 or -ENOMEM. */
int pfw_summary_add(struct pfw_summary *summary, const struct pfw_entry *entry);

/* Add all of `from`, whose lines follow those of `into`, and set `merged` of its rows.  Return 0 or
 * -ENOMEM. */
int pfw_summary_merge(struct pfw_summary *into, struct pfw_summary *from);

/* Whether there are neither spans nor GPU work: only I/O calls and metadata. */
bool pfw_summary_has_calls_only(const struct pfw_summary *summary);

/* The row of that key, which is added if it does not exist; 0 beyond the limits; or -ENOMEM. */
int64_t pfw_summary_name_row(struct pfw_summary *summary, const char *cat, size_t cat_bytes,
			     const char *name, size_t name_bytes, char ph);
int64_t pfw_summary_file_row(struct pfw_summary *summary, const char *name, size_t bytes);
int64_t pfw_summary_thread_row(struct pfw_summary *summary, uint64_t pid, uint64_t tid);
