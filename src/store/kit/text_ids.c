/* store/kit/text_ids.c - numbers texts; see text_ids.h. */
#include "store/kit/text_ids.h"

#include <errno.h>
#include <stdlib.h>

#include "store/kit/grow.h"

/* Prefetch distance of pfw_text_ids_map(), in texts. */
#define FETCH_AHEAD 4u

static uint32_t slot_hash(int64_t of, uint32_t hash)
{
	return hash ^ (uint32_t)of * 0x9e3779b1u;
}

static int64_t add(struct pfw_text_ids *names, int64_t of, const char *text, size_t bytes,
		   uint32_t hash)
{
	char *copy;

	if (bytes > UINT32_MAX || names->count >= UINT32_MAX / 2 ||
	    pfw_hash_slots_reserve(&names->slots) ||
	    PFW_ROOM(names->name, names->count, names->room))
		return -ENOMEM;
	copy = pfw_arena_copy(&names->texts, text, bytes);
	if (!copy)
		return -ENOMEM;
	names->name[names->count] = (struct pfw_text_id){
		.text = copy, .bytes = (uint32_t)bytes, .hash = hash, .of = of
	};
	pfw_hash_slots_add(&names->slots, slot_hash(of, hash), ++names->count);
	return names->count - 1;
}

static int64_t find(const struct pfw_text_ids *names, int64_t of, const char *text, size_t bytes,
		    uint32_t hash)
{
	uint32_t key = slot_hash(of, hash), at = key, number;

	while ((number = pfw_hash_slots_next(&names->slots, key, &at))) {
		const struct pfw_text_id *name = &names->name[number - 1];

		if (name->bytes == bytes && name->of == of &&
		    pfw_hash_same(name->text, text, bytes))
			return number - 1;
	}
	return -ENOENT;
}

static uint32_t hash_of(const char *text, size_t bytes)
{
	uint64_t hash = pfw_hash_text(pfw_hash_seed(), text, bytes);

	return (uint32_t)(hash ^ hash >> 32);
}

int64_t pfw_text_ids_find(const struct pfw_text_ids *names, int64_t of, const char *text,
			  size_t bytes)
{
	return names->count ? find(names, of, text, bytes, hash_of(text, bytes)) : -ENOENT;
}

int64_t pfw_text_ids_of(struct pfw_text_ids *names, int64_t of, const char *text, size_t bytes)
{
	uint32_t hash = hash_of(text, bytes);
	int64_t found;

	if (!names->slots.slot && pfw_hash_slots_init(&names->slots))
		return -ENOMEM;
	found = find(names, of, text, bytes, hash);
	return found >= 0 ? found : add(names, of, text, bytes, hash);
}

void pfw_text_ids_forget(struct pfw_text_ids *names)
{
	names->count = 0;
	if (names->slots.slot)
		pfw_hash_slots_clear(&names->slots);
}

uint32_t pfw_text_ids_again(struct pfw_text_ids *names, const char *text, uint32_t bytes)
{
	uint32_t hash = hash_of(text, bytes);
	int64_t found = find(names, 0, text, bytes, hash);

	if (found >= 0)
		return (uint32_t)found;
	names->name[names->count] =
		(struct pfw_text_id){ .text = text, .bytes = bytes, .hash = hash };
	pfw_hash_slots_add(&names->slots, slot_hash(0, hash), ++names->count);
	return names->count - 1;
}

int64_t pfw_text_ids_lend(struct pfw_text_ids *names, int64_t of, const char *text, uint32_t bytes,
			  uint32_t hash)
{
	const struct pfw_text_id name = { .text = text, .bytes = bytes, .hash = hash, .of = of };

	return PFW_PUSH(names->name, names->count, names->room, name) ? -ENOMEM
								      : (int64_t)names->count - 1;
}

int64_t pfw_text_ids_like(struct pfw_text_ids *names, int64_t of, const struct pfw_text_id *text)
{
	int64_t found;

	if (!names->slots.slot && pfw_hash_slots_init(&names->slots))
		return -ENOMEM;
	found = find(names, of, text->text, text->bytes, text->hash);
	return found >= 0 ? found : add(names, of, text->text, text->bytes, text->hash);
}

/* Most of many texts are in no cache: prefetch the slot, the row and the text of later ones. */
static inline void fetch(const struct pfw_text_ids *names, int64_t of,
			 const struct pfw_text_ids *from, uint32_t i)
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

int pfw_text_ids_map(struct pfw_text_ids *names, int64_t of, const struct pfw_text_ids *from,
		     uint32_t *number)
{
	if (!names->slots.slot && pfw_hash_slots_init(&names->slots))
		return -ENOMEM;
	for (uint32_t i = 0; i < from->count; i++) {
		int64_t found;

		fetch(names, of, from, i);
		found = pfw_text_ids_like(names, of, &from->name[i]);
		if (found < 0)
			return (int)found;
		number[i] = (uint32_t)found;
	}
	return 0;
}

void pfw_text_ids_clear(struct pfw_text_ids *names)
{
	pfw_text_ids_forget(names);
	pfw_arena_clear(&names->texts);
}

void pfw_text_ids_release(struct pfw_text_ids *names)
{
	free(names->name);
	pfw_hash_slots_release(&names->slots);
	pfw_arena_release(&names->texts);
	*names = (struct pfw_text_ids){ 0 };
}
