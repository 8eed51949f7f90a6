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

/* The rest of a string, after its opening quote.  `guess`: where it may end. */
INLINE const char *take_string(const char *at, const char *end, const char *guess, bool *escaped,
			       bool padded)
{
	const char *start = at;

	*escaped = false;
	while (room(at, end, 16, padded)) {
		unsigned plain = pfw_bytes_plain16(at);

		if (LIKELY(plain < 16)) {
			if (UNLIKELY(at[plain] != '"'))
				break;
			at += plain + 1;
			/* Keep the compiler from using `at`, which is equal but not known yet. */
			if (guess && LIKELY(at == guess)) {
				__asm__("" : "+r"(guess));
				return guess;
			}
			return at;
		}
		at += 16; /* predicted, where adding `plain` would wait for it */
	}
	return take_odd_string(start, end, escaped);
}

INLINE const char *take_text(const char *at, const char *end, struct pfw_slice *slice, bool padded)
{
	slice->at = at;
	at = take_string(at, end, NULL, &slice->escaped, padded);
	if (LIKELY(at))
		slice->bytes = (size_t)(at - 1 - slice->at);
	return at;
}

/* ---- numbers ---- */

/* A whole number of at most 18 digits, which cannot overflow.  Return the byte after it, or NULL. */
static __attribute__((noinline)) const char *take_long_u64(const char *at, const char *end,
							   uint64_t *number)
{
	static const uint64_t tens[] = { 1,	 10,	  100,	    1000,     10000,
					 100000, 1000000, 10000000, 100000000 };
	const char *start = at;
	unsigned count = 8;

	*number = 0;
	while (count == 8) {
		uint64_t word;

		if (end - at < 8)
			return NULL;
		word = pfw_bytes_load(at);
		count = pfw_bytes_digits(word);
		if (count)
			*number = *number * tens[count] + pfw_bytes_number(word, count);
		at += count;
		if (at - start > 18)
			return NULL;
	}
	return at > start && (*start != '0' || at - start == 1) ? at : NULL;
}

/* µs with three decimals or none, to ns. */
static __attribute__((noinline)) const char *take_long_us(const char *at, const char *end,
							  int64_t *ns)
{
	uint64_t whole;

	at = take_long_u64(at, end, &whole);
	if (!at || whole > INT64_MAX / 1000 - 1)
		return NULL;
	*ns = (int64_t)whole * 1000;
	if (!at_char(at, end, '.', false))
		return at;
	at++;
	if (end - at < 8 || pfw_bytes_digits(pfw_bytes_load(at)) != 3)
		return NULL;
	*ns += (int64_t)pfw_bytes_number(pfw_bytes_load(at), 3);
	return at + 3;
}

/* A whole number and the comma after it; *guess: its length, at most 8. */
INLINE const char *take_u64(const char *at, const char *end, uint64_t *number, uint8_t *guess,
			    bool padded)
{
	unsigned bytes = *guess;
	const char *stop = at + bytes;

	if (LIKELY(bytes && room(at, end, 9, padded) && *stop == ',' &&
		   pfw_bytes_take_number(pfw_bytes_load(at), bytes, number) &&
		   (*at != '0' || bytes == 1)))
		return stop;
	stop = take_long_u64(at, end, number);
	if (stop && stop - at <= 8)
		*guess = (uint8_t)(stop - at);
	return stop;
}

/* A duration: see take_long_us(). */
INLINE const char *take_dur(const char *at, const char *end, int64_t *ns, bool padded)
{
	if (LIKELY(room(at, end, 8, padded))) {
		uint64_t word = pfw_bytes_load(at), number;
		unsigned count = pfw_bytes_digits(word);

		if (LIKELY(count - 1 < 4 && pfw_bytes_take_decimal(word, count, &number) &&
			   (*at != '0' || count == 1))) {
			*ns = (int64_t)number;
			return at + count + 4;
		}
	}
	return take_long_us(at, end, ns);
}

