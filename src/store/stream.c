/* stream.c - the text of an input as whole lines; see stream.h. */
#include "stream.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* Read at once: enough to keep the calls rare. */
#define PIECE (64u * 1024u)
#define PIECES (1u << 20)

int pfw_text_room(struct pfw_text *text, size_t room)
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

void pfw_text_free(struct pfw_text *text)
{
	free(text->data);
	*text = (struct pfw_text){ 0 };
}

/* What the input said, with how much of the file could be read before it. */
static int tell_input(struct pfw_stream *stream, int error, bool cut, struct pfw_problems *problems)
{
	if (error == -EBADMSG) {
		pfw_problems_add(problems, 0, pfw_input_problem_at(stream->input), "%s%s",
				 pfw_input_problem(stream->input),
				 cut ? "; part of a line before it is left out" : "");
		return 0;
	}
	if (error != -ENOMEM)
		pfw_problems_add(problems, 0, pfw_input_at(stream->input), "cannot be read: %s",
				 strerror(-error));
	return error;
}

/* Keep all of text[begin..] for the next call. */
static int put_back(struct pfw_stream *stream, struct pfw_text *text, size_t begin)
{
	size_t bytes = text->bytes - begin;
	int error = pfw_text_room(&stream->rest, bytes);

	if (error)
		return error;
	memcpy(stream->rest.data, text->data + begin, bytes);
	stream->rest.bytes = bytes;
	text->bytes = begin;
	return 0;
}

/* Give the whole lines of text[begin..], keep the rest of it. */
static int split(struct pfw_stream *stream, struct pfw_text *text, size_t begin)
{
	char *last = memrchr(text->data + begin, '\n', text->bytes - begin);
	size_t end = last ? (size_t)(last - text->data) + 1 : begin;

	stream->at += end - begin;
	return put_back(stream, text, end);
}

/* Behind a line that is too long, or inside it: pass over up to its end.  Whether it ended. */
static bool skip(struct pfw_stream *stream, struct pfw_text *text, size_t begin)
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

/* The end, or damage: what is left of a line is the last one, or left out. */
static int finish(struct pfw_stream *stream, struct pfw_text *text, size_t begin, int got,
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
	error = split(stream, text, begin);
	stream->at += before - text->bytes;
	stream->rest.bytes = 0;
	return error ? error : tell_input(stream, got, before > text->bytes, problems);
}

int pfw_stream_read(struct pfw_stream *stream, struct pfw_text *text, size_t want,
		    struct pfw_problems *problems)
{
	size_t begin = text->bytes;
	int error = pfw_text_room(text, begin + want + stream->rest.bytes + PIECE);

	if (error)
		return error;
	if (stream->rest.bytes)
		memcpy(text->data + begin, stream->rest.data, stream->rest.bytes);
	text->bytes += stream->rest.bytes;
	stream->rest.bytes = 0;
	for (;;) {
		size_t looked = text->bytes, size;
		ssize_t got;

		error = pfw_text_room(text, text->bytes + PIECE);
		if (error)
			return error;
		size = text->room - text->bytes;
		got = pfw_input_read(stream->input, text->data + looked,
				     size < PIECES ? size : PIECES);
		if (got <= 0)
			return finish(stream, text, begin, (int)got, problems);
		text->bytes += (size_t)got;
		if (stream->skipped) {
			if (!skip(stream, text, begin))
				continue;
			tell_long(stream, true, problems);
			return put_back(stream, text, begin);
		}
		if (text->bytes - begin < want)
			continue;
		if (memrchr(text->data + looked, '\n', text->bytes - looked) ||
		    memrchr(text->data + begin, '\n', looked - begin))
			return split(stream, text, begin);
		if (text->bytes - begin > PFW_SCAN_LINE_MAX)
			skip(stream, text, begin);
	}
}

void pfw_stream_close(struct pfw_stream *stream)
{
	pfw_input_close(stream->input);
	pfw_text_free(&stream->rest);
	*stream = (struct pfw_stream){ 0 };
}
