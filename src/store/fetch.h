/* fetch.h - the text of one block of a file: plain text by its place, or one member. */
#ifndef PFW_FETCH_H
#define PFW_FETCH_H

#include <stdint.h>

#include "blocks.h"
#include "problems.h"
#include "stream.h"

/* What a thread needs to fetch; begin with zeroes. */
struct pfw_fetch {
	struct pfw_unzip *unzip;
	struct pfw_text packed;
	/* Open for pfw_fetch_streamed(), and where it is. */
	struct pfw_input *input;
	const char *path;
	uint64_t text_at;
};

/* The lines of a block: text.data[begin..text.bytes). */
struct pfw_fetched {
	struct pfw_text text; /* kept from call to call */
	size_t begin;
	uint64_t at; /* byte of the file's text where they begin; of MEMBERS 0 */
};

/*
 * Replace what is in *fetched by the lines of a block of TEXT or MEMBERS of the file `path`, open as `fd`.
 * pread() only, so that threads share
 * the descriptor, and a file that is cut meanwhile is a problem, not a SIGBUS.  A member that is
 * damaged, or not what its header says, is a problem, and what can be read of it is there.  Problems
 * with a line are behind the last one: their `line` counts from there, from 1.
 * Return 0, -ENOMEM, or another -errno, also told.  Thread: any, each with a fetch of its own.
 */
int pfw_fetch_block(struct pfw_fetch *fetch, const char *path, int fd, enum pfw_layout layout,
		    const struct pfw_block *block, struct pfw_fetched *fetched,
		    struct pfw_problems *problems);

/* The same for a block of a STREAM, of which the points are known.  Blocks that are asked for one
 * behind the other are read on.  `path` must last. */
int pfw_fetch_streamed(struct pfw_fetch *fetch, const char *path, const struct pfw_points *points,
		       const struct pfw_block *block, struct pfw_fetched *fetched,
		       struct pfw_problems *problems);

void pfw_fetch_free(struct pfw_fetch *fetch);

#endif