/* The first twelve digits of an earlier time of sixteen, and what they stand for.  All zero: none. */
struct instant {
	uint64_t first, last; /* eight each */
	int64_t ns;
};

static __attribute__((noinline)) const char *take_new_ts(const char *at, const char *end,
							 int64_t *ns, struct instant *known)
{
	const char *stop = take_long_us(at, end, ns);

	/* Any other time with these digits fits, too. */
	if (stop && stop - at == 20 && *ns < INT64_MAX - 20000000)
		*known = (struct instant){ .first = pfw_bytes_load(at),
					   .last = pfw_bytes_load(at + 4),
					   .ns = *ns - *ns % 10000000 };
	return stop;
}

/* A time: see take_long_us().  The first digits mostly are those of the line before. */
INLINE const char *take_ts(const char *at, const char *end, int64_t *ns, struct instant *known,
			   bool padded)
{
	uint64_t number;

	if (LIKELY(room(at, end, 20, padded) && pfw_bytes_load(at) == known->first &&
		   pfw_bytes_load(at + 4) == known->last &&
		   pfw_bytes_take_decimal(pfw_bytes_load(at + 12), 4, &number))) {
		*ns = known->ns + (int64_t)number;
		return at + 20;
	}
	return take_new_ts(at, end, ns, known);
}

static inline bool is_digit(char c)
{
	return c >= '0' && c <= '9';
}

/* At least one digit. */
INLINE const char *take_digits(const char *at, const char *end, bool padded)
{
	const char *start = at;

	/* One by one: a predicted branch is faster than waiting for a count. */
	while (room(at, end, 1, padded) && is_digit(*at))
		at++;
	return at > start ? at : NULL;
}

/* Any number. */
INLINE const char *take_number(const char *at, const char *end, bool padded)
{
	const char *first = at + (*at == '-');

	at = take_digits(first, end, padded);
	if (UNLIKELY(!at || (*first == '0' && at - first > 1)))
		return NULL;
	if (at_char(at, end, '.', padded)) {
		at = take_digits(at + 1, end, padded);
		if (!at)
			return NULL;
	}
	if (UNLIKELY(room(at, end, 1, padded) && (*at | 0x20) == 'e')) {
		at++;
		at += at_char(at, end, '+', padded) || at_char(at, end, '-', padded);
		return take_digits(at, end, padded);
	}
	return at;
}

/* The same; `guess`: where it may end, if it has only digits. */
INLINE const char *take_guessed_number(const char *at, const char *end, const char *guess,
				       bool padded)
{
	size_t bytes = (size_t)(guess - at);
	uint64_t unused;

	if (LIKELY(bytes - 1 < 8 && room(at, end, 9, padded) && (*guess == ',' || *guess == '}') &&
		   pfw_bytes_take_number(pfw_bytes_load(at), (unsigned)bytes, &unused) &&
		   (*at != '0' || bytes == 1)))
		return guess;
	return take_number(at, end, padded);
}

/* ---- values ---- */

/* A string, number or word.  *escaped is set for strings only.  `guess`: where it may end, or NULL. */
INLINE const char *take_scalar(const char *at, const char *end, const char *guess, uint8_t *type,
			       bool *escaped, bool padded)
{
	/* No jump table: nearly all are strings and numbers. */
	if (LIKELY(*at == '"')) {
		*type = PFW_VALUE_STRING;
		return take_string(at + 1, end, guess, escaped, padded);
	}
	if (LIKELY(*at <= '9')) {
		*type = PFW_VALUE_NUMBER;
		return guess ? take_guessed_number(at, end, guess, padded)
			     : take_number(at, end, padded);
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
			/* Shapes and grids: whole numbers of few digits. */
			unsigned count = padded ? pfw_bytes_digits(pfw_bytes_load(at)) : 0;

			if (count - 1 < 7 && *at != '0' && (at[count] == ',' || at[count] == ']'))
				at += count;
			else
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
