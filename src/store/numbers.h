/* numbers.h - numbers from 0 on for pairs of figures, in order of their first use: the processes of a
 * file, the threads of a process.
 */
#ifndef PFW_NUMBERS_H
#define PFW_NUMBERS_H

#include <stdint.h>

/* All zero: empty. */
struct pfw_numbers {
	struct pfw_numbers_slot {
		uint64_t a, b;
		uint32_t number; /* + 1; 0: free */
	} * slot;
	uint32_t count;
	uint32_t slots; /* a power of two */
};

/* The number of that pair, given now where it has none; or -ENOMEM.  Thread: one at a time. */
int64_t pfw_numbers_of(struct pfw_numbers *numbers, uint64_t a, uint64_t b);
/* Have the memory that will be looked at for that pair on its way to the cache. */
void pfw_numbers_fetch(const struct pfw_numbers *numbers, uint64_t a, uint64_t b);
void pfw_numbers_release(struct pfw_numbers *numbers);

#endif
