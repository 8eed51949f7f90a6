/* tools/top/top.h - the parts of `pfw top`: processes, their new lines, sums, tables, the terminal.
 *
 * Room tools/top: `pfw top` shows what traced processes do now.  It may use tools/share, tools/ui,
 * tools/overlap (its figures) and the store.  Start with top.c; find.c finds processes by their
 * spools, look.c reads what is new, shares.c adds it up and says what ran at the same time,
 * print.c makes tables, screen.c draws them.
 *
 * Each look reads what the trace files have gained, and all that the rings hold.  What was in a ring
 * at the look before is in the file at this one, or still in the ring.  So the sums of an interval
 * are those of the new lines of files, plus those of the rings now, minus those of the rings before.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "overlap/overlap.h"
#include "share/adopt.h"
#include "store/kit/text_ids.h"
#include "store/line/io.h"
#include "store/read/stream.h"
#include "ui/cli.h"

/* ---- sums (shares.c) ---- */

struct top_sums {
	int64_t calls, bytes, ns;
};

static inline void top_sums_add(struct top_sums *into, const struct top_sums *from, int sign)
{
	into->calls += sign * from->calls;
	into->bytes += sign * from->bytes;
	into->ns += sign * from->ns;
}

/* Beyond these names, all others share a row: names come from the program, memory is bounded. */
#define TOP_NAMES_MAX 65536u

/* Sums by name, within groups.  All zero: empty. */
struct top_tally {
	struct pfw_text_ids names;
	struct top_sums *sums;
	size_t room;
	uint32_t last; /* the name that was added to last, which mostly comes again; valid below count */
	struct top_sums others;
};

/* Add to the row of a name.  0 or -ENOMEM.  Thread: main, as all of this room. */
int top_tally_add(struct top_tally *tally, int64_t of, const char *text, size_t bytes,
		  const struct top_sums *sums, int sign);
/* Add all rows. */
int top_tally_merge(struct top_tally *into, const struct top_tally *from, int sign);
struct top_sums top_tally_of(const struct top_tally *tally, const struct pfw_text_id *name);
void top_tally_clear(struct top_tally *tally);
void top_tally_release(struct top_tally *tally);

/* By call (of the category's number in top->cats), and by file. */
struct top_tallies {
	struct top_tally calls, files;
};

/* ---- ranks (shares.c) ---- */

/* The processes of one rank of one run: what they do at the same time. */
struct top_rank {
	char run[128];
	int64_t rank;				 /* -1: none */
	struct pfw_overlap_block *newer, *older; /* of this interval, and of the one before */
	uint64_t added;				 /* lines in `newer`, and in `older` */
	uint64_t added_before;
	unsigned known; /* activities that were seen */
	/* Results: of the interval before. */
	int64_t wall_ns; /* its length; 0: none, or too many lines */
	int64_t figure[OVERLAP_FIGURES];
	/* Steps that ended in this interval; in the rings at the last look; and the last one. */
	int64_t steps, steps_in_rings;
	int64_t step; /* -1: none */
	/* Unhidden I/O since the last step ended, and that of the last interval with steps. */
	int64_t unhidden_ns, per_step_ns;
	int64_t steps_before;
	size_t processes; /* that run */
};

struct top;

/* The rank of a process; NULL: no memory. */
struct top_rank *top_rank_of(struct top *top, const char *run, int64_t rank);
/* Begin an interval that ends now; add a line; evaluate the interval before.  0 or -ENOMEM. */
void top_ranks_begin(struct top *top);
int top_rank_add(struct top_rank *rank, const struct pfw_entry *entry, bool ring);
int top_ranks_end(struct top *top);
void top_ranks_release(struct top *top);

/* ---- processes (find.c, look.c) ---- */

enum top_state { TOP_RUNS, TOP_STOPPED, TOP_PAUSED, TOP_ENDED, TOP_KILLED };

struct top_process {
	char *spool;
	int32_t pid;
	uint64_t start_ns; /* of its recorder: tells it from a later one with this spool's name */
	char program[64];
	size_t rank; /* of top->rank */
	enum top_state state;
	char reason[16]; /* of its `end` */
	/* Its trace. */
	char *path;
	int fd; /* -1: not made yet */
	uint64_t device, inode;
	bool gzip;
	bool missed;   /* its rings could not be read at this look: they count at the next one */
	bool damaged;  /* a part of its file could not be read */
	bool from_now; /* what is written already is not counted */
	uint64_t at;   /* bytes that were read */
	/* Since it began, from its header. */
	uint64_t events, lost, waited, waited_ns;
	int64_t step;		    /* of a schedule; -1: none */
	struct top_sums now, total; /* I/O calls */
	struct top_sums ring;	    /* of these, in its rings at the last look */
};

/* What the user wants to see. */
struct top_want {
	char **word;
	size_t words;
	int32_t *pid; /* wanted, and their children as they come */
	size_t pids;
};

enum top_sort { TOP_CALLS, TOP_BYTES, TOP_TIME, TOP_NAME };
extern const char *const top_sorts[]; /* their names */

struct top {
	const struct cli_command *command;
	/* Options. */
	bool once, all;
	int format;
	int64_t interval_ns, row_limit;
	enum top_sort sort;
	struct top_want want;
	/* All watched processes that have not ended before the last look. */
	struct top_process *process;
	size_t processes;
	struct top_rank *rank;
	size_t ranks;
	struct adopt_dirs dirs;
	/* The last looks, the newest first; and the last one by the monotonic clock. */
	int64_t looked_ns[3], mono_ns, length_ns;
	uint64_t looks;
	struct pfw_text_ids cats;
	uint32_t cat; /* of the last line */
	struct top_tallies now, total, rings;
	struct top_sums sums; /* of I/O calls of all processes, now */
	int64_t events;	      /* of all kinds, now */
	int64_t ring_events;
	uint64_t ended_lost; /* of processes that are gone */
	struct pfw_io_calls io;
	struct pfw_buffer text, member;
	struct pfw_unzip *unzip;
	const _Atomic bool *stop;
};

/* Find processes that are wanted and not watched yet.  The first time, say which words mean none.
 * CLI_OK, or an exit status after that message; -ENOMEM. */
int top_find(struct top *top);

/* Look at all processes.  0 or -ENOMEM. */
int top_look(struct top *top);
/* Forget those that had ended at the last look. */
void top_drop_ended(struct top *top);
size_t top_running(const struct top *top);
void top_processes_release(struct top *top);

/* ---- output (print.c, screen.c) ---- */

/* Write tables of the last interval: for programs whole; `lines` is the room, 0: no limit, and then
 * --row-limit counts.  0 or -ENOMEM. */
int top_print(const struct top *top, FILE *out, int format, size_t width, size_t lines);

/* Whether standard output is a terminal that can be drawn on. */
bool top_screen_can(void);

/* Draw until the user or the last process ends it.  0 or -errno. */
int top_screen(struct top *top);

/* Wait until then.  0; 1: before, `fd` (-1: none) has input, or the terminal has a new size; -EINTR: a
 * signal ends the command. */
int top_wait(struct top *top, int64_t until_ns, int fd);

/* Find what is new, and look.  0; CLI_PROBLEMS; -ENOMEM. */
int top_next(struct top *top);

/* Whether nothing is left to watch.  What has ended was shown, and is forgotten. */
bool top_is_over(struct top *top, int *error);
