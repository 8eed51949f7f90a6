/* store/read/scan.h - the lines of a trace in order: .pfw and .pfw.gz, ours and DFTracer's.
 *
 * Memory is bounded: the buffer grows to PFW_SCAN_LINE_MAX, and a longer line is a problem with its
 * place.  Damage is reported, and reading goes on after it.
 */
#pragma once

#include <stdarg.h>

#include "store/line/entry.h"

/* 100 times the longest line of the recorder, and little memory on any machine. */
#define PFW_SCAN_LINE_MAX (16u << 20)

enum pfw_dialect {
	PFW_DIALECT_UNKNOWN, /* no event seen yet */
	PFW_DIALECT_PFW,
	PFW_DIALECT_DFTRACER_1, /* first line `[`, ph as a letter (1.x and 2.0) */
	PFW_DIALECT_DFTRACER_2, /* ph and type as numbers (2.2) */
};

enum pfw_scan_result {
	PFW_SCAN_LINE,	  /* `entry` and the place are those of the next line */
	PFW_SCAN_PROBLEM, /* something was left out: see `problem` */
	PFW_SCAN_FAILED,  /* reading failed: see `problem`; nothing follows */
	PFW_SCAN_END,
};

/* One thing that was left out. */
struct pfw_scan_problem {
	uint64_t line;	/* number of the line, or 0: see `at` */
	uint64_t at;	/* byte of the file; of its text if line is not 0 and it is gzip */
	uint64_t more;	/* number of similar problems that are not reported one by one */
	char text[200]; /* without file name and place */
};

struct pfw_scan {
	const char *path; /* as given; borrowed */
	struct pfw_input *input;
	/* The current line; valid until the next pfw_scan_next(). */
	struct pfw_entry entry;
	const char *text;
	size_t bytes;	   /* without '\n' */
	bool unterminated; /* the last line, without a '\n' */
	uint64_t line;	   /* its number, from 1 */
	uint64_t at;	   /* its first byte in the file's text */
	/* The file so far. */
	enum pfw_dialect dialect;
	bool bracket; /* the first line was `[` */
	struct pfw_scan_problem problem;
	/* Private to scan.c. */
	char *buf;
	size_t room, begin, end, looked; /* looked: no '\n' before */
	size_t piece;			 /* the most to read next */
	uint64_t base;			 /* byte of the text at buf[0] */
	bool skipping;			 /* inside a line that is too long */
	/* error of the input, reported after the lines before it */
	int pending;
};

/* Begin to read path ("-": standard input), which must last.  Return 0, or the error of
 * pfw_input_open() with nothing to close.  Thread: one at a time for one scan, as all here. */
int pfw_scan_open(struct pfw_scan *scan, const char *path);

/* The same from that byte of the file on: the begin of a member, or any byte of plain text (the
 * first line is then probably incomplete).  Line numbers and places count from there. */
int pfw_scan_open_at(struct pfw_scan *scan, const char *path, uint64_t at);

/* The same of the gzip members in these bytes of the file only. */
int pfw_scan_open_range(struct pfw_scan *scan, const char *path, uint64_t begin, uint64_t end);

/* The same for a file with a tail: see pfw_input_open_tail(). */
struct pfw_input_tail;
int pfw_scan_open_tail(struct pfw_scan *scan, const char *path, const struct pfw_input_tail *tail);

enum pfw_scan_result pfw_scan_next(struct pfw_scan *scan);
void pfw_scan_close(struct pfw_scan *scan);

/* Whether the current line is one of cat "pfw" with that name. */
bool pfw_scan_is(const struct pfw_scan *scan, const char *name);

/* ---- scratch memory ---- */

#define PFW_SCRATCH_BYTES (PFW_SCAN_LINE_MAX + 1)

/* Memory for the longest text of a line, or NULL.  Untouched pages cost nothing.  Thread: any. */
char *pfw_scratch_new(void);
void pfw_scratch_free(char *scratch);

/* The text of a string without escapes: the slice itself, or decoded into `scratch`. */
struct pfw_slice pfw_scratch_plain(struct pfw_slice text, char *scratch);

/* ---- the problems of a block, kept until they are reported in order ---- */

/* For one block; more are only counted, so that garbage takes no more memory than its text. */
#define PFW_PROBLEMS_MAX 32u

/* How a problem begins that is of the machine, not of the file. */
#define PFW_PROBLEM_CANNOT "cannot be "

struct pfw_problems {
	struct pfw_scan_problem *problem;
	size_t count;
};

/* Add a problem with its place (see struct pfw_scan_problem), or count it in the last one's `more`
 * if the list is full.  Thread: one at a time. */
__attribute__((format(printf, 4, 0))) void pfw_problems_vadd(struct pfw_problems *problems,
							     uint64_t line, uint64_t at,
							     const char *format, va_list args);
__attribute__((format(printf, 4, 5))) void pfw_problems_add(struct pfw_problems *problems,
							    uint64_t line, uint64_t at,
							    const char *format, ...);

/* A line of `bytes` bytes is too long. */
void pfw_problems_add_long(struct pfw_problems *problems, uint64_t line, uint64_t at,
			   uint64_t bytes);

void pfw_problems_free(struct pfw_problems *problems);
