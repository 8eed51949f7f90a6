/* export_args.c - the args of a line, for formats that go through all of them; see export.h. */
#include <errno.h>
#include <stdlib.h>

#include "export.h"
#include "store/emit.h"
#include "store/members.h"
#include "store/more.h"

int export_args_add(struct export_args *args, struct pfw_slice key, const struct pfw_value *value)
{
	struct export_arg *more = pfw_more(args->arg, args->count, &args->room, sizeof(*more));

	if (!more)
		return -ENOMEM;
	args->arg = more;
	more[args->count++] = (struct export_arg){ key, *value };
	return 0;
}

/* Of a line in our own order they were taken apart with it. */
static int read_pairs(struct export_args *args, const struct pfw_entry *entry)
{
	int error = 0;

	for (unsigned i = 0; i < entry->arg_count && !error; i++) {
		const struct pfw_entry_pair *pair = &entry->arg[i];
		bool string = pair->type == PFW_VALUE_STRING;
		struct pfw_value value = {
			.type = pair->type,
			.text = { .at = entry->line + pair->value + string,
				  .bytes = pair->bytes - 2u * string,
				  .escaped = pair->escaped },
		};

		error = export_args_add(args,
					(struct pfw_slice){ .at = entry->line + pair->key,
							    .bytes = pair->key_bytes },
					&value);
	}
	return error;
}

int export_args_read_raw(struct export_args *args, const struct pfw_entry *entry)
{
	struct pfw_members members;
	struct pfw_slice key;
	struct pfw_value value;
	int error = 0;

	args->count = 0;
	if (!(entry->has & PFW_ENTRY_ARGS) || !entry->args.bytes)
		return 0;
	if (!entry->args_more) {
		error = read_pairs(args, entry);
	} else {
		pfw_members_init(&members, &entry->args);
		while (!error && pfw_members_next(&members, &key, &value))
			error = export_args_add(args, key, &value);
	}
	return error;
}

int export_args_read(struct export_args *args, const struct pfw_entry *entry)
{
	int error = export_args_read_raw(args, entry);

	return error ? error : export_args_complete(args, entry);
}

void export_args_free(struct export_args *args)
{
	free(args->arg);
	*args = (struct export_args){ 0 };
}

char *export_value(char *at, const struct pfw_value *value)
{
	bool string = value->type == PFW_VALUE_STRING;

	if (value->type == PFW_VALUE_ARRAY || value->type == PFW_VALUE_OBJECT)
		return pfw_emit_compact(at, value->text);
	if (string)
		*at++ = '"';
	at = pfw_emit_slice(at, value->text);
	if (string)
		*at++ = '"';
	return at;
}

char *export_arg_as_is(char *at, const struct export_arg *arg)
{
	*at++ = '"';
	at = pfw_emit_slice(at, arg->key);
	at = pfw_emit(at, "\":");
	return export_value(at, &arg->value);
}
