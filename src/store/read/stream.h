/* store/read/stream.h - the text of an input as whole lines, in order. */
#pragma once

#include "store/read/input.h"
#include "store/read/scan.h"

/* A growing buffer of text. */
struct pfw_buffer {
	char *data;
	size_t bytes, room;
};

/* Have room for that many bytes.  0 or -ENOMEM.  Thread: one at a time. */
int pfw_buffer_room(struct pfw_buffer *text, size_t room);
/* Append. */
int pfw_buffer_add(struct pfw_buffer *text, const char *more, size_t bytes);
void pfw_buffer_free(struct pfw_buffer *text);

struct pfw_stream {
	struct pfw_input *input;
	uint64_t at;		/* place in the text after the lines returned so far */
	struct pfw_buffer rest; /* the begin of a line whose end is not read yet */
	uint64_t skipped;	/* bytes so far of a line that is too long */
	bool ended;
};

/* Append whole lines to *text: all that end in the next `want` bytes, or one longer line.  The cuts
 * depend on the text alone, so that the same blocks are found again.  Fewer are appended at the end
 * of the input (stream->ended) and before a problem (its `line` counts from the appended lines,
 * from 1).  Return 0, -ENOMEM, or another -errno, which is a problem, too, if reading cannot go on.
 * Thread: one at a time. */
int pfw_stream_read(struct pfw_stream *stream, struct pfw_buffer *text, size_t want,
		    struct pfw_problems *problems);

/* Free the memory and close the input. */
void pfw_stream_close(struct pfw_stream *stream);
