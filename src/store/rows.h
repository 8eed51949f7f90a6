/* rows.h - the lines of a block, each with its time, put in order of ts.
 *
 * Lines are carried as they are written: only their head is looked at, as far as the time, for the
 * order; a line that does not look like ours is parsed in full.
 */
#ifndef PFW_ROWS_H
#define PFW_ROWS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "problems.h"
#include "stream.h"

#define PFW_ROW_FIRST INT64_MIN /* ts of a line that stands in front of all */

struct pfw_row {
	int64_t ts_ns, end_ns; /* end: ts + dur */
	uint64_t order;	       /* between equal ts: pfw_row_order() */
	uint64_t hash;	       /* pfw_linehash() */
	uint32_t at;	       /* in the text */
	uint32_t bytes : 31;   /* with its '\n' */
	uint32_t metadata : 1; /* ph M */
};

/* Where a line stood: in which file, which block, and there. */
static inline uint64_t pfw_row_order(size_t file, size_t block, size_t line)
{
	return (uint64_t)file << 46 | (uint64_t)(block & 0x3fffff) << 24 | (line & 0xffffff);
}

struct pfw_rows {
	struct pfw_text text; /* of whole lines; commas behind them are gone */
	struct pfw_row *row;
	size_t count, room;
	size_t metadata;   /* of them, ph M */
	uint64_t checksum; /* sum of their hashes */
	uint64_t pid;	   /* of every line; 0: they differ */
	bool mended;	   /* the text was changed for them: see pfw_rows_scan() */
	/* Not NULL: the text is not here but in this file, `at` of a row counted from that byte on. */
	const char *path;
	uint64_t path_at;
	uint32_t file; /* its number */
};

struct pfw_rows_want {
	int64_t since_ns, until_ns; /* what overlaps [since, until), and all metadata */
	uint64_t order;		    /* of the first line */
	uint64_t pid;		    /* of this process only; 0: all */
	bool begins_file;	    /* `process` lines at its begin stand in front of all */
};

/*
 * Take the lines of rows->text.data[begin..bytes) apart (which may be changed: see above), keep what
 * is wanted, and put it in order of ts, then as they stood.  A line without a ts goes with the one
 * before it.  What is no line of a trace is told and left out; brackets and blank lines are left out.
 * Return 0 or -ENOMEM.  Thread: any.
 */
int pfw_rows_scan(struct pfw_rows *rows, size_t begin, const struct pfw_rows_want *want,
		  struct pfw_problems *problems);

/* Bytes of memory that the rows take. */
size_t pfw_rows_bytes(const struct pfw_rows *rows);

void pfw_rows_free(struct pfw_rows *rows);

#endif
