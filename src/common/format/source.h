/* common/format/source.h - a source of records besides the rings.
 *
 * CUPTI's buffers are a source.  The writer takes records from a source as from a ring and does not
 * know what it is.  Recovery finds nothing of a source: it is gone with its process.
 */
#pragma once

#include <stdint.h>

#include "common/format/record.h"

/* A figure of the metadata line that follows the source's events; 0 is not written. */
struct pfw_source_figure {
	const char *key;
	uint64_t value;
};

struct pfw_source {
	const char *name; /* of the metadata line */
	/* The next record, *slots long with its tail, valid until the next call; NULL: none now.
	 * Thread: drain. */
	const struct pfw_record *(*next)(unsigned *slots);
	/* Fill at most `room` figures and return their number.  Thread: drain. */
	unsigned (*figures)(struct pfw_source_figure *figure, unsigned room);
};
