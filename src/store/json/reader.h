/* store/json/reader.h - a strict JSON reader that copies nothing.
 *
 * RFC 8259 with valid UTF-8, whole surrogate pairs and at most PFW_JSON_DEPTH levels.
 */
#pragma once

#include "store/json/value.h"

/* The text being read, and the first error. */
struct pfw_reader {
	const char *at;
	const char *end;
	const char *why; /* NULL: no error; else a constant */
	const char *why_at;
	bool escaped; /* the last string had backslashes */
};

/* Record an error unless there is one already.  Always false.  Thread: any, as all here. */
bool pfw_reader_fail(struct pfw_reader *reader, const char *at, const char *why);

/* Read a string; reader->at is after its opening quote, then after the closing one. */
bool pfw_reader_string(struct pfw_reader *reader);

/* Read `"key":` and the white space around the colon. */
bool pfw_reader_key(struct pfw_reader *reader, struct pfw_slice *key);

/* Read a number; reader->at must be on its first byte. */
bool pfw_reader_number(struct pfw_reader *reader);

/* Read any value; reader->at is then after it. */
bool pfw_reader_skip(struct pfw_reader *reader);

/* The same, and return the value. */
bool pfw_reader_value(struct pfw_reader *reader, struct pfw_value *value);

/* The four hexadecimal digits at `at`, or -1. */
int pfw_hex4(const char *at, const char *end);

static inline void pfw_reader_space(struct pfw_reader *reader)
{
	while (reader->at < reader->end && (*reader->at == ' ' || *reader->at == '\t' ||
					    *reader->at == '\r' || *reader->at == '\n'))
		reader->at++;
}

static inline bool pfw_reader_at(const struct pfw_reader *reader, char c)
{
	return reader->at < reader->end && *reader->at == c;
}

/* The same, and pass over it. */
static inline bool pfw_reader_take(struct pfw_reader *reader, char c)
{
	bool is = pfw_reader_at(reader, c);

	reader->at += is;
	return is;
}

static inline bool pfw_reader_at_digit(const struct pfw_reader *reader)
{
	return reader->at < reader->end && *reader->at >= '0' && *reader->at <= '9';
}
