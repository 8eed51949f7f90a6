/* source.h - records that reach the writer by another way than a ring, and what is to say of them.
 *
 * The GPU's buffers are such a source: the writer takes records from it as it does from rings, without
 * knowing whose they are.  A source that is gone with its process has nothing to recover.
 */
#ifndef PFW_SOURCE_H
#define PFW_SOURCE_H

#include <stdint.h>

#include "record.h"

/* A figure for the metadata line that the source's events end with; 0 is not written. */
struct pfw_source_figure {
	const char *key;
	uint64_t value;
};

struct pfw_source {
	const char *name; /* of that line */
	/* The next record, *slots long with its tail, good until the next call; NULL: none for now.
	 * Thread: drain. */
	const struct pfw_record *(*next)(unsigned *slots);
	/* Fill at most `room` figures and return how many there are.  Thread: drain. */
	unsigned (*figures)(struct pfw_source_figure *figure, unsigned room);
};

#endif
