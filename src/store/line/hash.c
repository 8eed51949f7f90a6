/* store/line/hash.c - a 64-bit hash of a line; see hash.h.
 *
 * Each step takes 16 bytes: the folded 128-bit product mixes every bit of both words into the
 * result.  There are two lanes because each product of a lane depends on the one before.  The hash
 * finds damage by disks, kernels and our mistakes; it does not resist adversaries.
 */
#include "store/line/hash.h"

#include <stdbool.h>
#include <string.h>

#include "store/json/swar.h"

/* Odd, with half of the bits set; otherwise arbitrary. */
#define KEY_A 0x9e3779b97f4a7c15ull
#define KEY_B 0xd6e8feb86659fd93ull
#define KEY_C 0xa0761d6478bd642full
#define KEY_D 0xc2b2ae3d27d4eb4full

static inline uint64_t fold(uint64_t a, uint64_t b)
{
	unsigned __int128 product = (unsigned __int128)a * b;

	return (uint64_t)product ^ (uint64_t)(product >> 64);
}

/* The last `bytes` (below 16) bytes, zero-padded, as two words.  `whole`: at least 16 bytes are
 * readable before their end, so that no byte need be copied. */
static inline void load_last(const char *at, size_t bytes, bool whole, uint64_t word[2])
{
	char last[16] = { 0 };

	if (!whole) {
		memcpy(last, at, bytes);
		word[0] = pfw_bytes_load(last);
		word[1] = pfw_bytes_load(last + 8);
	} else if (bytes > 8) {
		word[0] = pfw_bytes_load(at);
		word[1] = pfw_bytes_load(at + bytes - 8) >> (128 - 8 * bytes);
	} else {
		word[0] = bytes ? pfw_bytes_load(at + bytes - 8) >> (64 - 8 * bytes) : 0;
		word[1] = 0;
	}
}

uint64_t pfw_linehash(const char *line, size_t bytes)
{
	uint64_t a = KEY_A ^ bytes, b = KEY_B, last[2];
	bool whole = bytes >= 16;

	for (; bytes >= 32; line += 32, bytes -= 32) {
		a = fold(a ^ pfw_bytes_load(line), KEY_C ^ pfw_bytes_load(line + 8));
		b = fold(b ^ pfw_bytes_load(line + 16), KEY_D ^ pfw_bytes_load(line + 24));
	}
	if (bytes >= 16) {
		a = fold(a ^ pfw_bytes_load(line), KEY_C ^ pfw_bytes_load(line + 8));
		line += 16;
		bytes -= 16;
	}
	load_last(line, bytes, whole, last);
	b = fold(b ^ last[0], KEY_D ^ last[1]);
	return fold(a ^ KEY_B, b ^ KEY_C);
}

uint64_t pfw_linehash_text(const char *text, size_t bytes, uint64_t *lines)
{
	const char *end = text + bytes;
	uint64_t sum = 0;

	*lines = 0;
	while (text < end) {
		const char *newline = memchr(text, '\n', (size_t)(end - text));
		const char *stop = newline ? newline : end;

		sum += pfw_linehash(text, (size_t)(stop - text));
		(*lines)++;
		text = stop + 1;
	}
	return sum;
}
