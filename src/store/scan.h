/* scan.h - the lines of a trace, one after the other: .pfw and .pfw.gz, ours and DFTracer's.
 *
 * Memory is bounded whatever the file holds: the buffer grows to PFW_SCAN_LINE_MAX, and a longer
 * line is a problem with its place, not an allocation.  What is damaged is said and passed over.
 */
#ifndef PFW_SCAN_H
#define PFW_SCAN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "entry.h"

/* 100 times the longest line that the recorder writes, and small beside any machine's memory. */
#define PFW_SCAN_LINE_MAX (16u << 20)

enum pfw_dialect {
	PFW_DIALECT_UNKNOWN, /* no event seen yet */
	PFW_DIALECT_PFW,
	PFW_DIALECT_DFTRACER_1, /* first line `[`, ph as a letter (1.x and 2.0) */
	PFW_DIALECT_DFTRACER_2, /* ph and type as numbers (2.2) */
};

enum pfw_scan_result {
	PFW_SCAN_LINE,	  /* entry, text and place are those of the next line */
	PFW_SCAN_PROBLEM, /* something was passed over: problem */
	PFW_SCAN_FAILED,  /* reading failed: problem; nothing follows */
	PFW_SCAN_END,
};

/* One thing that was passed over. */
struct pfw_scan_problem {
	uint64_t line;	/* the line it befell, or 0: see `at` */
	uint64_t at;	/* byte of the file; of its text where line is not 0 and it is gzip */
	uint64_t more;	/* as many further ones close behind it are not told one by one */
	char text[200]; /* what, without file name or place */
};

struct pfw_scan {
	const char *path; /* as given; borrowed */
	struct pfw_input *input;
	/* The line in hand; valid until the next pfw_scan_next(). */
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
	uint64_t base;			 /* byte of the text at buf[0] */
	bool skipping;			 /* inside a line that is too long */
	int pending;			 /* what input said, to be told after the lines before it */
};

/* Begin reading path ("-": standard input).  Return 0, or what pfw_input_open() says; then there is
 * nothing to close.  path must last.  Thread: one at a time for one scan, as all here. */
int pfw_scan_open(struct pfw_scan *scan, const char *path);

/* The same from that byte of the file on: the begin of a member, or anywhere in plain text (the
 * first line is then likely part of one).  Lines and places count from there. */
int pfw_scan_open_at(struct pfw_scan *scan, const char *path, uint64_t at);

/* The same of a file and what stands for its end: pfw_input_open_tail(). */
struct pfw_input_tail;
int pfw_scan_open_tail(struct pfw_scan *scan, const char *path, const struct pfw_input_tail *tail);

enum pfw_scan_result pfw_scan_next(struct pfw_scan *scan);
void pfw_scan_close(struct pfw_scan *scan);

/* The line in hand for somebody who wants fields of a line of ours: whether it is one of cat "pfw"
 * with that name. */
bool pfw_scan_is(const struct pfw_scan *scan, const char *name);

#endif
