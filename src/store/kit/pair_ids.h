/* store/kit/pair_ids.h - numbers pairs of integers (pid and tid) in order of first use, from 0. */
#pragma once

#include <stdint.h>

#include "store/kit/hash.h"

/* All zero: empty. */
struct pfw_pair_ids {
	struct pfw_pair_ids_slot {
		uint64_t a, b;
		uint32_t number; /* + 1; 0: free */
	} * slot;
	uint32_t count;
	uint32_t slots; /* a power of two */
};

/* The slot of this pair, or the free slot where it belongs; `slots` is not 0. */
static inline struct pfw_pair_ids_slot *pfw_pair_ids_slot(const struct pfw_pair_ids *numbers,
							  uint64_t a, uint64_t b)
{
	uint64_t hash = pfw_hash_mix(a ^ 0x9e3779b97f4a7c15u, b ^ 0xbf58476d1ce4e5b9u);
	struct pfw_pair_ids_slot *slot = &numbers->slot[hash & (numbers->slots - 1)];

	while (slot->number && (slot->a != a || slot->b != b))
		slot = slot + 1 < numbers->slot + numbers->slots ? slot + 1 : numbers->slot;
	return slot;
}

/* The number of a new pair. */
int64_t pfw_pair_ids_add(struct pfw_pair_ids *numbers, uint64_t a, uint64_t b);

/* The number of this pair; a new pair gets the next number. -ENOMEM.  Thread: one at a time. */
static inline int64_t pfw_pair_ids_of(struct pfw_pair_ids *numbers, uint64_t a, uint64_t b)
{
	uint32_t number = numbers->slots ? pfw_pair_ids_slot(numbers, a, b)->number : 0;

	return number ? (int64_t)number - 1 : pfw_pair_ids_add(numbers, a, b);
}

/* Its number, or -ENOENT.  Thread: any, while no thread adds. */
int64_t pfw_pair_ids_find(const struct pfw_pair_ids *numbers, uint64_t a, uint64_t b);
void pfw_pair_ids_release(struct pfw_pair_ids *numbers);
