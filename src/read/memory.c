/* read/memory.c - memory of columns; see batch.h. */
#include "read/batch.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>

/* Arrow asks for 8, and recommends 64. */
#define ALIGNMENT 64u

/* At most so much is kept: a program may hold all batches of a large trace for a while. */
#define KEPT_BYTES (96u << 20)

/* In front of the content. */
struct block {
	struct pfw_read_memory *memory; /* NULL: none */
	struct block *next;		/* in memory->kept */
	size_t bytes;
	_Alignas(ALIGNMENT) char content[];
};

/* The mutex is only tried: a child may release what its parent had while another thread held it. */
struct pfw_read_memory {
	_Atomic size_t users; /* the stream, and each block in use */
	atomic_bool closed;
	pthread_mutex_t mutex; /* of the members below */
	struct block *kept;
	size_t kept_bytes;
};

struct pfw_read_memory *pfw_read_memory_new(void)
{
	struct pfw_read_memory *memory = calloc(1, sizeof(*memory));

	if (memory) {
		pthread_mutex_init(&memory->mutex, NULL);
		atomic_init(&memory->users, 1);
	}
	return memory;
}

static void free_kept(struct pfw_read_memory *memory)
{
	while (memory->kept) {
		struct block *block = memory->kept;

		memory->kept = block->next;
		free(block);
	}
}

static void drop(struct pfw_read_memory *memory)
{
	if (!memory || atomic_fetch_sub(&memory->users, 1) > 1)
		return;
	free_kept(memory);
	pthread_mutex_destroy(&memory->mutex);
	free(memory);
}

void pfw_read_memory_close(struct pfw_read_memory *memory)
{
	if (memory && pthread_mutex_trylock(&memory->mutex) == 0) {
		memory->closed = true;
		free_kept(memory);
		pthread_mutex_unlock(&memory->mutex);
	}
	drop(memory);
}

/* Take a kept block.  If none has that size, give one back: the sizes of a stream change while its
 * first batches grow, and then no more. */
static struct block *take(struct pfw_read_memory *memory, size_t bytes)
{
	struct block **at = &memory->kept, *block;

	while (*at && (*at)->bytes != bytes)
		at = &(*at)->next;
	if (!*at)
		at = &memory->kept;
	block = *at;
	if (!block)
		return NULL;
	*at = block->next;
	memory->kept_bytes -= block->bytes;
	if (block->bytes == bytes)
		return block;
	free(block);
	return NULL;
}

void *pfw_read_memory_get(struct pfw_read_memory *memory, size_t bytes)
{
	struct block *block = NULL;

	bytes = (bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
	if (memory && pthread_mutex_trylock(&memory->mutex) == 0) {
		block = take(memory, bytes);
		pthread_mutex_unlock(&memory->mutex);
	}
	if (!block)
		block = aligned_alloc(ALIGNMENT, sizeof(*block) + bytes);
	if (!block)
		return NULL;
	if (memory)
		atomic_fetch_add(&memory->users, 1);
	block->memory = memory;
	block->bytes = bytes;
	return block->content;
}

static bool keep(struct pfw_read_memory *memory, struct block *block)
{
	bool kept;

	if (memory->closed || pthread_mutex_trylock(&memory->mutex))
		return false;
	kept = !memory->closed && memory->kept_bytes + block->bytes <= KEPT_BYTES;
	if (kept) {
		block->next = memory->kept;
		memory->kept = block;
		memory->kept_bytes += block->bytes;
	}
	pthread_mutex_unlock(&memory->mutex);
	return kept;
}

void pfw_read_memory_put(void *content)
{
	struct block *block = content ? (struct block *)content - 1 : NULL;
	struct pfw_read_memory *memory = block ? block->memory : NULL;

	if (!memory || !keep(memory, block))
		free(block);
	drop(memory);
}
