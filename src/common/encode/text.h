/* common/encode/text.h - values to JSON text.
 *
 * Functions write up to PFW_JSON_SLACK bytes past the end that they return: a copy of fixed size is
 * a few stores, a copy of exact size is a call.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#define PFW_TEXT_ZEROS 0x3030303030303030ull

/* Append a literal; inlined, so that its length is a constant. */
static inline __attribute__((always_inline)) char *pfw_append(char *out, const char *literal)
{
	size_t bytes = __builtin_strlen(literal);

	memcpy(out, literal, bytes);
	return out + bytes;
}

/* Append at most 32 bytes of a buffer that has at least 32. */
static inline char *pfw_append_32(char *out, const char *text, size_t bytes)
{
	memcpy(out, text, 32);
	return out + bytes;
}

/* Eight decimal digits of value < 10^8, one in each byte, the first in the lowest.  SIMD in one
 * word splits halves, quarters and digits in parallel: 17 instructions, no branch, no table. */
static inline uint64_t pfw_append_digits8(uint32_t value)
{
	uint32_t high = value / 10000;
	uint64_t half = (uint64_t)(value - high * 10000) << 32 | high;
	/* 5243 / 2^19 is 1/100, right for anything below 10000. */
	uint64_t hundreds = half * 5243 >> 19 & 0x0000007f0000007full;
	/* Both at once: (half - 100 * hundreds) << 16 | hundreds. */
	uint64_t pairs = (half << 16) - hundreds * ((100 << 16) - 1);
	/* 103 / 2^10 is 1/10, right for anything below 100. */
	uint64_t tens = pairs * 103 >> 10 & 0x000f000f000f000full;

	return (pairs << 8) - tens * ((10 << 8) - 1);
}

/* "00" to "99". */
extern const char pfw_append_pairs[200];

static inline const char *pfw_append_pair(uint32_t value)
{
	return pfw_append_pairs + 2 * value;
}

/* Append value < 10^8 without leading zeros; 8 bytes written. */
static inline char *pfw_append_u32(char *out, uint32_t value)
{
	uint64_t digits = pfw_append_digits8(value);
	/* The guard bit keeps the last digit if all are zero. */
	unsigned int skip = (unsigned int)__builtin_ctzll(digits | 1ull << 56) & ~7u;

	digits = (digits | PFW_TEXT_ZEROS) >> skip;
	memcpy(out, &digits, 8);
	return out + 8 - (skip >> 3);
}

/* pfw_append_u64() for value >= 10^8. */
char *pfw_append_u64_long(char *out, uint64_t value);

static inline char *pfw_append_u64(char *out, uint64_t value)
{
	if (value < 100000000)
		return pfw_append_u32(out, (uint32_t)value);
	return pfw_append_u64_long(out, value);
}

static inline char *pfw_append_i64(char *out, int64_t value)
{
	if (value >= 0)
		return pfw_append_u64(out, (uint64_t)value);
	*out++ = '-';
	return pfw_append_u64(out, -(uint64_t)value);
}

/* Append ns as µs with exactly three decimals. */
char *pfw_append_us_long(char *out, uint64_t ns);

static inline char *pfw_append_us(char *out, uint64_t ns)
{
	uint64_t digits;
	unsigned int skip;
	uint32_t fraction;

	if (ns >= 100000000)
		return pfw_append_us_long(out, ns);
	if (ns < 10000) {
		/* Most calls take less than 10 µs: one digit. */
		const char *high = pfw_append_pair((uint32_t)ns / 100);

		out[0] = high[0];
		out[1] = '.';
		out[2] = high[1];
		memcpy(out + 3, pfw_append_pair((uint32_t)ns % 100), 2);
		return out + 5;
	}
	digits = pfw_append_digits8((uint32_t)ns);
	/* Five digits of µs, of which the last always stays; then three decimals. */
	skip = (unsigned int)__builtin_ctzll(digits | 1ull << 32) & ~7u;
	digits |= PFW_TEXT_ZEROS;
	fraction = (uint32_t)(digits >> 32 & 0xffffff00u) | '.';
	digits >>= skip;
	memcpy(out, &digits, 8);
	out += 5 - (skip >> 3);
	memcpy(out, &fraction, 4);
	return out + 4;
}

/* Append the double with these bits so that it reads back the same; null if it is not finite.  At
 * most 26 bytes. */
char *pfw_append_f64(char *out, uint64_t bits);

/* Append text as padded base64 with quotes. */
char *pfw_append_base64(char *out, const char *text, size_t bytes);

/* Length of the UTF-8 sequence at text (bytes >= 1).  If it is invalid: minus the length of its
 * longest valid prefix (at least 1), which one U+FFFD replaces. */
int pfw_append_utf8(const char *text, size_t bytes);
