/* store/line/take.h - the tokens of a line in our own key order: literals, strings, numbers,
 * values.
 *
 * Each function takes the begin of a token and returns the byte after it, or NULL.  `padded`
 * (constant once inlined): PFW_ENTRY_PADDING readable zero bytes follow `end`, so that no place
 * needs to be compared with it.  No token contains a zero byte or '\n', so nothing runs past them.
 * For fast.c alone.
 */
#pragma once

#include <string.h>

#include "store/json/reader.h"
#include "store/json/swar.h"
#include "store/line/entry.h"

#define INLINE __attribute__((always_inline)) static inline
#define LIKELY(x) __builtin_expect(!!(x), 1)
#define UNLIKELY(x) __builtin_expect(!!(x), 0)

INLINE bool room(const char *at, const char *end, size_t bytes, bool padded)
{
	return padded || (size_t)(end - at) >= bytes;
}

/* Whether the first `bytes` (1 to 8) of eight bytes are those of a literal.  No loop, so that
 * `wanted` becomes a constant. */
INLINE bool same(uint64_t word, const char *text, size_t bytes)
{
#define BYTE(i) ((i) < bytes ? (uint64_t)(unsigned char)text[i] << 8 * (i) : 0)
	uint64_t wanted = BYTE(0) | BYTE(1) | BYTE(2) | BYTE(3) | BYTE(4) | BYTE(5) | BYTE(6) |
			  BYTE(7);
#undef BYTE

	return (word ^ wanted) << (64 - 8 * bytes) == 0;
}

/* A literal of at most 16 bytes. */
INLINE const char *take(const char *at, const char *end, const char *text, bool padded)
{
	size_t bytes = strlen(text);

	if (!padded)
		return room(at, end, bytes, false) && memcmp(at, text, bytes) == 0 ? at + bytes
										   : NULL;
	if (UNLIKELY(!same(pfw_bytes_load(at), text, bytes < 8 ? bytes : 8)))
		return NULL;
	if (bytes > 8 && UNLIKELY(!same(pfw_bytes_load(at + 8), text + 8, bytes - 8)))
		return NULL;
	return at + bytes;
}

INLINE bool at_char(const char *at, const char *end, char c, bool padded)
{
	return room(at, end, 1, padded) && *at == c;
}

/* `at` + `count`, where the value of `count` is predicted. */
INLINE const char *skip_guessed(const char *at, unsigned count, uint8_t *guess)
{
	unsigned guessed = *guess;

	if (LIKELY(count == guessed)) {
		/* Keep the compiler from using `count`, which is equal but not known yet. */
		__asm__("" : "+r"(guessed));
		return at + guessed;
	}
	*guess = (uint8_t)count;
	return at + count;
}

/* ---- strings ---- */

/* A string with an escape or non-ASCII text; `at` is after its opening quote. */
static __attribute__((noinline)) const char *take_odd_string(const char *at, const char *end,
							     bool *escaped)
{
	struct pfw_reader reader = { .at = at, .end = end };

	if (!pfw_reader_string(&reader))
		return NULL;
	*escaped = reader.escaped;
	return reader.at;
}

/* The rest of a string, after its opening quote. */
INLINE const char *take_string(const char *at, const char *end, uint8_t *guess, bool *escaped,
			       bool padded)
{
	const char *start = at;

	*escaped = false;
	while (room(at, end, 16, padded)) {
		unsigned plain = pfw_bytes_plain16(at);

		if (LIKELY(plain < 16)) {
			if (UNLIKELY(at[plain] != '"'))
				break;
			return (guess ? skip_guessed(at, plain, guess) : at + plain) + 1;
		}
		at += 16; /* predicted, where adding `plain` would wait for it */
	}
	return take_odd_string(start, end, escaped);
}

INLINE const char *take_text(const char *at, const char *end, struct pfw_slice *slice,
			     uint8_t *guess, bool padded)
{
	slice->at = at;
	at = take_string(at, end, guess, &slice->escaped, padded);
	if (LIKELY(at))
		slice->bytes = (size_t)(at - 1 - slice->at);
	return at;
}

/* ---- numbers ---- */

/* The first eight digits of an earlier number: those of times mostly are the same.  All zero: none; zeros
 * after the end of the text are taken for it, but nothing follows them. */
struct digits {
	uint64_t word, number;
};

/* A whole number of at most 18 digits, which cannot overflow.  `first` may be NULL. */
INLINE const char *take_u64(const char *at, const char *end, uint64_t *number, uint8_t *guess,
			    struct digits *first, bool padded)
{
	const char *start = at;
	uint64_t sum = 0;

	if (first && padded && LIKELY(pfw_bytes_load(at) == first->word)) {
		sum = first->number;
		at += 8;
	}
	for (;;) {
		static const uint64_t tens[] = { 1,	 10,	  100,	    1000,     10000,
						 100000, 1000000, 10000000, 100000000 };
		unsigned count;
		uint64_t word;

		if (!room(at, end, 8, padded))
			return NULL;
		word = pfw_bytes_load(at);
		count = pfw_bytes_digits(word);
		if (!count)
			break;
		sum = sum * tens[count] + pfw_bytes_number(word, count);
		if (count < 8) {
			at = guess ? skip_guessed(at, count, guess) : at + count;
			break;
		}
		if (first && at == start)
			*first = (struct digits){ word, sum };
		at += 8;
		if (at - start > 18)
			return NULL;
	}
	*number = sum;
	return LIKELY(at > start && at - start <= 18 && (*start != '0' || at - start == 1)) ? at
											    : NULL;
}

