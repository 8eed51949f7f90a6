/* tools/perfetto/names.c - interned texts; see perfetto.h. */
#include <errno.h>

#include "perfetto/perfetto.h"
#include "perfetto/wire.h"

/*
 * Limits of texts and bytes.  Beyond either, all texts are forgotten and interned again when used.
 */
#define NAMES_MAX (1u << 17)
#define BYTES_MAX (16u << 20)

static const uint8_t fields[] = {
	[PERFETTO_CATEGORY] = INTERNED_CATEGORY,
	[PERFETTO_NAME] = INTERNED_NAME,
	[PERFETTO_KEY] = INTERNED_KEY,
	[PERFETTO_STRING] = INTERNED_STRING,
};

void perfetto_names_free(struct perfetto_names *names)
{
	pfw_text_ids_release(&names->texts);
	pfw_buffer_free(&names->told);
}

bool perfetto_names_full(const struct perfetto_names *names)
{
	return names->texts.count >= NAMES_MAX || names->texts.texts.bytes >= BYTES_MAX;
}

void perfetto_names_clear(struct perfetto_names *names)
{
	pfw_text_ids_clear(&names->texts);
	names->told.bytes = 0;
}

/* A field of InternedData: the number and its text, without JSON's escapes. */
static int tell(struct perfetto_names *names, enum perfetto_text kind, uint32_t iid,
		struct pfw_slice text)
{
	struct pfw_buffer *told = &names->told;
	size_t wanted = told->bytes + text.bytes + 64;
	char *content, *at, *decoded;

	if (wanted > told->room && pfw_buffer_room(told, 2 * wanted))
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
	uint32_t count = names->texts.count;
	int64_t number = pfw_text_ids_of(&names->texts, kind, text.at, text.bytes);

	if (number < 0 || (number == count && tell(names, kind, (uint32_t)number + 1, text)))
		return 0;
	return (uint32_t)number + 1;
}
