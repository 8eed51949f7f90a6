/* store/json/emit.h - appends text to a buffer that has room for all of it and 64 bytes more.
 *
 * Numbers: pfw_append_u64() and pfw_append_i64() of common/encode/text.h.
 */
#pragma once

#include <string.h>

#include "common/encode/encode.h"
#include "common/encode/text.h"
#include "store/json/value.h"

/* Each returns the byte after what it wrote.  Thread: any. */
static inline char *pfw_emit(char *at, const char *text)
{
	size_t bytes = __builtin_strlen(text);

	memcpy(at, text, bytes);
	return at + bytes;
}

static inline char *pfw_emit_bytes(char *at, const char *text, size_t bytes)
{
	memcpy(at, text, bytes);
	return at + bytes;
}

static inline char *pfw_emit_slice(char *at, struct pfw_slice text)
{
	return pfw_emit_bytes(at, text.at, text.bytes);
}

/* ns as µs with three decimals, at most 21 bytes. */
static inline char *pfw_emit_us(char *at, int64_t ns)
{
	if (ns >= 0)
		return pfw_append_us(at, (uint64_t)ns);
	*at++ = '-';
	return pfw_append_us(at, -(uint64_t)ns);
}
