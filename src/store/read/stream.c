/* store/read/stream.c - the text of an input as whole lines; see stream.h. */
#include "store/read/stream.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* Read at once from a line that is longer than what is wanted. */
#define PIECE (64u * 1024u)

int pfw_buffer_room(struct pfw_buffer *text, size_t room)
{
	size_t wanted = text->room ? text->room : PIECE;
	char *bigger;

	if (room <= text->room)
		return 0;
	while (wanted < room)
		wanted *= 2;
	bigger = realloc(text->data, wanted);
	if (!bigger)
		return -ENOMEM;
	text->data = bigger;
	text->room = wanted;
	return 0;
}

int pfw_buffer_add(struct pfw_buffer *text, const char *more, size_t bytes)
{
	if (pfw_buffer_room(text, text->bytes + bytes))
		return -ENOMEM;
	if (bytes)
		memcpy(text->data + text->bytes, more, bytes);
	text->bytes += bytes;
	return 0;
}

void pfw_buffer_free(struct pfw_buffer *text)
{
	free(text->data);
	*text = (struct pfw_buffer){ 0 };
}

/* Report the error of the input.  Return 0 if reading may go on. */
static int tell_input(struct pfw_stream *stream, int error, bool cut, struct pfw_problems *problems)
{
	if (error == -EBADMSG) {
		pfw_problems_add(problems, 0, pfw_input_problem_at(stream->input), "%s%s",
				 pfw_input_problem(stream->input),
				 cut ? "; part of a line before it is left out" : "");
		return 0;
	}
	if (error != -ENOMEM)
		pfw_problems_add(problems, 0, pfw_input_at(stream->input),
				 PFW_PROBLEM_CANNOT "read: %s", strerror(-error));
	return error;
}

/* Keep text[begin..] for the next call. */
static int put_back(struct pfw_stream *stream, struct pfw_buffer *text, size_t begin)
{
	size_t bytes = text->bytes - begin;

	stream->rest.bytes = 0;
	text->bytes = begin;
	return pfw_buffer_add(&stream->rest, text->data + begin, bytes);
}

/* Return text[begin..end) to the caller and keep what is after it. */
static int give(struct pfw_stream *stream, struct pfw_buffer *text, size_t begin, size_t end)
{
	stream->at += end - begin;
	return put_back(stream, text, end);
}

/* The byte after the last '\n' of text[begin..], or `begin`. */
static size_t behind_last(const struct pfw_buffer *text, size_t begin)
{
	const char *last = memrchr(text->data + begin, '\n', text->bytes - begin);

	return last ? (size_t)(last - text->data) + 1 : begin;
}

/* Remove the bytes of a line that is too long, up to its end.  Return whether it ended. */
static bool skip(struct pfw_stream *stream, struct pfw_buffer *text, size_t begin)
{
	char *end = memchr(text->data + begin, '\n', text->bytes - begin);
	size_t count = end ? (size_t)(end - text->data) + 1 - begin : text->bytes - begin;

	stream->skipped += count - (end != NULL);
	stream->at += count;
	memmove(text->data + begin, text->data + begin + count, text->bytes - begin - count);
	text->bytes -= count;
	return end;
}

static void tell_long(struct pfw_stream *stream, bool whole, struct pfw_problems *problems)
{
	pfw_problems_add_long(problems, 1, stream->at - stream->skipped - whole, stream->skipped);
	stream->skipped = 0;
}

/* The end, or damage: the rest of a line is the last line at the end, and is left out at damage. */
static int finish(struct pfw_stream *stream, struct pfw_buffer *text, size_t begin, int got,
		  struct pfw_problems *problems)
{
	size_t before = text->bytes;
	int error;

	if (stream->skipped) {
		tell_long(stream, false, problems);
		stream->ended = got == 0;
		return got < 0 ? tell_input(stream, got, false, problems) : 0;
	}
	if (got == 0) {
		stream->ended = true;
		stream->at += text->bytes - begin;
		return 0;
	}
	error = give(stream, text, begin, behind_last(text, begin));
	stream->at += before - text->bytes;
	stream->rest.bytes = 0;
	return error ?: tell_input(stream, got, before > text->bytes, problems);
}

/* Read up to `size` bytes more.  Return their number, 0 at the end, or -errno. */
static ssize_t read_more(struct pfw_stream *stream, struct pfw_buffer *text, size_t size)
{
	ssize_t got;
	int error = pfw_buffer_room(text, text->bytes + size);

	if (error)
		return error;
	got = pfw_input_read(stream->input, text->data + text->bytes, size);
	if (got > 0)
		text->bytes += (size_t)got;
	return got;
}

/* Begin with the kept bytes. */
static int begin_text(struct pfw_stream *stream, struct pfw_buffer *text, size_t want)
{
	int error = pfw_buffer_room(text, text->bytes + want + stream->rest.bytes);

	if (error)
		return error;
	pfw_buffer_add(text, stream->rest.data, stream->rest.bytes); /* has the room */
	stream->rest.bytes = 0;
	return 0;
}

int pfw_stream_read(struct pfw_stream *stream, struct pfw_buffer *text, size_t want,
		    struct pfw_problems *problems)
{
	size_t begin = text->bytes, looked = begin;
	int error = begin_text(stream, text, want);

	if (error)
		return error;
	for (;;) {
		size_t have = text->bytes - begin;
		ssize_t got;
		char *first;

		/* Whole lines up to here, or, if there is none, the one line that goes on. */
		if (!stream->skipped && have >= want && looked == begin) {
			looked = behind_last(text, begin);
			if (looked > begin)
				return give(stream, text, begin, looked);
		}
		first = have >= want ? memchr(text->data + looked, '\n', text->bytes - looked)
				     : NULL;
		if (!stream->skipped && first)
			return give(stream, text, begin, (size_t)(first - text->data) + 1);
		if (have > PFW_SCAN_LINE_MAX || stream->skipped) {
			if (skip(stream, text, begin)) {
				tell_long(stream, true, problems);
				return put_back(stream, text, begin);
			}
			have = 0;
		}
		looked = have < want ? begin : text->bytes;
		got = read_more(stream, text, have < want ? want - have : PIECE);
		if (got <= 0)
			return finish(stream, text, begin, (int)got, problems);
	}
}

void pfw_stream_close(struct pfw_stream *stream)
{
	pfw_input_close(stream->input);
	pfw_buffer_free(&stream->rest);
	*stream = (struct pfw_stream){ 0 };
}
