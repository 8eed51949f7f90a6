/* store/recover/lines.h - the lines of the records in a spool, as its writer would write them.
 *
 * Events, losses and, for a dead process, `end` with reason "recovered".
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/encode/encode.h"

struct pfw_spool_image;
struct pfw_spool_reading; /* the position: see lines.c */

struct pfw_spool_lines {
	/* Set by the caller. */
	const char *spool_path; /* written into the first line; must last */
	bool first_line;	/* the file is new: begin with `process` */
	bool live;		/* the process runs: no `end`, and unfinished records are no loss */
	/* Results; the counts are valid after the last piece. */
	struct pfw_json json; /* lines, least_ns and greatest_ns: of the last piece */
	uint64_t recovered;   /* events */
	uint64_t torn;
	uint64_t lost; /* total of `end`, torn records included */
	struct pfw_spool_reading *reading;
};

/* Whether the spool holds records or losses that a trace needs. */
int pfw_spool_has_lines(const struct pfw_spool_image *image);

/* Begin with an image, which must last.  Return 0, or -ENOMEM: then do not call end.  Reading adds
 * torn records to the losses in image->header (a copy). */
int pfw_spool_lines_begin(struct pfw_spool_lines *lines, struct pfw_spool_image *image);

/* The next piece: whole lines of at most PFW_GZIP_TEXT_MAX bytes, followed by PFW_ENTRY_PADDING
 * zeroes, valid until the next call.  Return its bytes, 0 at the end. */
size_t pfw_spool_lines_next(struct pfw_spool_lines *lines, const char **text);

void pfw_spool_lines_end(struct pfw_spool_lines *lines);
