/* store/kit/hash.h - seeded hashes, so that no trace can force collisions, and a hash table. */
#pragma once

#include <endian.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* A random number, constant within this process.  Thread: any. */
uint64_t pfw_hash_seed(void);

static inline uint64_t pfw_hash_load(const char *at, size_t bytes)
{
	uint64_t word = 0;
	uint32_t low, high;

	if (bytes >= 8) {
		memcpy(&word, at, 8);
		return le64toh(word);
	}
	if (bytes >= 4) {
		memcpy(&low, at, 4);
		memcpy(&high, at + bytes - 4, 4);
		return (uint64_t)le32toh(low) << 32 | le32toh(high);
	}
	if (!bytes)
		return 0;
	return (uint64_t)(uint8_t)at[0] << 16 | (uint64_t)(uint8_t)at[bytes / 2] << 8 |
	       (uint8_t)at[bytes - 1];
}

/* XOR of both halves of the 128-bit product: every input bit affects every output bit. */
static inline uint64_t pfw_hash_mix(uint64_t a, uint64_t b)
{
	unsigned __int128 product = (unsigned __int128)a * b;

	return (uint64_t)product ^ (uint64_t)(product >> 64);
}

static inline uint64_t pfw_hash_text(uint64_t seed, const char *text, size_t bytes)
{
	uint64_t hash = pfw_hash_mix(seed ^ bytes, 0x9e3779b97f4a7c15u);
	const char *end = text + bytes;

	if (bytes <= 8)
		return pfw_hash_mix(pfw_hash_load(text, bytes) ^ hash, 0xd6e8feb86659fd93u ^ seed);
	for (; end - text > 16; text += 16)
		hash = pfw_hash_mix(pfw_hash_load(text, 8) ^ hash,
				    pfw_hash_load(text + 8, 8) ^ seed);
	/* The last 16 bytes may overlap bytes that are mixed already. */
	return pfw_hash_mix(pfw_hash_load(bytes >= 16 ? end - 16 : text, 8) ^ hash,
			    pfw_hash_load(end - 8, 8) ^ seed ^ 0xd6e8feb86659fd93u);
}

/* Hash of two texts; the first one is mostly short. */
static inline uint64_t pfw_hash_pair(uint64_t seed, const char *a, size_t a_bytes, const char *b,
				     size_t b_bytes)
{
	uint64_t first = a_bytes <= 8 ? pfw_hash_load(a, a_bytes) : pfw_hash_text(seed, a, a_bytes);

	return pfw_hash_text(seed ^ first ^ (uint64_t)a_bytes << 56, b, b_bytes);
}

/* Whether two texts are equal, inlined for short ones. */
static inline bool pfw_hash_same(const char *a, const char *b, size_t bytes)
{
	uint64_t differ = 0;
	size_t at = 0;

	if (bytes < 8)
		return pfw_hash_load(a, bytes) == pfw_hash_load(b, bytes);
	if (bytes > 40)
		return memcmp(a, b, bytes) == 0;
	for (; at + 8 < bytes; at += 8)
		differ |= pfw_hash_load(a + at, 8) ^ pfw_hash_load(b + at, 8);
	return !(differ | (pfw_hash_load(a + bytes - 8, 8) ^ pfw_hash_load(b + bytes - 8, 8)));
}

/* ---- open-addressing hash table from hashes to row numbers ---- */

struct pfw_hash_slots {
	uint64_t *slot; /* hash << 32 | row; 0: empty (so row 0 is never stored) */
	uint32_t mask;
	uint32_t used;
};

/*
 * Create an empty table. 0 or -ENOMEM.  Thread: any, as all here; one thread at a time per table.
 */
int pfw_hash_slots_init(struct pfw_hash_slots *slots);
void pfw_hash_slots_clear(struct pfw_hash_slots *slots);
void pfw_hash_slots_release(struct pfw_hash_slots *slots);

/* Reserve room for one more row. 0 or -ENOMEM. */
int pfw_hash_slots_reserve(struct pfw_hash_slots *slots);
void pfw_hash_slots_add(struct pfw_hash_slots *slots, uint32_t hash, uint32_t row);

/* Return the next row with this hash; *at is the cursor and starts as the hash. 0: no more rows. */
static inline uint32_t pfw_hash_slots_next(const struct pfw_hash_slots *slots, uint32_t hash,
					   uint32_t *at)
{
	for (;; ++*at) {
		uint64_t slot = slots->slot[*at & slots->mask];

		if (!slot)
			return 0;
		if ((uint32_t)(slot >> 32) == hash) {
			++*at;
			return (uint32_t)slot;
		}
	}
}
