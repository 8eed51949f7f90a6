/* store/kit/varint.h - LEB128 integers of the index's blobs: 7 bits a byte, lowest first. */
#pragma once

#include <endian.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#define PFW_VARINT_MAX 10u /* bytes of the longest one */

/* Write one; return the byte after it. */
static inline uint8_t *pfw_varint_put(uint8_t *out, uint64_t value)
{
	for (; value >= 128; value >>= 7)
		*out++ = (uint8_t)(value | 128);
	*out++ = (uint8_t)value;
	return out;
}

/* Read one where ten bytes can be read, and advance *at; false: it has more than 64 bits. */
static inline bool pfw_varint_get_wide(const uint8_t **at, uint64_t *value)
{
	const uint8_t *from = *at;
	uint64_t bytes, stops;

	memcpy(&bytes, from, 8);
	bytes = le64toh(bytes);
	stops = ~bytes & 0x8080808080808080u;
	/* Bits after the first stop belong to the next number.  Without a stop all bits belong to
	 * this one. */
	bytes &= stops ^ (stops - 1);
	*at += stops ? __builtin_ctzll(stops) / 8 + 1 : from[8] < 128 ? 9 : 10;
	/* Join pairs of 7, 14 and 28 bits. */
	bytes = (bytes & 0x007f007f007f007fu) | (bytes & 0x7f007f007f007f00u) >> 1;
	bytes = (bytes & 0x00003fff00003fffu) | (bytes & 0x3fff00003fff0000u) >> 2;
	*value = (bytes & 0x0fffffffu) | (bytes & 0x0fffffff00000000u) >> 4;
	if (stops)
		return true;
	*value |= (uint64_t)(from[8] & 127) << 56;
	if (from[8] < 128)
		return true;
	*value |= (uint64_t)from[9] << 63;
	return from[9] < 2;
}

/* Read one and advance *at; false: it is truncated, or has more than 64 bits. */
static inline bool pfw_varint_get(const uint8_t **at, const uint8_t *end, uint64_t *value)
{
	*value = 0;
	/* Most have one byte. */
	if (*at < end && **at < 128) {
		*value = *(*at)++;
		return true;
	}
	if (end - *at >= (ptrdiff_t)PFW_VARINT_MAX)
		return pfw_varint_get_wide(at, value);
	for (unsigned shift = 0; *at < end && shift < 64; shift += 7) {
		uint8_t byte = *(*at)++;

		if (shift == 63 && byte > 1)
			return false;
		*value |= (uint64_t)(byte & 127) << shift;
		if (byte < 128)
			return true;
	}
	return false;
}

/* A sequence of them.  After the first that cannot be read `bad` is set, and all values are 0. */
struct pfw_varints {
	const uint8_t *at, *end;
	bool bad;
};

static inline struct pfw_varints pfw_varints(const uint8_t *data, size_t bytes)
{
	/* Arithmetic on NULL is undefined. */
	return (struct pfw_varints){ .at = data, .end = bytes ? data + bytes : data };
}

static inline uint64_t pfw_varints_next(struct pfw_varints *varints)
{
	uint64_t value = 0;

	if (!pfw_varint_get(&varints->at, varints->end, &value)) {
		varints->at = varints->end;
		varints->bad = true;
		return 0;
	}
	return value;
}

/* The next one, which is a time or a sum that is never negative. */
static inline int64_t pfw_varints_ns(struct pfw_varints *varints)
{
	uint64_t value = pfw_varints_next(varints);

	varints->bad |= value > INT64_MAX;
	return (int64_t)value;
}

/* The bytes after their number; none, and `bad` is set, if there are fewer. */
static inline struct pfw_varints pfw_varints_part(struct pfw_varints *varints)
{
	uint64_t bytes = pfw_varints_next(varints);
	struct pfw_varints part = { .at = varints->at, .end = varints->at };

	if (bytes > (size_t)(varints->end - varints->at))
		varints->bad = true;
	else if (bytes)
		part.end = varints->at += bytes;
	return part;
}

/* Zigzag coding: small integers of either sign are short. */
static inline uint64_t pfw_varint_fold(int64_t value)
{
	return (uint64_t)value << 1 ^ (uint64_t)(value >> 63);
}

static inline int64_t pfw_varint_unfold(uint64_t value)
{
	return (int64_t)(value >> 1 ^ -(value & 1));
}
