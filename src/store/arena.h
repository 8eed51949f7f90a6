/* arena.h - texts that are kept until all of them are given back at once. */
#ifndef PFW_ARENA_H
#define PFW_ARENA_H

#include <stddef.h>

struct pfw_arena_chunk;

/* All zero: empty. */
struct pfw_arena {
	struct pfw_arena_chunk *chunk; /* the one in use; it names the one before */
	size_t bytes;		       /* given out */
};

/* Room for that many bytes; NULL: no memory.  Thread: one at a time, as all here. */
char *pfw_arena_take(struct pfw_arena *arena, size_t bytes);

/* A copy with a NUL behind it; NULL: no memory. */
char *pfw_arena_copy(struct pfw_arena *arena, const char *text, size_t bytes);

/* Give back all; pfw_arena_clear() keeps a chunk for what comes next. */
void pfw_arena_clear(struct pfw_arena *arena);
void pfw_arena_release(struct pfw_arena *arena);

#endif
