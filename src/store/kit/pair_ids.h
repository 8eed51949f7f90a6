/* store/kit/pair_ids.h - numbers pairs of integers (pid and tid) in order of first use, from 0. */
#pragma once

#include <stdint.h>

/* All zero: empty. */
struct pfw_pair_ids {
	struct pfw_pair_ids_slot {
		uint64_t a, b;
		uint32_t number; /* + 1; 0: free */
	} * slot;
	uint32_t count;
	uint32_t slots; /* a power of two */
};

/* The number of this pair; a new pair gets the next number. -ENOMEM.  Thread: one at a time. */
int64_t pfw_pair_ids_of(struct pfw_pair_ids *numbers, uint64_t a, uint64_t b);
/* Its number, or -ENOENT.  Thread: any, while no thread adds. */
int64_t pfw_pair_ids_find(const struct pfw_pair_ids *numbers, uint64_t a, uint64_t b);
/* Prefetch the slot of this pair. */
void pfw_pair_ids_fetch(const struct pfw_pair_ids *numbers, uint64_t a, uint64_t b);
void pfw_pair_ids_release(struct pfw_pair_ids *numbers);
