/* names.h - texts, numbered from 0 on in order of their first use: the files of a block, of a rank. */
#ifndef PFW_NAMES_H
#define PFW_NAMES_H

#include <stddef.h>
#include <stdint.h>

#include "arena.h"
#include "row_slots.h"

/* All zero: empty. */
struct pfw_names {
	struct pfw_name {
		const char *text;
		uint32_t bytes, hash; /* of the text alone */
		int64_t of;
	} * name;
	uint32_t count, room;
	struct pfw_row_slots slots; /* number + 1 */
	struct pfw_arena texts;
};

/* The number of that text of that rank (or of whatever else has texts of its own), given now where it
 * has none; or -ENOMEM.  Thread: one at a time. */
int64_t pfw_names_of(struct pfw_names *names, int64_t of, const char *text, size_t bytes);

/* The numbers of all texts of `from`, as texts of that rank, into number[].  0 or -ENOMEM. */
int pfw_names_map(struct pfw_names *names, int64_t of, const struct pfw_names *from,
		  uint32_t *number);

/* Make it empty; its memory is kept for what comes next. */
void pfw_names_clear(struct pfw_names *names);
void pfw_names_release(struct pfw_names *names);

#endif
