/* recorder/spool/templates.c - templates in the spool that describe the records of each call. */
#include "recorder/spool/templates.h"

#include <string.h>

#include "common/base/os.h"
#include "common/calls/table.h"
#include "common/format/spool.h"

static struct pfw_template_chunk *made;

/* The number of a key, added if it is new. */
static uint8_t key_number(struct pfw_template_chunk *chunk, const char *name, uint8_t type)
{
	uint32_t i = 0;

	/* About a thousand lookups at each start: the first byte spares most calls of strcmp(). */
	while (i < chunk->key_count &&
	       (chunk->key[i].type != type || chunk->key[i].name[0] != name[0] ||
		strcmp(chunk->key[i].name, name)))
		i++;
	if (i == chunk->key_count && i < PFW_KEYS_MAX) {
		strncpy(chunk->key[i].name, name, sizeof(chunk->key[i].name) - 1);
		chunk->key[i].type = type;
		chunk->key_count++;
	}
	return (uint8_t)i;
}

static void make_call(struct pfw_template_chunk *chunk, struct pfw_template *template,
		      const struct pfw_call_info *call)
{
	strncpy(template->name, call->canonical, sizeof(template->name) - 1);
	strncpy(template->category, call->category, sizeof(template->category) - 1);
	template->shape = PFW_SHAPE_CALL;
	if (call->has_fd)
		template->field[template->field_count++] = 0;
	for (unsigned i = 0; i < call->field_count; i++)
		template->field[template->field_count++] =
			key_number(chunk, call->field[i].key, call->field[i].type);
}

const struct pfw_template_chunk *pfw_templates_make(size_t *bytes)
{
	const struct pfw_call_info *call;
	size_t calls;

	call = pfw_calls_info(&calls);
	*bytes = sizeof(*made) + (calls + 3) * sizeof(struct pfw_template);
	if (made)
		return made;
	made = pfw_os_map(*bytes);
	if (!made)
		return NULL;
	key_number(made, "fd", PFW_TYPE_I64);
	for (size_t i = 0; i < calls; i++)
		make_call(made, &made->template[i], &call[i]);
	made->template[calls].shape = PFW_SHAPE_API;
	made->template[calls + 1].shape = PFW_SHAPE_PP;
	memcpy(made->template[calls + 1].category, "PP", 2);
	made->template[calls + 2].shape = PFW_SHAPE_UNTRACED;
	made->template_count = (uint32_t)calls + 3;
	return made;
}

struct pfw_template_ids pfw_templates_ids(void)
{
	size_t calls;

	pfw_calls_info(&calls);
	return (struct pfw_template_ids){ (uint16_t)calls, (uint16_t)(calls + 1),
					  (uint16_t)(calls + 2) };
}
