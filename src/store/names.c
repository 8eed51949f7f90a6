/* names.c - texts, numbered in order of their first use; see names.h. */
#include "names.h"

#include <errno.h>
#include <stdlib.h>

#include "hash.h"

static int reserve(struct pfw_names *names)
{
	uint32_t room = names->room ? names->room * 2 : 64;
	struct pfw_name *name;

	if (pfw_slots_reserve(&names->slots))
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
		(struct pfw_name){ .text = copy, .bytes = (uint32_t)bytes, .of = of };
	pfw_slots_add(&names->slots, hash, ++names->count);
	return names->count - 1;
}

int64_t pfw_names_of(struct pfw_names *names, int64_t of, const char *text, size_t bytes)
{
	uint64_t all = pfw_hash_text(pfw_hash_seed() ^ (uint64_t)of, text, bytes);
	uint32_t hash = (uint32_t)(all ^ all >> 32), at = hash, number;

	if (!names->slots.slot && pfw_slots_init(&names->slots))
		return -ENOMEM;
	while ((number = pfw_slots_next(&names->slots, hash, &at))) {
		const struct pfw_name *name = &names->name[number - 1];

		if (name->bytes == bytes && name->of == of &&
		    pfw_hash_same(name->text, text, bytes))
			return number - 1;
	}
	return add(names, of, text, bytes, hash);
}

void pfw_names_clear(struct pfw_names *names)
{
	names->count = 0;
	if (names->slots.slot)
		pfw_slots_clear(&names->slots);
	pfw_arena_clear(&names->texts);
}

void pfw_names_release(struct pfw_names *names)
{
	free(names->name);
	pfw_slots_release(&names->slots);
	pfw_arena_release(&names->texts);
	*names = (struct pfw_names){ 0 };
}
