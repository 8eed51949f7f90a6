/* call.h - what a call of a trace does, by its name: opens, reads, writes, and how many bytes. */
#ifndef PFW_CALL_H
#define PFW_CALL_H

#include <stddef.h>
#include <stdint.h>

#include "entry.h"

enum pfw_call_role {
	PFW_CALL_NONE, /* no I/O call: cat is neither POSIX nor STDIO */
	PFW_CALL_OPEN,
	PFW_CALL_READ,
	PFW_CALL_WRITE,
	PFW_CALL_COPY,	/* reads `fname`, writes `target` */
	PFW_CALL_OTHER, /* metadata, and what moves no data */
};

/* Which args say how many bytes were moved. */
enum pfw_call_moves {
	PFW_MOVES_NOTHING,
	PFW_MOVES_RET,
	PFW_MOVES_ITEMS, /* ret items of `size` bytes */
	PFW_MOVES_COUNT, /* `count`, where ret is not negative */
	PFW_MOVES_BYTES, /* `bytes`: copies, sets and use of memory */
};

struct pfw_call {
	uint8_t role, moves;
};

/* Whether lines of that category are I/O calls.  Thread: any. */
static inline bool pfw_call_is_io(const struct pfw_slice *cat)
{
	return pfw_slice_is(cat, "POSIX") || pfw_slice_is(cat, "STDIO");
}

/* The call of that category and name.  Thread: any. */
struct pfw_call pfw_call_find(const char *cat, size_t cat_bytes, const char *name,
			      size_t name_bytes);

/* The category of an I/O call's name, for `summed` lines, which have none: "STDIO" or "POSIX". */
const char *pfw_call_cat(const char *name, size_t bytes);

#endif
