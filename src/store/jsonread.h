/* jsonread.h - a strict JSON reader that copies nothing: the shared half of entry.c and slice.c.
 *
 * RFC 8259 with valid UTF-8, whole surrogate pairs and at most PFW_ENTRY_DEPTH levels.
 */
#ifndef PFW_JSONREAD_H
#define PFW_JSONREAD_H

#include <stdbool.h>
#include <stddef.h>

#include "entry.h"

/* What is being read, and the first thing found wrong. */
struct pfw_reader {
	const char *at;
	const char *end;
	const char *why; /* NULL: nothing; else a constant */
	const char *why_at;
	bool escaped; /* the last string had backslashes */
};

/* Note what is wrong, unless something was before; always false.  Thread: any, as all here. */
bool pfw_reader_fail(struct pfw_reader *reader, const char *at, const char *why);

/* A string, reader->at behind its opening quote; leaves it behind the closing one. */
bool pfw_reader_string(struct pfw_reader *reader);

/* `"key":` and the space around it, up to the value. */
bool pfw_reader_key(struct pfw_reader *reader, struct pfw_slice *key);

/* A number; reader->at must be on its first byte. */
bool pfw_reader_number(struct pfw_reader *reader);

/* Any value; leaves reader->at behind it. */
bool pfw_reader_skip(struct pfw_reader *reader);

/* The same, and what it is. */
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

static inline bool pfw_reader_at_digit(const struct pfw_reader *reader)
{
	return reader->at < reader->end && *reader->at >= '0' && *reader->at <= '9';
}

#endif
