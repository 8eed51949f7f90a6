/* pass.h - one pass over the lines of many traces, block by block, by several threads.
 *
 * work() is called for each block that is wanted, in any order and by several threads at once;
 * done() for each of them in order (by file, then block), one at a time, so that output streams in
 * order while blocks are worked on ahead.  A bounded number of blocks is in hand at any time.
 */
#ifndef PFW_PASS_H
#define PFW_PASS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "entry.h"
#include "problems.h"
#include "traces.h"

/* Lines that stand together. */
struct pfw_pass_piece {
	size_t begin, end; /* in the text */
	uint64_t line;	   /* number of the one before, in the block */
};

struct pfw_pass_block {
	size_t file;   /* traces->file[file]: the whole, or a part, of several ranks */
	size_t number; /* of the block in its file, from 0 */
	const struct pfw_block *block; /* its place; of a STREAM, filled with what was found */
	const char *text;	       /* whole lines; gone when work() returns, or see keep_text */
	size_t bytes;
	void *result; /* work()'s, for done(); NULL before */
	/* Private to pass.c and pass_lines.c. */
	struct pfw_problems *problems; /* of its lines; `line` counts from its first */
	uint64_t lines;		       /* begun so far */
	uint64_t at;		       /* byte of the file's text (of MEMBERS of the member's) */
	bool walked;		       /* to its end: these are all of its lines: */
	int64_t least_ns, greatest_ns;
	const struct pfw_traces *traces;    /* NULL: it is of one file, whatever that holds */
	const struct pfw_pass_piece *piece; /* which lines of `text` are its; NULL: all */
	size_t pieces;
};

struct pfw_pass {
	const struct pfw_traces *traces;
	unsigned jobs;	/* threads; 0: one for each CPU that this process may use */
	bool keep_text; /* done() needs the text, too */
	/* Blocks of several ranks (see ranks.h) are given whole, as the whole's, and pfw_lines says whose
	 * a line is; else once for each rank that want() says yes to, with its lines only. */
	bool whole;
	void *user;
	/* Whether to read it; NULL: all.  Any thread. */
	bool (*want)(void *user, size_t file, const struct pfw_block *block);
	/* 0 or -errno, which ends the pass.  `worker` < jobs: for memory of a thread's own. */
	int (*work)(void *user, unsigned worker, struct pfw_pass_block *block);
	/* The same; frees block->result; may be NULL. */
	int (*done)(void *user, struct pfw_pass_block *block);
	/* Free a result that no done() will see, as the pass ends early; NULL: by free(). */
	void (*drop)(void *user, void *result);
	/* Something was passed over (bad line, damaged member); in order, between done()s.  Line
	 * numbers are those of the file where every block before was read, else 0 with the place.
	 * May be NULL. */
	void (*problem)(void *user, size_t file, const struct pfw_scan_problem *problem);
	/* A place where a STREAM of gzip can be begun to be read from; in order, before the done() of
	 * the block that it is in.  Freed behind it.  NULL: none are looked for. */
	int (*point)(void *user, size_t file, const struct pfw_point *point);
	/* Bytes of the files that are done, and of all; in order; may be NULL. */
	void (*progress)(void *user, uint64_t bytes, uint64_t all);
	/* Set by anybody, a signal handler too, to end early with -EINTR; may be NULL. */
	const volatile bool *stop;
};

/* Run it.  A file that cannot be read on does not keep the others from being read.  Return 0, what
 * work() or done() said, -EINTR, -ENOMEM, or -EIO where a file could not be read on (problem() was
 * told).  Thread: any; starts jobs - 1 threads and joins them. */
int pfw_pass_run(const struct pfw_pass *pass);

/* Have work() (as worker 0), problem() and done() take whole lines that are in no block, as if they
 * were one of `file`; want() is not asked.  Return 0, or what they said.  Thread: that of done(),
 * while no other is at it. */
int pfw_pass_text(const struct pfw_pass *pass, size_t file, const char *text, size_t bytes);

/* How many threads `jobs` stands for: itself, or where it is 0 the CPUs of this process's affinity
 * and cgroup, at most 64.  Thread: any. */
unsigned pfw_pass_jobs(unsigned jobs);

/* ---- the lines of a block, inside work() ---- */

struct pfw_lines {
	struct pfw_pass_block *block;
	size_t file;		/* traces->file[file] that the line in hand is of */
	struct pfw_entry entry; /* it */
	const char *text;	/* it, without its '\n' */
	size_t bytes;
	const char *next, *end; /* end: of what is together */
	size_t piece;
};

/* Thread: the worker that has the block, as all here. */
void pfw_lines_init(struct pfw_lines *lines, struct pfw_pass_block *block);

/* The next event line: blank lines and brackets are passed over, bad ones are told as problems.
 * False at the end. */
bool pfw_lines_next(struct pfw_lines *lines);

/* Tell a problem of the line in hand, with its place. */
__attribute__((format(printf, 2, 3))) void pfw_lines_problem(struct pfw_lines *lines,
							     const char *format, ...);

#endif
