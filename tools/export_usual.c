/* export_usual.c - what lines of GPU work leave out, put back: other formats have it on each event.
 *
 * README.rst says what is left out, src/json_usual.c does it.  A line on a lane of a GPU, whose tid no
 * thread has, is such a one if it does not say which device it is of.
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "export.h"
#include "store/members.h"

#define LANES_FROM 10000000u /* (device_index + 1) * 10^7 + context * 1000 + stream */
#define CONTEXTS 10000u
#define STREAMS 1000u

struct export_arg *export_args_find(const struct export_args *args, const char *key)
{
	for (size_t i = 0; i < args->count; i++) {
		if (pfw_slice_is(&args->arg[i].key, key))
			return &args->arg[i];
	}
	return NULL;
}

/* Room in the args' own text, which is as long as it takes for all that is put back. */
static struct pfw_slice put_text(struct export_args *args, size_t *used, const char *text)
{
	char *at = args->usual + *used;
	size_t bytes = strlen(text);

	if (bytes > sizeof(args->usual) - *used)
		return (struct pfw_slice){ .at = "null", .bytes = 4 };
	memcpy(at, text, bytes);
	*used += bytes;
	return (struct pfw_slice){ .at = at, .bytes = bytes };
}

static int put_number(struct export_args *args, size_t *used, const char *key, uint64_t number)
{
	struct pfw_value value = { .type = PFW_VALUE_NUMBER };
	char text[24];

	if (export_args_find(args, key))
		return 0;
	snprintf(text, sizeof(text), "%" PRIu64, number);
	value.text = put_text(args, used, text);
	return export_args_add(args, (struct pfw_slice){ .at = key, .bytes = strlen(key) }, &value);
}

/* [256] is [256,1,1]. */
static void widen(struct export_args *args, size_t *used, const char *key)
{
	struct export_arg *arg = export_args_find(args, key);
	struct pfw_members members;
	struct pfw_value element;
	char text[64] = "";
	size_t count = 0, at = 0;

	if (!arg || arg->value.type != PFW_VALUE_ARRAY || arg->value.text.bytes > 40)
		return;
	pfw_members_init(&members, &arg->value.text);
	for (; pfw_elements_next(&members, &element) && count < 3; count++)
		at += (size_t)snprintf(text + at, sizeof(text) - at, "%c%.*s", count ? ',' : '[',
				       (int)element.text.bytes, element.text.at);
	if (!count || count == 3)
		return;
	snprintf(text + at, sizeof(text) - at, count == 1 ? ",1,1]" : ",1]");
	arg->value.text = put_text(args, used, text);
}

/* How much of the device a kernel fills is told once for each shape. */
static int recall_occupancy(struct export_args *args)
{
	static const char *const of[] = { "device_index", "grid",	 "block",
					  "registers",	  "static_smem", "dynamic_smem" };
	struct export_arg *told = export_args_find(args, "occupancy");
	struct export_shape *shape;
	uint64_t hash = 1469598103934665603u;

	for (size_t i = 0; i < sizeof(of) / sizeof(of[0]); i++) {
		const struct export_arg *arg = export_args_find(args, of[i]);

		for (size_t k = 0; arg && k < arg->value.text.bytes; k++)
			hash = (hash ^ (unsigned char)arg->value.text.at[k]) * 1099511628211u;
		hash = (hash ^ 0xff) * 1099511628211u;
	}
	shape = &args->shape[(hash >> 32) % EXPORT_SHAPES];
	if (told && told->value.text.bytes < sizeof(shape->text)) {
		shape->hash = hash;
		shape->bytes = (uint8_t)told->value.text.bytes;
		memcpy(shape->text, told->value.text.at, shape->bytes);
	}
	if (told || shape->hash != hash)
		return 0;
	return export_args_add(
		args, (struct pfw_slice){ .at = "occupancy", .bytes = 9 },
		&(struct pfw_value){ .type = PFW_VALUE_NUMBER,
				     .text = { .at = shape->text, .bytes = shape->bytes } });
}

int export_args_complete(struct export_args *args, const struct pfw_entry *entry)
{
	size_t used = 0;
	int error;

	if (entry->tid < LANES_FROM || !pfw_slice_is(&entry->cat, "PP") ||
	    !export_args_find(args, "kind") || export_args_find(args, "device"))
		return 0;
	error = put_number(args, &used, "device", 1);
	error = error ? error
		      : put_number(args, &used, "device_index", entry->tid / LANES_FROM - 1);
	error = error ? error : put_number(args, &used, "context", entry->tid / STREAMS % CONTEXTS);
	error = error ? error : put_number(args, &used, "stream", entry->tid % STREAMS);
	widen(args, &used, "grid");
	widen(args, &used, "block");
	if (!error && export_args_find(args, "registers"))
		error = recall_occupancy(args);
	return error;
}
