/* common/settings/stack_when.c - PFW_STACK; see stack_when.h. */
#include "common/settings/stack_when.h"

#include <string.h>

#include "common/base/text.h"
#include "common/base/units.h"

#define EVERY_MAX 1000000000u

bool pfw_stack_when_parse(struct pfw_stack_when *out, const char *text)
{
	struct pfw_stack_when when = { 0 };
	const char *end;

	if (!strncmp(text, "min:", 4)) {
		text += 4;
		if (!pfw_units_ns(text, strlen(text), &when.min_ns) || !when.min_ns)
			return false;
	} else if (!strncmp(text, "every:", 6)) {
		end = pfw_text_read_u64(text + 6, &when.every);
		if (!end || *end || !when.every || when.every > EVERY_MAX)
			return false;
	} else {
		return false;
	}
	*out = when;
	return true;
}
