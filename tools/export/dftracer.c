/* tools/export/dftracer.c - lines as DFTracer 2.x writes them, for dftracer-utils and DFAnalyzer.
 *
 * Times are whole µs.  Files and hosts are hashes; a metadata line gives the name of each hash.
 */
#include <errno.h>
#include <string.h>

#include "export/export.h"
#include "store/kit/pair_ids.h"
#include "store/line/io.h"

/* DFTracer's numbers for the source of an event. */
enum type { TYPE_IO = 3, TYPE_PYTHON = 6, TYPE_CUDA = 14 };

struct dftracer {
	const struct export_job *job;
	struct export_args args;
	struct pfw_pair_ids told; /* hashes with a metadata line, by process */
	uint64_t id;
};

/* FNV-1a gives a file the same hash in every trace. */
static uint64_t hash_of(const char *text, size_t bytes)
{
	uint64_t hash = 14695981039346656037u;

	for (size_t i = 0; i < bytes; i++)
		hash = (hash ^ (unsigned char)text[i]) * 1099511628211u;
	return hash;
}

static char *hex(char *at, uint64_t number)
{
	for (int shift = 60; shift >= 0; shift -= 4)
		*at++ = "0123456789abcdef"[number >> shift & 15];
	return at;
}

static char *hash_arg(char *at, const char *key, uint64_t hash)
{
	*at++ = '"';
	at = pfw_emit(at, key);
	at = pfw_emit(at, "\":\"");
	at = hex(at, hash);
	*at++ = '"';
	return at;
}

/* Rounding down keeps nested spans nested. */
static int64_t us(int64_t ns)
{
	return ns / 1000 - (ns % 1000 < 0);
}

static char *who(char *at, const struct pfw_entry *entry)
{
	at = pfw_append_u64(pfw_emit(at, ",\"pid\":"), entry->pid);
	return pfw_append_u64(pfw_emit(at, ",\"tid\":"), entry->tid);
}

/* Write the name of a hash, once per process. */
static int tell(struct dftracer *dftracer, const char *record, const struct pfw_entry *entry,
		uint64_t host, uint64_t hash, struct pfw_slice name)
{
	uint32_t before = dftracer->told.count;
	int64_t number = pfw_pair_ids_of(&dftracer->told, hash, entry->pid);
	char *at;

	if (number < 0 || dftracer->told.count == before)
		return number < 0 ? (int)number : 0;
	at = export_sink_room(dftracer->job->sink, 512 + name.bytes);
	if (!at)
		return -ENOMEM;
	at = pfw_emit(at, "{\"name\":\"");
	at = pfw_emit_bytes(at, record, 2);
	at = pfw_emit(at, "\",\"cat\":\"dftracer\",\"type\":1");
	at = who(at, entry);
	at = pfw_emit(at, ",\"ph\":\"M\",\"args\":{");
	at = hash_arg(at, "hhash", host);
	at = pfw_emit(at, ",\"name\":\"");
	at = pfw_emit_slice(at, name);
	at = pfw_emit(at, "\",");
	at = hash_arg(at, "value", hash);
	return export_sink_used(dftracer->job->sink, pfw_emit(at, "}}\n"));
}

static unsigned type_of(const struct pfw_entry *entry, const struct export_args *args)
{
	const struct export_arg *device;

	if (pfw_is_io(&entry->cat))
		return TYPE_IO;
	device = export_args_find(args, "device");
	if (device && pfw_slice_is(&entry->cat, "PP") && *device->value.text.at == '1')
		return TYPE_CUDA;
	return TYPE_PYTHON;
}

static char *write_args(char *at, const struct export_args *args, uint64_t host)
{
	at = pfw_emit(at, ",\"args\":{");
	at = hash_arg(at, "hhash", host);
	for (size_t i = 0; i < args->count; i++) {
		const struct export_arg *arg = &args->arg[i];

		*at++ = ',';
		if (pfw_slice_is(&arg->key, "fname") && arg->value.type == PFW_VALUE_STRING)
			at = hash_arg(at, "fhash",
				      hash_of(arg->value.text.at, arg->value.text.bytes));
		else
			at = export_arg_as_is(at, arg);
	}
	return pfw_emit(at, "}}\n");
}

static int write_event(struct dftracer *dftracer, const struct pfw_entry *entry, uint64_t host)
{
	int64_t end_ns = INT64_MAX;
	char *at =
		export_sink_room(dftracer->job->sink, 1024 + entry->name.bytes + entry->cat.bytes +
							      4 * entry->args.bytes);

	if (!at)
		return -ENOMEM;
	(void)!__builtin_add_overflow(entry->ts_ns, entry->dur_ns, &end_ns);
	at = pfw_append_u64(pfw_emit(at, "{\"id\":"), ++dftracer->id);
	at = pfw_emit(at, ",\"name\":\"");
	at = pfw_emit_slice(at, entry->name);
	at = pfw_emit(at, "\",\"cat\":\"");
	at = pfw_emit_slice(at, entry->cat);
	at = pfw_append_u64(pfw_emit(at, "\",\"type\":"), type_of(entry, &dftracer->args));
	at = who(at, entry);
	at = pfw_append_i64(pfw_emit(at, ",\"ts\":"), us(entry->ts_ns));
	at = pfw_append_i64(pfw_emit(at, ",\"dur\":"), us(end_ns) - us(entry->ts_ns));
	at = pfw_emit(at, ",\"ph\":\"");
	/* DFTracer has no instants: they become events without duration. */
	*at++ = entry->ph == 'i' ? 'X' : entry->ph;
	*at++ = '"';
	at = write_args(at, &dftracer->args, host);
	return export_sink_used(dftracer->job->sink, at);
}

static int line(void *state, size_t file, const struct pfw_entry *entry)
{
	struct dftracer *dftracer = state;
	const char *name = dftracer->job->traces->file[file].head.host;
	uint64_t host = hash_of(name, strlen(name));
	const struct export_arg *fname;
	int error;

	if (!(entry->has & PFW_ENTRY_TS))
		return 0;
	error = export_args_read(&dftracer->args, entry);
	if (!error)
		error = tell(dftracer, "HH", entry, host, host,
			     (struct pfw_slice){ .at = name, .bytes = strlen(name) });
	fname = error ? NULL : export_args_find(&dftracer->args, "fname");
	if (fname && fname->value.type == PFW_VALUE_STRING)
		error = tell(dftracer, "FH", entry, host,
			     hash_of(fname->value.text.at, fname->value.text.bytes),
			     fname->value.text);
	return error ?: write_event(dftracer, entry, host);
}

static void release(void *state)
{
	struct dftracer *dftracer = state;

	export_args_free(&dftracer->args);
	pfw_pair_ids_release(&dftracer->told);
}

const struct export_format export_dftracer = {
	.name = "dftracer",
	.state_bytes = sizeof(struct dftracer),
	.line = line,
	.release = release,
};
