/* store/json/value.h - pieces of JSON text, and the numbers and strings that they stand for.
 *
 * Room store/json: reads, walks and writes JSON.  It may use common/encode (escapes, numbers).
 * Start here, then reader.h (strict, for untrusted text), walk.h (fast, for text that a reader has
 * accepted) and print.h (output).
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Deeper nesting is an error. */
#define PFW_JSON_DEPTH 128u

/* A piece of JSON text.  A string is without its quotes, escapes unresolved. */
struct pfw_slice {
	const char *at;
	size_t bytes;
	bool escaped; /* has backslashes: pfw_slice_decode() */
};

enum pfw_value_type {
	PFW_VALUE_STRING,
	PFW_VALUE_NUMBER,
	PFW_VALUE_OBJECT,
	PFW_VALUE_ARRAY,
	PFW_VALUE_TRUE,
	PFW_VALUE_FALSE,
	PFW_VALUE_NULL,
};

/* The type of a valid value by its first byte. */
static inline enum pfw_value_type pfw_value_type_of(char first)
{
	switch (first) {
	case '"':
		return PFW_VALUE_STRING;
	case '{':
		return PFW_VALUE_OBJECT;
	case '[':
		return PFW_VALUE_ARRAY;
	case 't':
		return PFW_VALUE_TRUE;
	case 'f':
		return PFW_VALUE_FALSE;
	case 'n':
		return PFW_VALUE_NULL;
	default:
		return PFW_VALUE_NUMBER;
	}
}

struct pfw_value {
	enum pfw_value_type type;
	struct pfw_slice text;
};

/* The last value of `key` in an object that a strict reader has accepted (an entry's args, or an
 * object inside).  False: no such key.  Thread: any. */
bool pfw_slice_find(const struct pfw_slice *object, const char *key, struct pfw_value *value);

/* The number that a text of JSON's type NUMBER stands for; false: negative (u64), a fraction, or more
 * than 64 bits.  Thread: any. */
bool pfw_number_u64(const char *at, size_t bytes, uint64_t *number);
bool pfw_number_i64(const char *at, size_t bytes, int64_t *number);

/* The same of a value; false also: another type. */
static inline bool pfw_value_u64(const struct pfw_value *value, uint64_t *number)
{
	return value->type == PFW_VALUE_NUMBER &&
	       pfw_number_u64(value->text.at, value->text.bytes, number);
}

static inline bool pfw_value_i64(const struct pfw_value *value, int64_t *number)
{
	return value->type == PFW_VALUE_NUMBER &&
	       pfw_number_i64(value->text.at, value->text.bytes, number);
}

/* The nearest double to a number, whatever the locale; out of range: infinite. */
double pfw_slice_f64(const struct pfw_slice *number);

/* µs in decimal text to ns, exactly; false: no number, or it does not fit. */
bool pfw_slice_us(const struct pfw_slice *text, int64_t *ns);

/* The same of a value. */
static inline bool pfw_value_ns(const struct pfw_value *value, int64_t *ns)
{
	return value->type == PFW_VALUE_NUMBER && pfw_slice_us(&value->text, ns);
}

/* Resolve the escapes.  The result is NUL-terminated and truncated to size - 1 bytes; a NUL inside
 * becomes U+FFFD.  Return the bytes written without the NUL.  Thread: any. */
size_t pfw_slice_decode(const struct pfw_slice *text, char *out, size_t size);

/* Whether a string with escapes is `text` (at most 120 bytes) once they are resolved. */
bool pfw_slice_decodes_to(const struct pfw_slice *slice, const char *text);

/* Whether the string, escapes resolved, is `text`.  Inlined, so that a constant is compared by
 * words. */
static inline bool pfw_slice_is(const struct pfw_slice *slice, const char *text)
{
	size_t bytes = __builtin_strlen(text);

	if (__builtin_expect(slice->escaped, 0))
		return pfw_slice_decodes_to(slice, text);
	return slice->bytes == bytes && __builtin_memcmp(slice->at, text, bytes) == 0;
}

/* Whether the string, as it is written, begins with `text`. */
static inline bool pfw_slice_begins(const struct pfw_slice *slice, const char *text)
{
	size_t bytes = __builtin_strlen(text);

	return slice->bytes >= bytes && __builtin_memcmp(slice->at, text, bytes) == 0;
}
