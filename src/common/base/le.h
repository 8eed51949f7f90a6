/* common/base/le.h - integers as little-endian bytes, for file formats on any machine. */
#pragma once

#include <stdint.h>

/* Write the lowest `bytes` bytes of value, at most 8.  Thread: any.  Signal: safe; as below. */
static inline void pfw_le_put(unsigned char *out, uint64_t value, int bytes)
{
	for (; bytes; bytes--, value >>= 8)
		*out++ = (unsigned char)value;
}

static inline uint64_t pfw_le_get(const unsigned char *in, int bytes)
{
	uint64_t value = 0;

	while (bytes)
		value = value << 8 | in[--bytes];
	return value;
}
