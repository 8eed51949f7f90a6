/* recorder/spool/templates.c - templates in the spool that describe the records of each call. */
#include "recorder/spool/templates.h"

#include <string.h>

#include "common/base/os.h"
#include "common/calls/table.h"
#include "common/format/spool.h"

_Static_assert(sizeof(struct pfw_key) == sizeof(struct pfw_call_field), "a key is copied as it is");

#define NO_KEY UINT8_MAX

static const struct pfw_template_chunk *made;

/* Where numbers of keys are found by what the keys are: there are about a thousand lookups. */
struct key_slots {
	uint8_t number[256];
};

/* The number of a key, added if it is new. */
static uint8_t key_number(struct pfw_template_chunk *chunk, struct key_slots *slots,
			  const struct pfw_call_field *field)
{
	uint64_t word[3];
	uint8_t at;

	memcpy(word, field, sizeof(word));
	word[0] = (word[0] ^ word[1] << 7 ^ word[2] << 13) * 0x9e3779b97f4a7c15u;
	for (at = (uint8_t)(word[0] >> 56); slots->number[at] != NO_KEY; at++)
		if (memcmp(&chunk->key[slots->number[at]], field, sizeof(*field)) == 0)
			return slots->number[at];
	if (chunk->key_count == PFW_KEYS_MAX)
		return PFW_KEYS_MAX;
	memcpy(&chunk->key[chunk->key_count], field, sizeof(*field));
	slots->number[at] = (uint8_t)chunk->key_count++;
	return slots->number[at];
}

static void make_call(struct pfw_template_chunk *chunk, struct key_slots *slots,
		      struct pfw_template *template, const struct pfw_call_info *call)
{
	memcpy(template->name, call->canonical, sizeof(template->name));
	memcpy(template->category, call->category, sizeof(template->category));
	template->shape = PFW_SHAPE_CALL;
	if (call->has_fd)
		template->field[template->field_count++] = 0;
	for (unsigned i = 0; i < call->field_count; i++)
		template->field[template->field_count++] =
			key_number(chunk, slots, &call->field[i]);
}

size_t pfw_templates_bytes(void)
{
	size_t calls;

	pfw_calls_info(&calls);
	return sizeof(*made) + (calls + 3) * sizeof(struct pfw_template);
}

const struct pfw_template_chunk *pfw_templates_make(void)
{
	static const struct pfw_call_field fd = { "fd", PFW_TYPE_I64 };
	struct pfw_template_chunk *chunk;
	const struct pfw_call_info *call;
	struct key_slots slots;
	size_t calls;

	if (made)
		return made;
	chunk = pfw_os_map(pfw_templates_bytes());
	if (!chunk)
		return NULL;
	call = pfw_calls_info(&calls);
	memset(&slots, NO_KEY, sizeof(slots));
	key_number(chunk, &slots, &fd);
	for (size_t i = 0; i < calls; i++)
		make_call(chunk, &slots, &chunk->template[i], &call[i]);
	chunk->template[calls].shape = PFW_SHAPE_API;
	chunk->template[calls + 1].shape = PFW_SHAPE_PP;
	memcpy(chunk->template[calls + 1].category, "PP", 2);
	chunk->template[calls + 2].shape = PFW_SHAPE_UNTRACED;
	chunk->template_count = (uint32_t)calls + 3;
	made = chunk; /* only now: a child that is forked meanwhile makes its own */
	return chunk;
}

struct pfw_template_ids pfw_templates_ids(void)
{
	size_t calls;

	pfw_calls_info(&calls);
	return (struct pfw_template_ids){ (uint16_t)calls, (uint16_t)(calls + 1),
					  (uint16_t)(calls + 2) };
}
