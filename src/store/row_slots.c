/* row_slots.c - which row has a hash; see row_slots.h. */
#include "row_slots.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define FIRST_SLOTS 256u

int pfw_row_slots_init(struct pfw_row_slots *slots)
{
	*slots = (struct pfw_row_slots){ .mask = FIRST_SLOTS - 1 };
	slots->slot = calloc(FIRST_SLOTS, sizeof(*slots->slot));
	return slots->slot ? 0 : -ENOMEM;
}

void pfw_row_slots_clear(struct pfw_row_slots *slots)
{
	if (slots->used)
		memset(slots->slot, 0, ((size_t)slots->mask + 1) * sizeof(*slots->slot));
	slots->used = 0;
}

void pfw_row_slots_release(struct pfw_row_slots *slots)
{
	free(slots->slot);
	*slots = (struct pfw_row_slots){ 0 };
}

static void put(uint64_t *slot, uint32_t mask, uint64_t value)
{
	uint32_t at = (uint32_t)(value >> 32) & mask;

	while (slot[at])
		at = (at + 1) & mask;
	slot[at] = value;
}

int pfw_row_slots_reserve(struct pfw_row_slots *slots)
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

void pfw_row_slots_add(struct pfw_row_slots *slots, uint32_t hash, uint32_t row)
{
	put(slots->slot, slots->mask, (uint64_t)hash << 32 | row);
	slots->used++;
}
