/* spool_lines.h - the lines that a spool still holds, as its writer would have written them: events,
 * losses, and of a dead process the `end` with reason "recovered".
 */
#ifndef PFW_SPOOL_LINES_H
#define PFW_SPOOL_LINES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "json.h"

struct pfw_spool_image;
struct pfw_spool_reading; /* where it stands: see spool_lines.c */

struct pfw_spool_lines {
	/* In. */
	const char *spool_path; /* named in the first line; lasts */
	bool first_line;	/* the file is new: begin with `process` */
	bool live; /* the process goes on: no `end`, and what is unfinished is no loss */
	/* Out; the figures once all is read. */
	struct pfw_json json; /* lines, least_ns and greatest_ns: of the last piece */
	uint64_t recovered;   /* events */
	uint64_t torn;
	uint64_t lost; /* what `end` says, torn included */
	struct pfw_spool_reading *reading;
};

/* Whether the spool holds anything that a trace has to tell: records or losses. */
int pfw_spool_has_lines(const struct pfw_spool_image *image);

/*
 * Begin with an image, which must last.  Return 0 or -ENOMEM; then there is nothing to end.
 * Reading changes image->header's losses (of the copy): torn ones are added.
 */
int pfw_spool_lines_begin(struct pfw_spool_lines *lines, struct pfw_spool_image *image);

/* The next piece: whole lines, at most PFW_GZIP_TEXT_MAX bytes, good until the next call, with
 * PFW_ENTRY_PADDING zeroes behind.  Return its bytes, 0 at the end. */
size_t pfw_spool_lines_next(struct pfw_spool_lines *lines, const char **text);

void pfw_spool_lines_end(struct pfw_spool_lines *lines);

#endif
