/* store/kit/pair_ids.c - numbers pairs of integers; see pair_ids.h. */
#include "store/kit/pair_ids.h"

#include <errno.h>
#include <stdlib.h>

#include "store/kit/hash.h"

static uint64_t mix(uint64_t a, uint64_t b)
{
	return pfw_hash_mix(a ^ 0x9e3779b97f4a7c15u, b ^ 0xbf58476d1ce4e5b9u);
}

/* The slot of this pair, or the free slot where it belongs. */
static struct pfw_pair_ids_slot *find(const struct pfw_pair_ids *numbers, uint64_t a, uint64_t b)
{
	for (uint64_t i = mix(a, b);; i++) {
		struct pfw_pair_ids_slot *slot = &numbers->slot[i & (numbers->slots - 1)];

		if (!slot->number || (slot->a == a && slot->b == b))
			return slot;
	}
}

static int grow(struct pfw_pair_ids *numbers)
{
	struct pfw_pair_ids bigger = { .slots = numbers->slots ? numbers->slots * 2 : 64,
				       .count = numbers->count };

	bigger.slot = calloc(bigger.slots, sizeof(*bigger.slot));
	if (!bigger.slot)
		return -ENOMEM;
	for (uint32_t i = 0; i < numbers->slots; i++) {
		struct pfw_pair_ids_slot *slot = &numbers->slot[i];

		if (slot->number)
			*find(&bigger, slot->a, slot->b) = *slot;
	}
	free(numbers->slot);
	*numbers = bigger;
	return 0;
}

int64_t pfw_pair_ids_of(struct pfw_pair_ids *numbers, uint64_t a, uint64_t b)
{
	struct pfw_pair_ids_slot *slot;

	if (numbers->count >= numbers->slots / 2 && grow(numbers))
		return -ENOMEM;
	slot = find(numbers, a, b);
	if (!slot->number)
		*slot = (struct pfw_pair_ids_slot){ .a = a, .b = b, .number = ++numbers->count };
	return slot->number - 1;
}

int64_t pfw_pair_ids_find(const struct pfw_pair_ids *numbers, uint64_t a, uint64_t b)
{
	int64_t number = numbers->slots ? find(numbers, a, b)->number : 0;

	return number ? number - 1 : -ENOENT;
}

void pfw_pair_ids_fetch(const struct pfw_pair_ids *numbers, uint64_t a, uint64_t b)
{
	if (numbers->slots)
		__builtin_prefetch(&numbers->slot[mix(a, b) & (numbers->slots - 1)]);
}

void pfw_pair_ids_release(struct pfw_pair_ids *numbers)
{
	free(numbers->slot);
	*numbers = (struct pfw_pair_ids){ .count = 0 };
}
