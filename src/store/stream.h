/* stream.h - the text of an input as whole lines, about PFW_BLOCK_TEXT at a time, in order. */
#ifndef PFW_STREAM_H
#define PFW_STREAM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "input.h"
#include "problems.h"

/* Text in memory that grows. */
struct pfw_text {
	char *data;
	size_t bytes, room;
};

/* Have room for that many bytes.  0 or -ENOMEM.  Thread: one at a time. */
int pfw_text_room(struct pfw_text *text, size_t room);
void pfw_text_free(struct pfw_text *text);

struct pfw_stream {
	struct pfw_input *input;
	uint64_t at;	      /* byte of the text behind what was given */
	struct pfw_text rest; /* begin of a line whose end is still to come */
	uint64_t skipped;     /* bytes of a line that is too long and still goes on; not kept */
	bool ended;
};

/*
 * Append whole lines to *text: all that end in the next `want` bytes, or one that is longer.  What is
 * given at once depends on the text alone, so that blocks are found again.  Or less, where the input
 * ends (stream->ended) or there is a problem to be told behind them (`line` of it then counts from the lines appended,
 * from 1).  Return 0, -ENOMEM, or another -errno, also told, where nothing more can be read.
 * Thread: one at a time.
 */
int pfw_stream_read(struct pfw_stream *stream, struct pfw_text *text, size_t want,
		    struct pfw_problems *problems);

/* Frees stream->rest, and closes the input. */
void pfw_stream_close(struct pfw_stream *stream);

#endif
