/* common/format/spool.c - looks up strings of a spool by reference. */
#include "common/format/spool.h"

#include <stddef.h>

const char *pfw_string_text(const struct pfw_string_view *view, uint32_t ref, uint32_t *bytes)
{
	const char *segment = view->segment[(ref & 0xffff) >> 12];
	uint32_t offset = (ref & 4095) * PFW_STRING_GRANULE;
	const struct pfw_string *string;
	uint32_t generation;

	if (!ref || !segment || offset < sizeof(struct pfw_chunk))
		return NULL;
	if (offset + sizeof(*string) > PFW_STRING_SEGMENT_BYTES)
		return NULL;
	string = (const struct pfw_string *)(segment + offset);
	/* Pairs with the release stores in recorder/spool/strings.c that fill or free the cell. */
	generation = atomic_load_explicit(&string->generation, memory_order_acquire);
	if (generation != ref >> 16 || !(generation & 1))
		return NULL;
	*bytes = string->bytes;
	if (offset + sizeof(*string) + *bytes > PFW_STRING_SEGMENT_BYTES)
		return NULL;
	return string->text;
}
