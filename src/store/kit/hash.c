/* store/kit/hash.c - the random seed of this process's hashes, and hash tables; see hash.h. */
#include "store/kit/hash.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/random.h>
#include <time.h>

#define FIRST_SLOTS 256u

uint64_t pfw_hash_seed(void)
{
	static _Atomic uint64_t seed;
	uint64_t value = atomic_load_explicit(&seed, memory_order_relaxed), none = 0;
	struct timespec now;

	if (value)
		return value;
	if (getrandom(&value, sizeof(value), GRND_NONBLOCK) != (ssize_t)sizeof(value)) {
		clock_gettime(CLOCK_MONOTONIC, &now);
		value = (uint64_t)now.tv_nsec << 32 ^ (uint64_t)now.tv_sec ^ (uintptr_t)&now;
	}
	value |= 1;
	/* The first thread decides; pairs with the load above in other threads. */
	return atomic_compare_exchange_strong(&seed, &none, value) ? value : none;
}

/* ---- tables ---- */

int pfw_hash_slots_init(struct pfw_hash_slots *slots)
{
	*slots = (struct pfw_hash_slots){ .mask = FIRST_SLOTS - 1 };
	slots->slot = calloc(FIRST_SLOTS, sizeof(*slots->slot));
	return slots->slot ? 0 : -ENOMEM;
}

void pfw_hash_slots_clear(struct pfw_hash_slots *slots)
{
	if (slots->used)
		memset(slots->slot, 0, ((size_t)slots->mask + 1) * sizeof(*slots->slot));
	slots->used = 0;
}

void pfw_hash_slots_release(struct pfw_hash_slots *slots)
{
	free(slots->slot);
	*slots = (struct pfw_hash_slots){ 0 };
}

static void put(uint64_t *slot, uint32_t mask, uint64_t value)
{
	uint32_t at = (uint32_t)(value >> 32) & mask;

	while (slot[at])
		at = (at + 1) & mask;
	slot[at] = value;
}

int pfw_hash_slots_reserve(struct pfw_hash_slots *slots)
{
	uint32_t mask = slots->mask * 2 + 1;
	uint64_t *slot;

	if (slots->used < slots->mask / 2)
		return 0;
	slot = calloc((size_t)mask + 1, sizeof(*slot));
	if (!slot)
		return -ENOMEM;
	for (uint32_t i = 0; i <= slots->mask; i++) {
		if (slots->slot[i])
			put(slot, mask, slots->slot[i]);
	}
	free(slots->slot);
	slots->slot = slot;
	slots->mask = mask;
	return 0;
}

void pfw_hash_slots_add(struct pfw_hash_slots *slots, uint32_t hash, uint32_t row)
{
	put(slots->slot, slots->mask, (uint64_t)hash << 32 | row);
	slots->used++;
}
