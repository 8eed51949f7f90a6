/* store/memory/blocks.c - a hash table of the allocations that are live at a time, by address. */
#include <errno.h>
#include <stdlib.h>

#include "store/memory/memory.h"

#define FIRST_SLOTS 1024u

static size_t home(const struct pfw_memory_blocks *blocks, uint32_t pool, uint64_t addr)
{
	uint64_t hash = (addr ^ (uint64_t)pool << 48) * 0x9e3779b97f4a7c15u;

	return (hash ^ hash >> 32) & (blocks->slots - 1);
}

/* The slot of an address, or the free slot for it. */
static size_t find(const struct pfw_memory_blocks *blocks, uint32_t pool, uint64_t addr)
{
	size_t at = home(blocks, pool, addr);

	while (blocks->slot[at].bytes &&
	       (blocks->slot[at].pool != pool || blocks->slot[at].addr != addr))
		at = (at + 1) & (blocks->slots - 1);
	return at;
}

static int grow(struct pfw_memory_blocks *blocks)
{
	struct pfw_memory_blocks more = { .slots = blocks->slots ? 2 * blocks->slots : FIRST_SLOTS,
					  .count = blocks->count };

	more.slot = calloc(more.slots, sizeof(*more.slot));
	if (!more.slot)
		return -ENOMEM;
	for (size_t i = 0; i < blocks->slots; i++) {
		const struct pfw_memory_block *block = &blocks->slot[i];

		if (block->bytes)
			more.slot[find(&more, block->pool, block->addr)] = *block;
	}
	free(blocks->slot);
	*blocks = more;
	return 0;
}

int pfw_memory_blocks_put(struct pfw_memory_blocks *blocks, const struct pfw_memory_block *block)
{
	size_t at;

	if (blocks->count >= blocks->slots / 2 && grow(blocks))
		return -ENOMEM;
	at = find(blocks, block->pool, block->addr);
	blocks->count += !blocks->slot[at].bytes;
	blocks->slot[at] = *block;
	return 0;
}

bool pfw_memory_blocks_take(struct pfw_memory_blocks *blocks, uint32_t pool, uint64_t addr,
			    struct pfw_memory_block *block)
{
	size_t mask = blocks->slots - 1, hole, at;

	if (!blocks->count)
		return false;
	hole = find(blocks, pool, addr);
	if (!blocks->slot[hole].bytes)
		return false;
	*block = blocks->slot[hole];
	blocks->count--;
	/* Blocks that a collision put after the hole move up. */
	for (at = (hole + 1) & mask; blocks->slot[at].bytes; at = (at + 1) & mask) {
		size_t from = home(blocks, blocks->slot[at].pool, blocks->slot[at].addr);

		if (((at - from) & mask) < ((at - hole) & mask))
			continue;
		blocks->slot[hole] = blocks->slot[at];
		hole = at;
	}
	blocks->slot[hole].bytes = 0;
	return true;
}
