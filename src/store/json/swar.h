/* store/json/swar.h - looks at 8 or 16 bytes of JSON at once: ends of plain text, and digits.
 *
 * 64-bit arithmetic (SWAR), or SSE2 or NEON where every processor of the architecture has it.
 */
#pragma once

#include <stdint.h>
#include <string.h>
#if defined(__SSE2__)
#include <emmintrin.h>
#elif defined(__aarch64__) && defined(__ARM_NEON)
#include <arm_neon.h>
#endif

#define PFW_BYTES_EACH 0x0101010101010101ull
#define PFW_BYTES_HIGH 0x8080808080808080ull

/* Eight bytes, the first in the lowest byte. */
static inline uint64_t pfw_bytes_load(const char *at)
{
	uint64_t word;

	memcpy(&word, at, 8);
#if __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
	word = __builtin_bswap64(word);
#endif
	return word;
}

/* The number of bytes, of eight, before the first quote, backslash, control character or non-ASCII
 * byte. */
static inline unsigned pfw_bytes_plain8(const char *at)
{
	uint64_t word = pfw_bytes_load(at);
	uint64_t quote = word ^ PFW_BYTES_EACH * '"';
	uint64_t backslash = word ^ PFW_BYTES_EACH * '\\';
	/* The borrow may set false bits, but only above the lowest true one. */
	uint64_t special =
		(((quote - PFW_BYTES_EACH) & ~quote) | ((backslash - PFW_BYTES_EACH) & ~backslash) |
		 (word - PFW_BYTES_EACH * 0x20) | word) &
		PFW_BYTES_HIGH;

	return special ? (unsigned)__builtin_ctzll(special) >> 3 : 8;
}

/* The same of sixteen. */
static inline unsigned pfw_bytes_plain16(const char *at)
{
#if defined(__SSE2__)
	__m128i bytes = _mm_loadu_si128((const __m128i *)at);
	__m128i backslash = _mm_cmpeq_epi8(bytes, _mm_set1_epi8('\\'));
	/* XOR makes the quote, 0x22, the neighbour of the control characters.  Bytes that are no ASCII
	 * are negative, so they are less, too. */
	__m128i others =
		_mm_cmpgt_epi8(_mm_set1_epi8(0x21), _mm_xor_si128(bytes, _mm_set1_epi8(0x02)));
	unsigned special = (unsigned)_mm_movemask_epi8(_mm_or_si128(others, backslash));

	return special ? (unsigned)__builtin_ctz(special) : 16;
#elif defined(__aarch64__) && defined(__ARM_NEON)
	uint8x16_t bytes = vld1q_u8((const uint8_t *)at);
	uint8x16_t special = vorrq_u8(
		vorrq_u8(vcltq_u8(bytes, vdupq_n_u8(0x20)), vcgeq_u8(bytes, vdupq_n_u8(0x80))),
		vorrq_u8(vceqq_u8(bytes, vdupq_n_u8('"')), vceqq_u8(bytes, vdupq_n_u8('\\'))));
	uint64_t halves = vget_lane_u64(
		vreinterpret_u64_u8(vshrn_n_u16(vreinterpretq_u16_u8(special), 4)), 0);

	return halves ? (unsigned)__builtin_ctzll(halves) >> 2 : 16;
#else
	unsigned count = pfw_bytes_plain8(at);

	return count < 8 ? count : 8 + pfw_bytes_plain8(at + 8);
#endif
}

/* Whether the first `bytes` (1 to 16) of sixteen bytes are equal. */
static inline int pfw_bytes_same16(const char *a, const char *b, unsigned bytes)
{
#if defined(__SSE2__)
	__m128i same = _mm_cmpeq_epi8(_mm_loadu_si128((const __m128i *)a),
				      _mm_loadu_si128((const __m128i *)b));

	if (__builtin_constant_p(bytes) && bytes == 16)
		return _mm_movemask_epi8(same) == 0xffff;
	return !((uint32_t)~_mm_movemask_epi8(same) << (32 - bytes));
#else
	uint64_t first = pfw_bytes_load(a) ^ pfw_bytes_load(b);
	uint64_t second = pfw_bytes_load(a + 8) ^ pfw_bytes_load(b + 8);

	return bytes <= 8 ? !(first << (64 - 8 * bytes)) : !(first | second << (128 - 8 * bytes));
#endif
}

/* The number of bytes, of eight, before the first that is no digit. */
static inline unsigned pfw_bytes_digits(uint64_t word)
{
	/* The digits become 0 to 9; any greater byte gets its high bit. */
	uint64_t digit = word ^ PFW_BYTES_EACH * '0';
	uint64_t other = (((digit & ~PFW_BYTES_HIGH) + PFW_BYTES_EACH * 0x76) | digit) &
			 PFW_BYTES_HIGH;

	return other ? (unsigned)__builtin_ctzll(other) >> 3 : 8;
}

/* The sum of eight digits, 0 to 9 in a byte each, where the first of each pair counts ten times as
 * much as the second, and the second ones count so much. */
static inline uint64_t pfw_bytes_sum(uint64_t digit, uint64_t first, uint64_t second,
				     uint64_t third, uint64_t fourth)
{
	digit = digit * 10 + (digit >> 8);
	return ((digit & 0x000000ff000000ffull) * (first << 32 | third) +
		(digit >> 16 & 0x000000ff000000ffull) * (second << 32 | fourth)) >>
	       32;
}

/* The number that the first `count` of them, 1 to 8, stand for. */
static inline uint64_t pfw_bytes_number(uint64_t word, unsigned count)
{
	word = (word ^ PFW_BYTES_EACH * '0') << (64 - 8 * count); /* zeros in front */
	return pfw_bytes_sum(word, 1000000, 10000, 100, 1);
}

/* Whether all are digits, given as 0 to 9. */
static inline int pfw_bytes_are_digits(uint64_t digit)
{
	/* Where no lower byte exceeds 9, the sum has no carry; 0xfa and more are seen without it. */
	return !(((digit + PFW_BYTES_EACH * 6) | digit) & PFW_BYTES_EACH * 0xf0);
}

/* The same in *number, if they are digits; otherwise return 0. */
static inline int pfw_bytes_take_number(uint64_t word, unsigned count, uint64_t *number)
{
	uint64_t digit = (word ^ PFW_BYTES_EACH * '0') << (64 - 8 * count);

	*number = pfw_bytes_sum(digit, 1000000, 10000, 100, 1);
	return pfw_bytes_are_digits(digit);
}

/* The same of the last `count`. */
static inline int pfw_bytes_take_last_number(uint64_t word, unsigned count, uint64_t *number)
{
	uint64_t digit = (word ^ PFW_BYTES_EACH * '0') & UINT64_MAX << (64 - 8 * count);

	*number = pfw_bytes_sum(digit, 1000000, 10000, 100, 1);
	return pfw_bytes_are_digits(digit);
}

/* A thousand times the number in front, if it has `count` digits, 1 to 4, and three decimals;
 * otherwise return 0. */
static inline int pfw_bytes_take_decimal(uint64_t word, unsigned count, uint64_t *number)
{
	uint64_t digit = (word ^ PFW_BYTES_EACH * '0') << (32 - 8 * count);

	digit ^= (uint64_t)('.' ^ '0') << 32; /* the point becomes 0 */
	if (((digit + 0x0606060006060606ull) | digit) & 0xf0f0f0fff0f0f0f0ull)
		return 0;
	*number = pfw_bytes_sum(digit, 100000, 1000, 100, 1);
	return 1;
}
