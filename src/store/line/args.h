/* store/line/args.h - the args of a line: one by its key, or all in order.
 *
 * Inlined, so that the length of a constant key is a constant.  Thread: any.
 */
#pragma once

#include "store/json/walk.h"
#include "store/line/entry.h"

/* ---- one arg; `otherwise`: the key is missing, or its value has another type ---- */

static inline uint64_t pfw_arg_u64(const struct pfw_entry *entry, const char *key,
				   uint64_t otherwise)
{
	struct pfw_value value;
	uint64_t number;

	return pfw_entry_arg(entry, key, &value) && pfw_value_u64(&value, &number) ? number
										   : otherwise;
}

static inline int64_t pfw_arg_i64(const struct pfw_entry *entry, const char *key, int64_t otherwise)
{
	struct pfw_value value;
	int64_t number;

	return pfw_entry_arg(entry, key, &value) && pfw_value_i64(&value, &number) ? number
										   : otherwise;
}

/* A time or a duration, which is in µs in the text. */
static inline int64_t pfw_arg_ns(const struct pfw_entry *entry, const char *key, int64_t otherwise)
{
	struct pfw_value value;
	int64_t ns;

	return pfw_entry_arg(entry, key, &value) && pfw_value_ns(&value, &ns) ? ns : otherwise;
}

/* A string.  If there is none, *text is unchanged. */
static inline bool pfw_arg_text(const struct pfw_entry *entry, const char *key,
				struct pfw_slice *text)
{
	struct pfw_value value;

	if (!pfw_entry_arg(entry, key, &value) || value.type != PFW_VALUE_STRING)
		return false;
	*text = value.text;
	return true;
}

/* ---- all args ---- */

/* The args that the parser has found, or a walk over their text if it has not kept all. */
struct pfw_args {
	const struct pfw_entry *entry;
	unsigned next;
	struct pfw_walk members;
};

static inline void pfw_args_init(struct pfw_args *args, const struct pfw_entry *entry)
{
	args->entry = entry;
	args->next = 0;
	if (entry->args_more)
		pfw_walk_init(&args->members, &entry->args);
}

/* The next key, as written, and its value.  False at the end. */
static inline bool pfw_args_next(struct pfw_args *args, struct pfw_slice *key,
				 struct pfw_value *value)
{
	const struct pfw_entry *entry = args->entry;

	if (entry->args_more)
		return pfw_walk_next(&args->members, key, value);
	if (args->next == entry->arg_count)
		return false;
	pfw_entry_pair(entry, args->next++, key, value);
	return true;
}
