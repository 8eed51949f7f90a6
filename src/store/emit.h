/* emit.h - pieces of text one behind the other, where there is room for all of them, and 64 bytes more. */
#ifndef PFW_EMIT_H
#define PFW_EMIT_H

#include <stdint.h>
#include <string.h>

#include "entry.h"

/* Each returns the place behind what it wrote.  Thread: any. */
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

/* At most 20 bytes. */
char *pfw_emit_u64(char *at, uint64_t number);
char *pfw_emit_i64(char *at, int64_t number);

/* ns as µs with three decimals, at most 21 bytes. */
char *pfw_emit_us(char *at, int64_t ns);

/* JSON without the space between its parts. */
char *pfw_emit_compact(char *at, struct pfw_slice json);

/* Text as a JSON string with its quotes, at most 6 * bytes + 2 bytes; what is not UTF-8 becomes
 * U+FFFD. */
char *pfw_emit_json(char *at, const char *text, size_t bytes);

#endif
