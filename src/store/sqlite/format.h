/* store/sqlite/format.h - pages and rows of an SQLite database as bytes; private to the room. */
#pragma once

#include <stdint.h>

/* Offsets in the header. */
#define PAGE_BYTES_AT 16
#define RESERVED_AT 20
#define PAGES_AT 28
#define ENCODING_AT 56

#define ENCODING_UTF8 1
#define INNER_PAGE 5
#define LEAF_PAGE 13
/* Of a page, before the pointers to its cells. */
#define INNER_HEAD 12u
#define LEAF_HEAD 8u

static inline uint32_t get_u16(const uint8_t *at)
{
	return (uint32_t)at[0] << 8 | at[1];
}

static inline uint32_t get_u32(const uint8_t *at)
{
	return get_u16(at) << 16 | get_u16(at + 2);
}

/* How many of a row's bytes are in its leaf. */
static inline uint64_t local_bytes(uint32_t page_bytes, uint64_t bytes)
{
	uint64_t most = page_bytes - 35, least = (page_bytes - 12) * 32 / 255 - 23;
	uint64_t local = least;

	if (bytes <= most)
		return bytes;
	local += (bytes - least) % (page_bytes - 4);
	return local <= most ? local : least;
}
