/* row_slots.h - which row has a hash: an open-addressed table of row numbers. */
#ifndef PFW_ROW_SLOTS_H
#define PFW_ROW_SLOTS_H

#include <stdint.h>

struct pfw_row_slots {
	uint64_t *slot; /* hash << 32 | row; 0: empty (row 0 is in no slot) */
	uint32_t mask;
	uint32_t used;
};

/* Make it empty.  0 or -ENOMEM.  Thread: any, as all here; one table by one thread at a time. */
int pfw_row_slots_init(struct pfw_row_slots *slots);
void pfw_row_slots_clear(struct pfw_row_slots *slots);
void pfw_row_slots_release(struct pfw_row_slots *slots);

/* Have room for one more row.  0 or -ENOMEM. */
int pfw_row_slots_reserve(struct pfw_row_slots *slots);
void pfw_row_slots_add(struct pfw_row_slots *slots, uint32_t hash, uint32_t row);

/* The next row with that hash, from *at on, which is the hash at first; 0: there is none. */
static inline uint32_t pfw_row_slots_next(const struct pfw_row_slots *slots, uint32_t hash,
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

#endif
