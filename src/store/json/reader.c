/* store/json/reader.c - a strict JSON reader that copies nothing; see reader.h. */
#include "store/json/reader.h"

#include <string.h>

#include "store/json/swar.h"

bool pfw_reader_fail(struct pfw_reader *reader, const char *at, const char *why)
{
	if (!reader->why) {
		reader->why = why;
		reader->why_at = at;
	}
	return false;
}

/* ---- strings ---- */

static int hex_digit(char c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	c |= 0x20;
	return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

int pfw_hex4(const char *at, const char *end)
{
	int value = 0;

	if (end - at < 4)
		return -1;
	for (int i = 0; i < 4; i++) {
		int digit = hex_digit(at[i]);

		if (digit < 0)
			return -1;
		value = value << 4 | digit;
	}
	return value;
}

/* One escape, reader->at on its backslash. */
static bool read_escape(struct pfw_reader *reader)
{
	const char *at = reader->at;
	int unit;

	reader->escaped = true;
	if (reader->end - at < 2)
		return pfw_reader_fail(reader, at, "a string without its closing quote");
	if (at[1] != 'u') {
		reader->at += 2;
		return memchr("\"\\/bfnrt", at[1], 8)
			       ? true
			       : pfw_reader_fail(reader, at, "an unknown escape");
	}
	unit = pfw_hex4(at + 2, reader->end);
	if (unit < 0)
		return pfw_reader_fail(reader, at, "\\u without four hexadecimal digits");
	reader->at += 6;
	if (unit < 0xd800 || unit > 0xdfff)
		return true;
	at = reader->at;
	unit = unit < 0xdc00 && reader->end - at >= 2 && at[0] == '\\' && at[1] == 'u'
		       ? pfw_hex4(at + 2, reader->end)
		       : -1;
	if (unit < 0xdc00 || unit > 0xdfff)
		return pfw_reader_fail(reader, at - 6, "half of a surrogate pair");
	reader->at += 6;
	return true;
}

/* One character of more than one byte: Unicode's table 3-7 (no overlong forms, no surrogates). */
static bool read_utf8(struct pfw_reader *reader)
{
	const unsigned char *at = (const unsigned char *)reader->at;
	ptrdiff_t left = reader->end - reader->at;
	unsigned char first = at[0], low = 0x80, high = 0xbf;
	int more = first >= 0xf0 ? 3 : first >= 0xe0 ? 2 : 1;

	if (first < 0xc2 || first > 0xf4 || left <= more)
		return pfw_reader_fail(reader, reader->at, "bytes that are not UTF-8");
	if (first == 0xe0)
		low = 0xa0;
	else if (first == 0xed)
		high = 0x9f;
	else if (first == 0xf0)
		low = 0x90;
	else if (first == 0xf4)
		high = 0x8f;
	if (at[1] < low || at[1] > high)
		return pfw_reader_fail(reader, reader->at, "bytes that are not UTF-8");
	for (int i = 2; i <= more; i++) {
		if (at[i] < 0x80 || at[i] > 0xbf)
			return pfw_reader_fail(reader, reader->at, "bytes that are not UTF-8");
	}
	reader->at += more + 1;
	return true;
}

/* Pass over plain bytes, 16 at a time: most names and paths have no others. */
static inline void skip_plain(struct pfw_reader *reader)
{
	while (reader->end - reader->at >= 16) {
		unsigned plain = pfw_bytes_plain16(reader->at);

		reader->at += plain;
		if (plain < 16)
			return;
	}
}

bool pfw_reader_string(struct pfw_reader *reader)
{
	const char *start = reader->at - 1;

	reader->escaped = false;
	for (;;) {
		unsigned char c;

		skip_plain(reader);
		if (reader->at >= reader->end)
			return pfw_reader_fail(reader, start, "a string without its closing quote");
		c = (unsigned char)*reader->at;
		if (c == '"') {
			reader->at++;
			return true;
		}
		if (c == '\\') {
			if (!read_escape(reader))
				return false;
		} else if (c >= 0x80) {
			if (!read_utf8(reader))
				return false;
		} else if (c < 0x20) {
			return pfw_reader_fail(reader, reader->at,
					       "a control character inside a string");
		} else {
			reader->at++;
		}
	}
}

/* ---- other values ---- */

static bool read_digits(struct pfw_reader *reader)
{
	if (!pfw_reader_at_digit(reader))
		return pfw_reader_fail(reader, reader->at, "not a JSON value");
	while (pfw_reader_at_digit(reader))
		reader->at++;
	return true;
}

bool pfw_reader_number(struct pfw_reader *reader)
{
	const char *start = reader->at;

	pfw_reader_take(reader, '-');
	if (pfw_reader_take(reader, '0')) {
		if (pfw_reader_at_digit(reader))
			return pfw_reader_fail(reader, start, "a number that begins with 0");
	} else if (!read_digits(reader)) {
		return false;
	}
	if (pfw_reader_take(reader, '.') && !read_digits(reader))
		return false;
	if (pfw_reader_take(reader, 'e') || pfw_reader_take(reader, 'E')) {
		if (!pfw_reader_take(reader, '+'))
			pfw_reader_take(reader, '-');
		return read_digits(reader);
	}
	return true;
}

static bool read_word(struct pfw_reader *reader, const char *word)
{
	size_t bytes = strlen(word);

	if ((size_t)(reader->end - reader->at) < bytes || memcmp(reader->at, word, bytes) != 0)
		return pfw_reader_fail(reader, reader->at, "not a JSON value");
	reader->at += bytes;
	return true;
}

/* A value that is neither object nor array. */
static bool read_scalar(struct pfw_reader *reader)
{
	if (reader->at >= reader->end)
		return pfw_reader_fail(reader, reader->end,
				       "the line ends in the middle of a value");
	switch (*reader->at) {
	case '"':
		reader->at++;
		return pfw_reader_string(reader);
	case 't':
		return read_word(reader, "true");
	case 'f':
		return read_word(reader, "false");
	case 'n':
		return read_word(reader, "null");
	default:
		return pfw_reader_number(reader);
	}
}

bool pfw_reader_key(struct pfw_reader *reader, struct pfw_slice *key)
{
	if (!pfw_reader_at(reader, '"'))
		return pfw_reader_fail(reader, reader->at, "a key that is not a string");
	key->at = ++reader->at;
	if (!pfw_reader_string(reader))
		return false;
	key->bytes = (size_t)(reader->at - 1 - key->at);
	key->escaped = reader->escaped;
	pfw_reader_space(reader);
	if (!pfw_reader_take(reader, ':'))
		return pfw_reader_fail(reader, reader->at, "a key without its colon");
	pfw_reader_space(reader);
	return true;
}

/* The objects and arrays that are open, one bit each, 1 = object.  There is no recursion: a hostile
 * line must not overflow the stack. */
struct nesting {
	uint64_t object[PFW_JSON_DEPTH / 64];
	unsigned depth;
};

static bool in_object(const struct nesting *nesting)
{
	unsigned at = nesting->depth - 1;

	return nesting->object[at / 64] >> at % 64 & 1;
}

/* Enter the object or array at reader->at.  *value_next: reader->at is now on a value. */
static bool open_nested(struct pfw_reader *reader, struct nesting *nesting, bool *value_next)
{
	bool object = *reader->at == '{';
	unsigned at = nesting->depth;
	struct pfw_slice key;

	if (at == PFW_JSON_DEPTH)
		return pfw_reader_fail(reader, reader->at, "nested more than 128 deep");
	nesting->object[at / 64] &= ~(1ull << at % 64);
	nesting->object[at / 64] |= (uint64_t)object << at % 64;
	nesting->depth++;
	reader->at++;
	pfw_reader_space(reader);
	*value_next = !pfw_reader_at(reader, object ? '}' : ']');
	return *value_next && object ? pfw_reader_key(reader, &key) : true;
}

/* After a nested value: go on to the next value, or close all objects and arrays that end here. */
static bool after_value(struct pfw_reader *reader, struct nesting *nesting, bool *value_next)
{
	while (nesting->depth) {
		bool object = in_object(nesting);
		struct pfw_slice key;

		pfw_reader_space(reader);
		if (pfw_reader_take(reader, ',')) {
			pfw_reader_space(reader);
			*value_next = true;
			return object ? pfw_reader_key(reader, &key) : true;
		}
		if (!pfw_reader_take(reader, object ? '}' : ']'))
			return pfw_reader_fail(reader, reader->at,
					       reader->at >= reader->end
						       ? "the line ends inside an object or array"
						       : "no comma between two values");
		nesting->depth--;
	}
	return true;
}

bool pfw_reader_skip(struct pfw_reader *reader)
{
	struct nesting nesting = { .depth = 0 };

	do {
		bool value_next = false;

		if (pfw_reader_at(reader, '{') || pfw_reader_at(reader, '[')) {
			if (!open_nested(reader, &nesting, &value_next))
				return false;
		} else if (!read_scalar(reader)) {
			return false;
		}
		if (!value_next && !after_value(reader, &nesting, &value_next))
			return false;
	} while (nesting.depth);
	return true;
}

bool pfw_reader_value(struct pfw_reader *reader, struct pfw_value *value)
{
	const char *start = reader->at;

	if (!pfw_reader_skip(reader))
		return false;
	value->type = pfw_value_type_of(*start);
	value->text = (struct pfw_slice){ .at = start, .bytes = (size_t)(reader->at - start) };
	if (value->type == PFW_VALUE_STRING) {
		value->text.at++;
		value->text.bytes -= 2;
		value->text.escaped = reader->escaped;
	}
	return true;
}
