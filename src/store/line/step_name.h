/* store/line/step_name.h - training steps in a trace: spans of cat PP named ProfilerStep#N. */
#pragma once

#include <string.h>

#include "store/line/args.h"

/* torch's span for the wait for the next batch: the name of the loader's class follows. */
#define PFW_LOADER_NAME "enumerate(DataLoader)#"

/* Whether a name is ProfilerStep#N, and its N.  Few names are, so the first eight bytes decide
 * first.  Thread: any, as all here. */
static inline bool pfw_is_step_name(const char *name, size_t bytes, uint64_t *number)
{
	/* Up to 18 digits, which cannot overflow. */
	if (bytes <= 13 || bytes > 13 + 18 || memcmp(name, "Profiler", 8) != 0 ||
	    memcmp(name + 8, "Step#", 5) != 0)
		return false;
	*number = 0;
	for (size_t i = 13; i < bytes; i++) {
		if (name[i] < '0' || name[i] > '9')
			return false;
		*number = *number * 10 + (uint64_t)(name[i] - '0');
	}
	return true;
}

/* Whether a line is the span of a step, and its number.  torch writes each step a second time, on
 * the device: that one is no step. */
static inline bool pfw_is_step(const struct pfw_entry *entry, uint64_t *number)
{
	return entry->ph == 'X' && entry->dur_ns >= 0 && pfw_slice_is(&entry->cat, "PP") &&
	       pfw_is_step_name(entry->name.at, entry->name.bytes, number) &&
	       pfw_arg_i64(entry, "device", 0) == 0;
}

/* The step that a line says it is in. */
static inline bool pfw_says_step(const struct pfw_entry *entry, uint64_t *number)
{
	struct pfw_value value;

	return pfw_entry_arg(entry, "step", &value) && pfw_value_u64(&value, number);
}
