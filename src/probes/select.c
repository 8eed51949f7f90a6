/* select.c - which calls are recorded: PFW_CALLS and DFTRACER_DISABLE_*. */
#include "select.h"

#include <string.h>

#include "../config.h"
#include "../globs.h"
#include "probe.h"

uint16_t pfw_selected[PFW_CALLS_MAX];

static bool is_selected(const struct pfw_config *config, const struct pfw_call_info *call)
{
	if (config->disable_io ||
	    (strcmp(call->category, "POSIX") ? config->disable_stdio : config->disable_posix))
		return false;
	return !config->calls || pfw_glob_list(config->calls, ',', call->canonical) ||
	       pfw_glob_list(config->calls, ',', call->name);
}

bool pfw_select_init(const struct pfw_config *config)
{
	size_t count;
	const struct pfw_call_info *call = pfw_calls_info(&count);
	bool any = false;

	for (size_t i = 0; i < count; i++) {
		pfw_selected[i] = is_selected(config, &call[i]) ? (uint16_t)i : PFW_CALL_NONE;
		any |= pfw_selected[i] != PFW_CALL_NONE;
	}
	return any;
}

bool pfw_select_wraps(unsigned call)
{
	size_t count;

	return pfw_calls_info(&count)[call].keeps || pfw_selected[call] != PFW_CALL_NONE;
}
