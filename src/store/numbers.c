/* numbers.c - numbers for pairs of figures; see numbers.h. */
#include "numbers.h"

#include <errno.h>
#include <stdlib.h>

static uint64_t mix(uint64_t a, uint64_t b)
{
	uint64_t hash = (a + 0x9e3779b97f4a7c15u) * 0xbf58476d1ce4e5b9u ^ b;

	hash *= 0x94d049bb133111ebu;
	return hash ^ hash >> 29;
}

/* The slot of that pair, or the free one where it goes. */
static struct pfw_numbers_slot *find(const struct pfw_numbers *numbers, uint64_t a, uint64_t b)
{
	for (uint64_t i = mix(a, b);; i++) {
		struct pfw_numbers_slot *slot = &numbers->slot[i & (numbers->slots - 1)];

		if (!slot->number || (slot->a == a && slot->b == b))
			return slot;
	}
}

static int grow(struct pfw_numbers *numbers)
{
	struct pfw_numbers bigger = { .slots = numbers->slots ? numbers->slots * 2 : 64,
				      .count = numbers->count };

	bigger.slot = calloc(bigger.slots, sizeof(*bigger.slot));
	if (!bigger.slot)
		return -ENOMEM;
	for (uint32_t i = 0; i < numbers->slots; i++) {
		struct pfw_numbers_slot *slot = &numbers->slot[i];

		if (slot->number)
			*find(&bigger, slot->a, slot->b) = *slot;
	}
	free(numbers->slot);
	*numbers = bigger;
	return 0;
}

int64_t pfw_numbers_of(struct pfw_numbers *numbers, uint64_t a, uint64_t b)
{
	struct pfw_numbers_slot *slot;

	if (numbers->count >= numbers->slots / 2 && grow(numbers))
		return -ENOMEM;
	slot = find(numbers, a, b);
	if (!slot->number)
		*slot = (struct pfw_numbers_slot){ .a = a, .b = b, .number = ++numbers->count };
	return slot->number - 1;
}

void pfw_numbers_fetch(const struct pfw_numbers *numbers, uint64_t a, uint64_t b)
{
	if (numbers->slots)
		__builtin_prefetch(&numbers->slot[mix(a, b) & (numbers->slots - 1)]);
}

void pfw_numbers_release(struct pfw_numbers *numbers)
{
	free(numbers->slot);
	*numbers = (struct pfw_numbers){ .count = 0 };
}
