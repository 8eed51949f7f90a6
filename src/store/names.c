/* names.c - texts, numbered in order of their first use; see names.h. */
#include "names.h"

#include <errno.h>
#include <stdlib.h>

#include "hash.h"

/* Texts by which mapping runs ahead of itself. */
#define FETCH_AHEAD 4u

static int reserve(struct pfw_names *names)
{
	uint32_t room = names->room ? names->room * 2 : 64;
	struct pfw_name *name;

	if (pfw_row_slots_reserve(&names->slots))
		return -ENOMEM;
	if (names->count < names->room)
		return 0;
	name = room > UINT32_MAX / 2 ? NULL : realloc(names->name, room * sizeof(*name));
	if (!name)
		return -ENOMEM;
	names->name = name;
	names->room = room;
	return 0;
}

static uint32_t slot_hash(int64_t of, uint32_t hash)
{
	return hash ^ (uint32_t)of * 0x9e3779b1u;
}

static int64_t add(struct pfw_names *names, int64_t of, const char *text, size_t bytes,
		   uint32_t hash)
{
	char *copy;

	if (bytes > UINT32_MAX || reserve(names))
		return -ENOMEM;
	copy = pfw_arena_copy(&names->texts, text, bytes);
	if (!copy)
		return -ENOMEM;
	names->name[names->count] =
		(struct pfw_name){ .text = copy, .bytes = (uint32_t)bytes, .hash = hash, .of = of };
	pfw_row_slots_add(&names->slots, slot_hash(of, hash), ++names->count);
	return names->count - 1;
}

static int64_t find(struct pfw_names *names, int64_t of, const char *text, size_t bytes,
		    uint32_t hash)
{
	uint32_t key = slot_hash(of, hash), at = key, number;

	while ((number = pfw_row_slots_next(&names->slots, key, &at))) {
		const struct pfw_name *name = &names->name[number - 1];

		if (name->bytes == bytes && name->of == of &&
		    pfw_hash_same(name->text, text, bytes))
			return number - 1;
	}
	return add(names, of, text, bytes, hash);
}

int64_t pfw_names_of(struct pfw_names *names, int64_t of, const char *text, size_t bytes)
{
	uint64_t hash = pfw_hash_text(pfw_hash_seed(), text, bytes);

	if (!names->slots.slot && pfw_row_slots_init(&names->slots))
		return -ENOMEM;
	return find(names, of, text, bytes, (uint32_t)(hash ^ hash >> 32));
}

/* Of many texts few are still in a cache: ask for what is needed of those to come. */
static inline void fetch(const struct pfw_names *names, int64_t of, const struct pfw_names *from,
			 uint32_t i)
{
	uint32_t slot;

	if (i + 3 * FETCH_AHEAD < from->count) {
		slot = slot_hash(of, from->name[i + 3 * FETCH_AHEAD].hash);
		__builtin_prefetch(&names->slots.slot[slot & names->slots.mask]);
	}
	if (i + 2 * FETCH_AHEAD < from->count) {
		slot = slot_hash(of, from->name[i + 2 * FETCH_AHEAD].hash);
		slot = (uint32_t)names->slots.slot[slot & names->slots.mask];
		if (slot)
			__builtin_prefetch(&names->name[slot - 1]);
	}
	if (i + FETCH_AHEAD < from->count) {
		slot = slot_hash(of, from->name[i + FETCH_AHEAD].hash);
		slot = (uint32_t)names->slots.slot[slot & names->slots.mask];
		for (uint32_t at = 0; slot && at < names->name[slot - 1].bytes; at += 64)
			__builtin_prefetch(names->name[slot - 1].text + at);
	}
}

int pfw_names_map(struct pfw_names *names, int64_t of, const struct pfw_names *from,
		  uint32_t *number)
{
	if (!names->slots.slot && pfw_row_slots_init(&names->slots))
		return -ENOMEM;
	for (uint32_t i = 0; i < from->count; i++) {
		const struct pfw_name *name = &from->name[i];
		int64_t found;

		fetch(names, of, from, i);
		found = find(names, of, name->text, name->bytes, name->hash);
		if (found < 0)
			return (int)found;
		number[i] = (uint32_t)found;
	}
	return 0;
}

void pfw_names_clear(struct pfw_names *names)
{
	names->count = 0;
	if (names->slots.slot)
		pfw_row_slots_clear(&names->slots);
	pfw_arena_clear(&names->texts);
}

void pfw_names_release(struct pfw_names *names)
{
	free(names->name);
	pfw_row_slots_release(&names->slots);
	pfw_arena_release(&names->texts);
	*names = (struct pfw_names){ 0 };
}
