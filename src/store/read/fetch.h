/* store/read/fetch.h - reads the text of one block of a file. */
#pragma once

#include "store/read/blocks.h"
#include "store/read/scan.h"
#include "store/read/stream.h"

/* The memory and open files of one thread; begin with zeroes. */
struct pfw_fetch {
	struct pfw_unzip *unzip;
	struct pfw_buffer packed;
	/* for pfw_fetch_streamed() */
	struct pfw_input *input;
	const char *path;
	uint64_t text_at;
};

/* The lines of a block: text.data[begin..text.bytes). */
struct pfw_fetched {
	struct pfw_buffer text; /* kept from call to call */
	size_t begin;
	uint64_t at; /* place of the lines in the text of the file; 0 for MEMBERS */
};

/* Replace *fetched by the lines of a block of TEXT or MEMBERS of the file `path`, open as `fd`.
 * Only pread() is used, so that threads share the descriptor, and truncation of the file is a
 * problem, not a SIGBUS.  A member that is damaged or differs from its header is a problem, and its
 * readable text is returned.  Problems with a line come after the last line; their `line` counts
 * from there, from 1.  Return 0, -ENOMEM, or another -errno, which is a problem, too.  Thread: any,
 * each with its own fetch. */
int pfw_fetch_block(struct pfw_fetch *fetch, const char *path, int fd, enum pfw_layout layout,
		    const struct pfw_block *block, struct pfw_fetched *fetched,
		    struct pfw_problems *problems);

/* The same for a block of a STREAM with seek points.  Reading continues if the blocks are
 * consecutive.  `path` must last. */
int pfw_fetch_streamed(struct pfw_fetch *fetch, const char *path, const struct pfw_points *points,
		       const struct pfw_block *block, struct pfw_fetched *fetched,
		       struct pfw_problems *problems);

void pfw_fetch_free(struct pfw_fetch *fetch);
