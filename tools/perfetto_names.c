/* perfetto_names.c - texts that are told once and have a number from then on; see export_perfetto.h. */
#include <errno.h>
#include <stdlib.h>

#include "export_perfetto.h"
#include "perfetto_wire.h"
#include "store/hash.h"

/* Beyond either they are forgotten, and told anew where they come again. */
#define NAMES_MAX (1u << 17)
#define BYTES_MAX (16u << 20)
#define SLOTS_FIRST 1024u

static const uint8_t fields[] = {
	[PERFETTO_CATEGORY] = INTERNED_CATEGORY,
	[PERFETTO_NAME] = INTERNED_NAME,
	[PERFETTO_KEY] = INTERNED_KEY,
	[PERFETTO_STRING] = INTERNED_STRING,
};

int perfetto_names_init(struct perfetto_names *names)
{
	*names = (struct perfetto_names){ .seed = pfw_hash_seed(), .slots = SLOTS_FIRST };
	names->slot = calloc(names->slots, sizeof(*names->slot));
	return names->slot ? 0 : -ENOMEM;
}

void perfetto_names_free(struct perfetto_names *names)
{
	free(names->slot);
	pfw_arena_release(&names->texts);
	pfw_text_free(&names->told);
}

bool perfetto_names_full(const struct perfetto_names *names)
{
	return names->count >= NAMES_MAX || names->texts.bytes >= BYTES_MAX;
}

void perfetto_names_clear(struct perfetto_names *names)
{
	memset(names->slot, 0, names->slots * sizeof(*names->slot));
	names->count = 0;
	pfw_arena_clear(&names->texts);
	names->told.bytes = 0;
}

static struct perfetto_slot *find(const struct perfetto_names *names, uint64_t hash,
				  struct pfw_slice text)
{
	for (uint32_t i = (uint32_t)hash;; i++) {
		struct perfetto_slot *slot = &names->slot[i & (names->slots - 1)];

		if (!slot->iid || (slot->hash == hash && slot->bytes == text.bytes &&
				   memcmp(slot->text, text.at, text.bytes) == 0))
			return slot;
	}
}

static int grow(struct perfetto_names *names)
{
	struct perfetto_names bigger = { .slots = names->slots * 2 };

	bigger.slot = calloc(bigger.slots, sizeof(*bigger.slot));
	if (!bigger.slot)
		return -ENOMEM;
	for (uint32_t i = 0; i < names->slots; i++) {
		const struct perfetto_slot *slot = &names->slot[i];
		const struct pfw_slice text = { .at = slot->text, .bytes = slot->bytes };

		if (slot->iid)
			*find(&bigger, slot->hash, text) = *slot;
	}
	free(names->slot);
	names->slot = bigger.slot;
	names->slots = bigger.slots;
	return 0;
}

/* A field of InternedData: the number and its text, without JSON's escapes. */
static int tell(struct perfetto_names *names, enum perfetto_text kind, uint32_t iid,
		struct pfw_slice text)
{
	struct pfw_text *told = &names->told;
	size_t wanted = told->bytes + text.bytes + 64;
	char *content, *at, *decoded;

	if (wanted > told->room && pfw_text_room(told, 2 * wanted))
		return -ENOMEM;
	content = wire_open(told->data + told->bytes, fields[kind]);
	at = wire_u64(content, INTERNED_IID, iid);
	if (text.escaped) {
		decoded = wire_open(at, INTERNED_TEXT);
		at = wire_close(decoded,
				decoded + pfw_slice_decode(&text, decoded, text.bytes + 1));
	} else {
		at = wire_bytes(at, INTERNED_TEXT, text.at, text.bytes);
	}
	told->bytes = (size_t)(wire_close(content, at) - told->data);
	return 0;
}

uint32_t perfetto_iid(struct perfetto_names *names, enum perfetto_text kind, struct pfw_slice text)
{
	uint64_t hash = pfw_hash_text(names->seed + kind, text.at, text.bytes);
	struct perfetto_slot *slot = find(names, hash, text);
	const char *copy;

	if (slot->iid)
		return slot->iid;
	if (2 * (names->count + 1) > names->slots) {
		if (grow(names))
			return 0;
		slot = find(names, hash, text);
	}
	copy = pfw_arena_copy(&names->texts, text.at, text.bytes);
	if (!copy || tell(names, kind, names->count + 1, text))
		return 0;
	*slot = (struct perfetto_slot){ copy, hash, (uint32_t)text.bytes, ++names->count };
	return slot->iid;
}
