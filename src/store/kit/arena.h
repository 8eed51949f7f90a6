/* store/kit/arena.h - arena allocator for texts: all of them are freed at once.
 *
 * Room store/kit: containers and number codings: arrays that grow, arenas, hashes, numberings,
 * heaps, sorts.  Pure memory: a file here includes libc and files of this room only.  Start with
 * grow.h and text_ids.h.
 */
#pragma once

#include <stddef.h>

struct pfw_arena_chunk;

/* All zero: empty. */
struct pfw_arena {
	struct pfw_arena_chunk *chunk; /* the newest chunk; each chunk links the older one */
	size_t bytes;		       /* handed out */
};

/* Allocate `bytes` bytes; NULL: no memory.  Thread: one at a time, as all here. */
char *pfw_arena_take(struct pfw_arena *arena, size_t bytes);

/* Copy a text and append a NUL; NULL: no memory. */
char *pfw_arena_copy(struct pfw_arena *arena, const char *text, size_t bytes);

/* Free all texts; pfw_arena_clear() keeps one chunk for reuse. */
void pfw_arena_clear(struct pfw_arena *arena);
void pfw_arena_release(struct pfw_arena *arena);
