/* tools/export/args.c - the args of a line for formats that convert all of them; see export.h. */
#include <stdlib.h>
#include <string.h>

#include "export/export.h"
#include "store/kit/grow.h"
#include "store/line/args.h"
#include "store/pass/fname_hashes.h"

static int add(struct export_args *args, struct pfw_slice key, const struct pfw_value *value)
{
	return PFW_PUSH(args->arg, args->count, args->room, (struct export_arg){ key, *value });
}

int export_args_read(struct export_args *args, const struct pfw_entry *entry)
{
	struct pfw_args walk;
	struct pfw_slice key;
	struct pfw_value value;
	int error = 0;

	args->count = 0;
	if (!(entry->has & PFW_ENTRY_ARGS) || !entry->args.bytes)
		return 0;
	pfw_args_init(&walk, entry);
	while (!error && pfw_args_next(&walk, &key, &value))
		error = add(args, key, &value);
	return error;
}

struct export_arg *export_args_find(const struct export_args *args, const char *key)
{
	for (size_t i = 0; i < args->count; i++) {
		if (pfw_slice_is(&args->arg[i].key, key))
			return &args->arg[i];
	}
	return NULL;
}

int export_args_fname(struct export_args *args, const struct export_job *job,
		      const struct pfw_entry *entry)
{
	struct pfw_value fname;

	if (!job->fnames || pfw_entry_arg(entry, "fname", &fname) ||
	    !pfw_fname_hashes_find(job->fnames, entry, &fname))
		return 0;
	return add(args, (struct pfw_slice){ .at = "fname", .bytes = 5 }, &fname);
}

void export_args_free(struct export_args *args)
{
	free(args->arg);
	*args = (struct export_args){ 0 };
}

/* JSON without the white space between its tokens. */
static char *emit_compact(char *at, struct pfw_slice json)
{
	bool string = false;

	for (size_t i = 0; i < json.bytes; i++) {
		char c = json.at[i];

		if (!string && (unsigned char)c <= ' ')
			continue;
		*at++ = c;
		if (c == '"')
			string = !string;
		else if (c == '\\' && string && i + 1 < json.bytes)
			*at++ = json.at[++i];
	}
	return at;
}

double export_double(const struct pfw_value *value)
{
	char text[400];
	size_t bytes = value->text.bytes < sizeof(text) - 1 ? value->text.bytes : sizeof(text) - 1;

	memcpy(text, value->text.at, bytes);
	text[bytes] = '\0';
	return strtod(text, NULL);
}

char *export_value(char *at, const struct pfw_value *value)
{
	bool string = value->type == PFW_VALUE_STRING;

	if (value->type == PFW_VALUE_ARRAY || value->type == PFW_VALUE_OBJECT)
		return emit_compact(at, value->text);
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
