/* store/kit/arena.c - arena allocator for texts; see arena.h. */
#include "store/kit/arena.h"

#include <stdlib.h>
#include <string.h>

#define CHUNK (64u << 10)

struct pfw_arena_chunk {
	struct pfw_arena_chunk *before;
	size_t used, room;
	char text[];
};

static struct pfw_arena_chunk *add_chunk(struct pfw_arena *arena, size_t bytes)
{
	size_t room = bytes > CHUNK ? bytes : CHUNK;
	struct pfw_arena_chunk *chunk = malloc(sizeof(*chunk) + room);

	if (!chunk)
		return NULL;
	chunk->before = arena->chunk;
	chunk->used = 0;
	chunk->room = room;
	arena->chunk = chunk;
	return chunk;
}

char *pfw_arena_take(struct pfw_arena *arena, size_t bytes)
{
	struct pfw_arena_chunk *chunk = arena->chunk;
	char *text;

	if (!chunk || bytes > chunk->room - chunk->used)
		chunk = add_chunk(arena, bytes);
	if (!chunk)
		return NULL;
	text = chunk->text + chunk->used;
	chunk->used += bytes;
	arena->bytes += bytes;
	return text;
}

char *pfw_arena_copy(struct pfw_arena *arena, const char *text, size_t bytes)
{
	char *copy = pfw_arena_take(arena, bytes + 1);

	if (!copy)
		return NULL;
	memcpy(copy, text, bytes);
	copy[bytes] = '\0';
	return copy;
}

void pfw_arena_clear(struct pfw_arena *arena)
{
	struct pfw_arena_chunk *chunk = arena->chunk, *before;

	arena->bytes = 0;
	if (!chunk)
		return;
	while ((before = chunk->before)) {
		free(chunk);
		chunk = before;
	}
	chunk->used = 0;
	arena->chunk = chunk;
}

void pfw_arena_release(struct pfw_arena *arena)
{
	pfw_arena_clear(arena);
	free(arena->chunk);
	*arena = (struct pfw_arena){ 0 };
}
