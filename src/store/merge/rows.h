/* store/merge/rows.h - the lines of a block in order of ts.
 *
 * Lines are passed on verbatim.  For the order only their head is parsed, up to the time; a line in
 * an unusual form is parsed in full.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "store/read/scan.h"
#include "store/read/stream.h"

#define PFW_ROW_FIRST INT64_MIN	      /* ts of a line that precedes all others */
#define PFW_ROW_NO_TS (INT64_MIN + 1) /* use the ts of a neighbour; the end of such a first line */

struct pfw_row {
	int64_t ts_ns, end_ns; /* end: ts + dur */
	uint64_t order;	       /* among equal ts: pfw_row_order() */
	uint64_t hash;	       /* pfw_linehash() */
	uint32_t at;	       /* in the text */
	uint32_t bytes : 31;   /* with its '\n' */
	uint32_t metadata : 1; /* ph M */
};

/* The position of a line: file, block, and line of the block. */
static inline uint64_t pfw_row_order(size_t file, size_t block, size_t line)
{
	return (uint64_t)file << 46 | (uint64_t)(block & 0x3fffff) << 24 | (line & 0xffffff);
}

struct pfw_rows {
	struct pfw_buffer text; /* of whole lines, without trailing commas */
	struct pfw_row *row;
	size_t count, room;
	size_t metadata;   /* rows with ph M */
	uint64_t checksum; /* sum of their hashes */
	uint64_t pid;	   /* of all lines; 0: they differ */
	bool mended;	   /* the text was changed: see pfw_rows_scan() */
	/* Not NULL: the text is in this file, and `at` of a row is relative to this offset. */
	const char *path;
	uint64_t path_at;
	uint32_t file; /* its number */
};

struct pfw_rows_want {
	int64_t since_ns, until_ns; /* lines that overlap [since, until), and all metadata */
	uint64_t order;		    /* of the first line */
	uint64_t pid;		    /* of this process only; 0: all */
	bool begins_file;	    /* leading `process` lines precede all others */
};

/* Scan the lines of rows->text.data[begin..bytes), which may be changed; keep selected lines in
 * order of ts, then of position.  A line without a ts follows its predecessor.  Invalid lines are
 * reported and left out, brackets and blank lines left out.  Return 0 or -ENOMEM.  Thread: any. */
int pfw_rows_scan(struct pfw_rows *rows, size_t begin, const struct pfw_rows_want *want,
		  struct pfw_problems *problems);

void pfw_rows_free(struct pfw_rows *rows);
