/* tools/import/read.c - splits the JSON of a chrome trace into values, one in memory at a time.
 *
 * It reads both forms: an object with `traceEvents`, and a bare array, which may lack its end.
 * Values are only cut out, without white space; the strict reader parses them later.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "import/import.h"
#include "store/read/input.h"
#include "store/read/scan.h"

#define CHUNK (256u << 10)

enum where { BEGIN, OBJECT, EVENTS, BARE, BEHIND };

struct import_reader {
	struct pfw_input *input;
	enum where where;
	bool ended, first;
	const char *why;
	struct pfw_buffer key, value;
	uint64_t base; /* offset of chunk[0] in the text */
	size_t at, end;
	char problem[256];
	char chunk[CHUNK];
};

int import_reader_open(struct import_reader **out, const char *path)
{
	struct import_reader *reader = calloc(1, sizeof(*reader));
	int error = reader ? pfw_input_open(&reader->input, path) : -ENOMEM;

	if (error) {
		free(reader);
		return error;
	}
	*out = reader;
	return 0;
}

void import_reader_close(struct import_reader *reader)
{
	if (!reader)
		return;
	pfw_input_close(reader->input);
	pfw_buffer_free(&reader->key);
	pfw_buffer_free(&reader->value);
	free(reader);
}

/* ---- bytes ---- */

static bool fill(struct import_reader *reader)
{
	ssize_t bytes;

	if (reader->ended)
		return false;
	reader->base += reader->end;
	reader->at = reader->end = 0;
	bytes = pfw_input_read(reader->input, reader->chunk, sizeof(reader->chunk));
	if (bytes > 0) {
		reader->end = (size_t)bytes;
		return true;
	}
	reader->ended = true;
	if (bytes < 0) {
		snprintf(reader->problem, sizeof(reader->problem), "%s",
			 bytes == -EBADMSG ? pfw_input_problem(reader->input)
					   : strerror((int)-bytes));
		reader->why = reader->problem;
	}
	return false;
}

/* The next byte that is not white space, or -1. */
static int peek(struct import_reader *reader)
{
	for (;;) {
		while (reader->at < reader->end) {
			char c = reader->chunk[reader->at];

			if (c != ' ' && c != '\n' && c != '\t' && c != '\r')
				return (unsigned char)c;
			reader->at++;
		}
		if (!fill(reader))
			return -1;
	}
}

static bool fail(struct import_reader *reader, const char *why)
{
	if (!reader->why)
		reader->why = why;
	return false;
}

static bool add(struct import_reader *reader, struct pfw_buffer *text, const char *from,
		size_t bytes)
{
	if (text->bytes + bytes > PFW_SCAN_LINE_MAX)
		return fail(reader, "a value of more than 16 MiB");
	return !pfw_buffer_add(text, from, bytes) || fail(reader, strerror(ENOMEM));
}

/* ---- values ---- */

/* Copy a string with its quotes; the next byte is its opening quote. */
static bool copy_string(struct import_reader *reader, struct pfw_buffer *text)
{
	size_t begin = reader->at++;
	bool escape = false;

	for (;;) {
		while (reader->at < reader->end) {
			char c = reader->chunk[reader->at++];

			if (escape)
				escape = false;
			else if (c == '\\')
				escape = true;
			else if (c == '"')
				return add(reader, text, reader->chunk + begin, reader->at - begin);
		}
		if (!add(reader, text, reader->chunk + begin, reader->at - begin))
			return false;
		if (!fill(reader))
			return fail(reader, "it ends inside a text");
		begin = 0;
	}
}

/* Copy a number or a word. */
static bool copy_word(struct import_reader *reader, struct pfw_buffer *text)
{
	size_t begin = reader->at;

	for (;;) {
		while (reader->at < reader->end) {
			char c = reader->chunk[reader->at];

			if (c == ',' || c == ':' || c == '"' || c == '{' || c == '[' || c == '}' ||
			    c == ']' || (unsigned char)c <= ' ')
				return add(reader, text, reader->chunk + begin, reader->at - begin);
			reader->at++;
		}
		if (!add(reader, text, reader->chunk + begin, reader->at - begin) || !fill(reader))
			return !reader->why;
		begin = 0;
	}
}

