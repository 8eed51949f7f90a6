/* export_csv.c - a row a line of the trace: times as whole nanoseconds, args as JSON (RFC 4180). */
#include <errno.h>
#include <stdlib.h>

#include "export.h"
#include "store/emit.h"

struct csv {
	const struct export_job *job;
	bool begun;
};

/* In quotes, with those inside doubled. */
static char *quoted(char *at, const char *text, size_t bytes)
{
	*at++ = '"';
	for (size_t i = 0; i < bytes; i++) {
		if (text[i] == '"')
			*at++ = '"';
		*at++ = text[i];
	}
	*at++ = '"';
	return at;
}

/* The text behind JSON's escapes.  It is no longer than they are, so it can go behind its quoted
 * form's end and be quoted from there. */
static char *field(char *at, struct pfw_slice text)
{
	char *decoded = at + 2 * text.bytes + 64;

	if (!text.escaped)
		return quoted(at, text.at, text.bytes);
	return quoted(at, decoded, pfw_slice_decode(&text, decoded, text.bytes + 1));
}

/* The names of the columns, once. */
static int head(struct csv *csv)
{
	bool begun = csv->begun;

	csv->begun = true;
	return begun ? 0
		     : export_sink_text(csv->job->sink,
					"rank,id,pid,tid,ts_ns,dur_ns,ph,cat,name,args\r\n");
}

static int line(void *state, size_t file, const struct pfw_entry *entry)
{
	struct csv *csv = state;
	int64_t rank = csv->job->traces->file[file].head.rank;
	int error = head(csv);
	char *at =
		export_sink_room(csv->job->sink, 4096 + 3 * (entry->name.bytes + entry->cat.bytes) +
							 2 * entry->args.bytes);
	if (error || !at)
		return error ? error : -ENOMEM;
	if (rank >= 0)
		at = pfw_emit_i64(at, rank);
	*at++ = ',';
	at = pfw_emit_u64(at, entry->id);
	*at++ = ',';
	at = pfw_emit_u64(at, entry->pid);
	*at++ = ',';
	at = pfw_emit_u64(at, entry->tid);
	*at++ = ',';
	if (entry->has & PFW_ENTRY_TS)
		at = pfw_emit_i64(at, entry->ts_ns);
	*at++ = ',';
	if (entry->has & PFW_ENTRY_DUR)
		at = pfw_emit_i64(at, entry->dur_ns);
	*at++ = ',';
	*at++ = entry->ph;
	*at++ = ',';
	at = field(at, entry->cat);
	*at++ = ',';
	at = field(at, entry->name);
	*at++ = ',';
	at = quoted(at, entry->args.bytes ? entry->args.at : "{}",
		    entry->args.bytes ? entry->args.bytes : 2);
	return export_sink_used(csv->job->sink, pfw_emit(at, "\r\n"));
}

static int end(void *state)
{
	return head(state);
}

static void *begin(const struct export_job *job)
{
	struct csv *csv = calloc(1, sizeof(*csv));

	if (csv)
		csv->job = job;
	return csv;
}

const struct export_format export_csv = {
	.name = "csv",
	.begin = begin,
	.line = line,
	.end = end,
	.free = free,
};
