/* store/kit/pair_ids.c - numbers pairs of integers; see pair_ids.h. */
#include "store/kit/pair_ids.h"

#include <errno.h>
#include <stdlib.h>

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
			*pfw_pair_ids_slot(&bigger, slot->a, slot->b) = *slot;
	}
	free(numbers->slot);
	*numbers = bigger;
	return 0;
}

int64_t pfw_pair_ids_add(struct pfw_pair_ids *numbers, uint64_t a, uint64_t b)
{
	if (numbers->count >= numbers->slots / 2 && grow(numbers))
		return -ENOMEM;
	*pfw_pair_ids_slot(numbers, a, b) =
		(struct pfw_pair_ids_slot){ .a = a, .b = b, .number = ++numbers->count };
	return numbers->count - 1;
}

int64_t pfw_pair_ids_find(const struct pfw_pair_ids *numbers, uint64_t a, uint64_t b)
{
	int64_t number = numbers->slots ? pfw_pair_ids_slot(numbers, a, b)->number : 0;

	return number ? number - 1 : -ENOENT;
}

void pfw_pair_ids_release(struct pfw_pair_ids *numbers)
{
	free(numbers->slot);
	*numbers = (struct pfw_pair_ids){ .count = 0 };
}