/* Copy one value without white space. */
static bool copy_value(struct import_reader *reader, struct pfw_buffer *text)
{
	uint64_t depth = 0;
	int c;

	text->bytes = 0;
	do {
		c = peek(reader);
		if (c < 0)
			return fail(reader, "it ends inside a value");
		if (c < ' ')
			return fail(reader, "a control character outside of a text");
		if (c == '"') {
			if (!copy_string(reader, text))
				return false;
			continue;
		}
		if (!strchr("{}[],:", c)) {
			if (!copy_word(reader, text))
				return false;
			continue;
		}
		if (!depth && c != '{' && c != '[')
			return fail(reader, "a value is missing");
		depth += c == '{' || c == '[';
		depth -= c == '}' || c == ']';
		if (!add(reader, text, reader->chunk + reader->at++, 1))
			return false;
	} while (depth);
	return true;
}

/* ---- items ---- */

/* Skip the comma before the second and later elements.  Return whether there is another element. */
static bool goes_on(struct import_reader *reader, char close)
{
	int c = peek(reader);

	/* Extra commas are allowed: several writers put one after the last event. */
	while (!reader->first && c == ',') {
		reader->at++;
		c = peek(reader);
	}
	reader->first = false;
	if (c == close) {
		reader->at++;
		return false;
	}
	if (c < 0 && reader->where != BARE)
		return fail(reader, "it ends before its last bracket");
	return c >= 0;
}

static enum import_item next_event(struct import_reader *reader, struct import_value *value)
{
	if (!goes_on(reader, ']')) {
		reader->where = reader->where == BARE ? BEHIND : OBJECT;
		return reader->why ? IMPORT_BROKEN : IMPORT_MEMBER;
	}
	value->at = reader->base + reader->at;
	if (!copy_value(reader, &reader->value))
		return IMPORT_BROKEN;
	value->text = (struct pfw_slice){ .at = reader->value.data, .bytes = reader->value.bytes };
	return IMPORT_EVENT;
}

static enum import_item next_member(struct import_reader *reader, struct import_value *value)
{
	if (!goes_on(reader, '}')) {
		reader->where = BEHIND;
		return reader->why ? IMPORT_BROKEN : IMPORT_END;
	}
	value->at = reader->base + reader->at;
	reader->key.bytes = 0;
	if (peek(reader) != '"' || !copy_string(reader, &reader->key) || peek(reader) != ':') {
		fail(reader, "no key where one should be");
		return IMPORT_BROKEN;
	}
	reader->at++;
	value->key =
		(struct pfw_slice){ .at = reader->key.data + 1, .bytes = reader->key.bytes - 2 };
	if (pfw_slice_is(&value->key, "traceEvents") && peek(reader) == '[') {
		reader->at++;
		reader->where = EVENTS;
		reader->first = true;
		return IMPORT_EVENT;
	}
	if (!copy_value(reader, &reader->value))
		return IMPORT_BROKEN;
	value->text = (struct pfw_slice){ .at = reader->value.data, .bytes = reader->value.bytes };
	return IMPORT_MEMBER;
}

static bool begin(struct import_reader *reader)
{
	int c = peek(reader);

	if (c != '{' && c != '[')
		return fail(reader,
			    c < 0 ? "it is empty" : "not JSON: neither an object nor an array");
	reader->at++;
	reader->first = true;
	reader->where = c == '{' ? OBJECT : BARE;
	return true;
}

enum import_item import_reader_next(struct import_reader *reader, struct import_value *value)
{
	enum import_item item = IMPORT_BROKEN;

	*value = (struct import_value){ .at = reader->base + reader->at };
	if (!reader->why && (reader->where != BEGIN || begin(reader))) {
		/* The brackets of the event list are no items. */
		do {
			item = reader->where == BEHIND	 ? IMPORT_END
			       : reader->where == OBJECT ? next_member(reader, value)
							 : next_event(reader, value);
		} while ((item == IMPORT_MEMBER || item == IMPORT_EVENT) && !value->text.at);
	}
	if (item == IMPORT_END && peek(reader) >= 0)
		fail(reader, "there is something behind the end");
	if (reader->why) {
		value->at = reader->base + reader->at;
		value->why = reader->why;
		return IMPORT_BROKEN;
	}
	return item;
}
