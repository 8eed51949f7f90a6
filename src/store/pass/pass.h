/* store/pass/pass.h - one pass over the lines of many traces, block by block, by several threads.
 *
 * Room store/pass: reads the lines of traces with threads, and finds times, steps and file names.
 * It may use store/traces and the rooms below.  Start here; a pass is pass.c (threads, order),
 * take.c (the next block), lines.c (lines of a block) and parts.c (blocks of several ranks).
 *
 * work() is called for each wanted block, in any order and by several threads at a time.  done() is
 * called for each of these blocks in order (by file, then block), one at a time, so that output
 * streams in order.  The number of blocks in memory is bounded.
 */
#pragma once

#include "store/line/entry.h"
#include "store/read/scan.h"
#include "store/traces/traces.h"

/* Adjacent lines of one rank. */
struct pfw_pass_piece {
	size_t begin, end; /* in the text */
	uint64_t line;	   /* number in the block of the line before */
};

struct pfw_pass_block {
	size_t file;   /* index in traces->file; with several ranks the whole or a part */
	size_t number; /* of the block in its file, from 0 */
	const struct pfw_block *block; /* its place; STREAM: as found */
	const char *text;	       /* whole lines; valid in work() only, see keep_text */
	size_t bytes;
	void *result; /* set by work() for done() */
	bool last;    /* of its group; see joins() */
	/* Private to pass.c and lines.c. */
	struct pfw_problems *problems; /* of its lines; `line` counts from its first */
	uint64_t lines;		       /* parsed so far */
	uint64_t at;		       /* place in the file's text (MEMBERS: in the member's) */
	bool walked;		       /* to its end, so that the counts and times are complete */
	int64_t least_ns, greatest_ns;
	const struct pfw_traces *traces;       /* to find the rank of each line; NULL: one rank */
	const struct pfw_processes *processes; /* of its file; may be NULL */
	const struct pfw_pass_piece *piece;    /* its lines in `text`; NULL: all */
	size_t pieces;
};

/* The most blocks of a group; fewer if there are few for each thread. */
#define PFW_PASS_TOGETHER 64u

struct pfw_pass {
	const struct pfw_traces *traces;
	unsigned jobs;	/* threads; 0: one for each available CPU */
	bool keep_text; /* done() needs the text, too */
	/*
	 * Blocks of several ranks (see store/traces/ranks.h) are given once, as the whole's, and
	 * struct pfw_pass_lines has the rank of each line.  Otherwise they are given once for each
	 * wanted rank, with its lines only.
	 */
	bool whole;
	void *user;
	/* Whether to read a block; NULL: all.  Called by any thread. */
	bool (*want)(void *user, size_t file, const struct pfw_block *block);
	/*
	 * Blocks of a group go to one worker, in order, also if the pass pauses.  joins() says
	 * whether a block belongs to the group of the block before it in its file; `first`: it
	 * begins one.  Called in order, by one thread at a time.  work() is called for the last
	 * block of a group even if it cannot be read.  NULL: each block is a group, as is each of a
	 * file that is read in order.  Not with keep_text, nor without `whole`.
	 */
	bool (*joins)(void *user, size_t file, const struct pfw_block *block, bool first);
	/* Return 0, or -errno to end the pass.  `worker` < jobs selects memory of the thread.  If
	 * result_bytes is not 0, it finds a block->result of that many zero bytes, from
	 * calloc(). */
	size_t result_bytes;
	int (*work)(void *user, unsigned worker, struct pfw_pass_block *block);
	/* The same, in order; may be NULL.  It keeps block->result by setting it to NULL.  In
	 * pieces (see pfw_pass_go()) it may return PFW_PASS_PAUSE, too. */
	int (*done)(void *user, struct pfw_pass_block *block);
	/* Free a result after done(), or when the pass ends early; NULL: free(). */
	void (*drop)(void *result);
	/* A bad line or a damaged member, in order, between calls of done().  Its line number is
	 * that in the file if all blocks before were read, else 0 with the place.  May be NULL. */
	void (*problem)(void *user, size_t file, const struct pfw_scan_problem *problem);
	/* A seek point of a STREAM of gzip, in order, before the done() of its block.  Freed
	 * afterwards.  NULL: make none. */
	int (*point)(void *user, size_t file, const struct pfw_point *point);
	/* Bytes of the files that are finished, and of all files; in order; may be NULL. */
	void (*progress)(void *user, uint64_t bytes, uint64_t all);
	/* Set by anybody, also a signal handler, to end early with -EINTR; may be NULL. */
	const _Atomic bool *stop;
};

/*
 * Run it.  A file that cannot be read does not stop the others.  Return 0, the error of work() or
 * done(), -EINTR, -ENOMEM, or -EIO if a file could not be read (problem() was called).  Thread:
 * any; starts jobs - 1 threads and joins them.
 */
int pfw_pass_run(const struct pfw_pass *pass);

/* The same in pieces: pfw_pass_go() goes on until done() has returned PFW_PASS_PAUSE and done() was
 * called for all blocks that were begun; it then returns PFW_PASS_PAUSE, else as pfw_pass_run().
 * Between calls there are no threads.  `pass` must last until pfw_pass_close(), which takes NULL,
 * too.  pfw_pass_open(): 0 or -ENOMEM.  Thread: one at a time. */
#define PFW_PASS_PAUSE 1
struct pfw_pass_run;
int pfw_pass_open(struct pfw_pass_run **out, const struct pfw_pass *pass);
int pfw_pass_go(struct pfw_pass_run *run);
void pfw_pass_close(struct pfw_pass_run *run);

/*
 * Call work() (as worker 0), problem() and done() for whole lines that are in no block, as if they
 * were a block of `file`; want() is not called.  Return 0, or their error.  Thread: that of done(),
 * and no pass may run.
 */
int pfw_pass_text(const struct pfw_pass *pass, size_t file, const char *text, size_t bytes);

/* The number of threads for `jobs`: itself, or, if it is 0, the CPUs of this process's affinity and
 * cgroup, at most 64.  Thread: any. */
unsigned pfw_pass_jobs(unsigned jobs);

/* The next line with that text of a block at or after *at (block->text at first), which moves on:
 * few lines have it, and searching is faster than parsing.  NULL: none.  Thread: any. */
const char *pfw_pass_search(const struct pfw_pass_block *block, const char *text, const char **at,
			    size_t *bytes);

/* ---- the lines of a block, inside work() ---- */

struct pfw_pass_lines {
	struct pfw_pass_block *block;
	size_t file;		/* index in traces->file of the current line */
	struct pfw_entry entry; /* the current line, with its process */
	const char *text;	/* the same, without its '\n' */
	size_t bytes;
	const char *next, *end; /* end: of the current piece */
	size_t piece;
	struct pfw_processes_recent recent;
};

/* Thread: the worker that has the block, as all here. */
void pfw_pass_lines_init(struct pfw_pass_lines *lines, struct pfw_pass_block *block);

/* The next event.  Blank lines and brackets are ignored, bad lines are reported as problems.  False
 * at the end. */
bool pfw_pass_lines_next(struct pfw_pass_lines *lines);

/* Report a problem of the current line, with its place. */
__attribute__((format(printf, 2, 3))) void pfw_pass_lines_problem(struct pfw_pass_lines *lines,
								  const char *format, ...);