/* µs with three decimals or none, to ns. */
INLINE const char *take_us(const char *at, const char *end, int64_t *ns, struct digits *first,
			   bool padded)
{
	uint64_t whole, word;

	at = take_u64(at, end, &whole, NULL, first, padded);
	if (UNLIKELY(!at || whole > INT64_MAX / 1000 - 1))
		return NULL;
	*ns = (int64_t)whole * 1000;
	if (!at_char(at, end, '.', padded))
		return at;
	at++;
	if (!room(at, end, 8, padded))
		return NULL;
	word = pfw_bytes_load(at);
	if (UNLIKELY(pfw_bytes_digits(word) != 3))
		return NULL;
	*ns += (int64_t)pfw_bytes_number(word, 3);
	return at + 3;
}

static inline bool is_digit(char c)
{
	return c >= '0' && c <= '9';
}

/* At least one digit.  `guess` may be NULL. */
INLINE const char *take_digits(const char *at, const char *end, uint8_t *guess, bool padded)
{
	const char *start = at;

	if (guess && padded) {
		unsigned count = pfw_bytes_digits(pfw_bytes_load(at));

		if (LIKELY(count < 8))
			return count ? skip_guessed(at, count, guess) : NULL;
	}
	/* One by one: a predicted branch is faster than waiting for a count. */
	while (room(at, end, 1, padded) && is_digit(*at))
		at++;
	return at > start ? at : NULL;
}

/* Any number. */
INLINE const char *take_number(const char *at, const char *end, uint8_t *guess, bool padded)
{
	const char *first = at + (*at == '-');

	at = take_digits(first, end, guess, padded);
	if (UNLIKELY(!at || (*first == '0' && at - first > 1)))
		return NULL;
	if (at_char(at, end, '.', padded)) {
		at = take_digits(at + 1, end, NULL, padded);
		if (!at)
			return NULL;
	}
	if (UNLIKELY(room(at, end, 1, padded) && (*at | 0x20) == 'e')) {
		at++;
		at += at_char(at, end, '+', padded) || at_char(at, end, '-', padded);
		return take_digits(at, end, NULL, padded);
	}
	return at;
}

/* ---- values ---- */

/* A string, number or word.  *escaped is set for strings only. */
INLINE const char *take_scalar(const char *at, const char *end, uint8_t *guess, uint8_t *type,
			       bool *escaped, bool padded)
{
	/* No jump table: nearly all are strings and numbers. */
	if (LIKELY(*at == '"')) {
		*type = PFW_VALUE_STRING;
		return take_string(at + 1, end, guess, escaped, padded);
	}
	if (LIKELY(*at <= '9')) {
		*type = PFW_VALUE_NUMBER;
		return take_number(at, end, guess, padded);
	}
	switch (*at) {
	case 't':
		*type = PFW_VALUE_TRUE;
		return take(at, end, "true", padded);
	case 'f':
		*type = PFW_VALUE_FALSE;
		return take(at, end, "false", padded);
	case 'n':
		*type = PFW_VALUE_NULL;
		return take(at, end, "null", padded);
	default:
		return NULL;
	}
}

/* `"key":` inside an object. */
INLINE const char *take_key(const char *at, const char *end, bool padded)
{
	bool escaped;

	if (!at_char(at, end, '"', padded))
		return NULL;
	at = take_string(at + 1, end, NULL, &escaped, padded);
	return at && at_char(at, end, ':', padded) ? at + 1 : NULL;
}

/* An object or array; at most 63 levels, a bit each, 1 = object. */
INLINE const char *take_nested(const char *at, const char *end, bool padded)
{
	uint64_t objects = 1;

	for (;;) {
		bool escaped, object;
		uint8_t type;

		if (!room(at, end, 1, padded))
			return NULL;
		object = *at == '{';
		if (object || *at == '[') {
			if (objects >> 63)
				return NULL;
			at++;
			objects = objects << 1 | object;
			if (!at_char(at, end, object ? '}' : ']', padded)) {
				at = object ? take_key(at, end, padded) : at;
				if (!at)
					return NULL;
				continue;
			}
		} else {
			at = take_scalar(at, end, NULL, &type, &escaped, padded);
			if (!at)
				return NULL;
		}
		/* After a value: close all objects and arrays that end here. */
		while (at_char(at, end, objects & 1 ? '}' : ']', padded)) {
			at++;
			objects >>= 1;
			if (objects == 1)
				return at;
		}
		if (!at_char(at, end, ',', padded))
			return NULL;
		at++;
		if (objects & 1)
			at = take_key(at, end, padded);
		if (!at)
			return NULL;
	}
}

static __attribute__((noinline)) const char *take_nested_padded(const char *at, const char *end)
{
	return take_nested(at, end, true);
}

static __attribute__((noinline)) const char *take_nested_bare(const char *at, const char *end)
{
	return take_nested(at, end, false);
}
