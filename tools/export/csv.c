/* tools/export/csv.c - CSV (RFC 4180), a row per line: times in whole ns, args as JSON. */
#include <errno.h>

#include "export/export.h"
#include "ui/cells.h"

struct csv {
	const struct export_job *job;
	bool begun;
};

/* Append a JSON string as a field.  Its decoded text is first placed after the longest possible
 * quoted form. */
static char *field(char *at, struct pfw_slice text)
{
	char *decoded = at + 2 * text.bytes + 64;

	if (!text.escaped)
		return cell_quoted(at, text.at, text.bytes);
	return cell_quoted(at, decoded, pfw_slice_decode(&text, decoded, text.bytes + 1));
}

/* Write the header row once. */
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
		return error ?: -ENOMEM;
	if (rank >= 0)
		at = pfw_append_i64(at, rank);
	at = pfw_append_u64(pfw_emit(at, ","), entry->id);
	at = pfw_append_u64(pfw_emit(at, ","), entry->pid);
	at = pfw_append_u64(pfw_emit(at, ","), entry->tid);
	*at++ = ',';
	if (entry->has & PFW_ENTRY_TS)
		at = pfw_append_i64(at, entry->ts_ns);
	*at++ = ',';
	if (entry->has & PFW_ENTRY_DUR)
		at = pfw_append_i64(at, entry->dur_ns);
	*at++ = ',';
	*at++ = entry->ph;
	at = field(pfw_emit(at, ","), entry->cat);
	at = field(pfw_emit(at, ","), entry->name);
	*at++ = ',';
	at = cell_quoted(at, entry->args.bytes ? entry->args.at : "{}",
			 entry->args.bytes ? entry->args.bytes : 2);
	return export_sink_used(csv->job->sink, pfw_emit(at, "\r\n"));
}

static int end(void *state)
{
	return head(state);
}

const struct export_format export_csv = {
	.name = "csv",
	.state_bytes = sizeof(struct csv),
	.line = line,
	.end = end,
};
