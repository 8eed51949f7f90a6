/* summary_lines.c - the tracer's own lines in a summary: processes, steps, losses, short calls. */
#include "summary_lines.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "call.h"
#include "jsonread.h"
#include "summary_rows.h"

/* ---- args ---- */

static uint64_t arg_u64(const struct pfw_entry *entry, const char *key, uint64_t otherwise)
{
	struct pfw_value value;
	uint64_t number;

	return pfw_entry_arg(entry, key, &value) && pfw_value_u64(&value, &number) ? number
										   : otherwise;
}

static int64_t arg_i64(const struct pfw_entry *entry, const char *key, int64_t otherwise)
{
	struct pfw_value value;
	int64_t number;

	return pfw_entry_arg(entry, key, &value) && pfw_value_i64(&value, &number) ? number
										   : otherwise;
}

/* A duration or time in µs, in ns; 0 where there is none. */
static int64_t arg_ns(const struct pfw_entry *entry, const char *key)
{
	struct pfw_value value;
	int64_t ns;

	return pfw_entry_arg(entry, key, &value) && value.type == PFW_VALUE_NUMBER &&
			       pfw_slice_us(&value.text, &ns)
		       ? ns
		       : 0;
}

/* A text, to be freed; "" where there is none; NULL: no memory. */
static char *arg_text(const struct pfw_entry *entry, const char *key)
{
	struct pfw_value value;
	char *text;

	if (!pfw_entry_arg(entry, key, &value) || value.type != PFW_VALUE_STRING)
		return strdup("");
	text = malloc(value.text.bytes + 1);
	if (text)
		pfw_slice_decode(&value.text, text, value.text.bytes + 1);
	return text;
}

/* ---- processes ---- */

static int add_process(struct pfw_summary *summary, const struct pfw_entry *entry)
{
	char *run = arg_text(entry, "run"), *host = arg_text(entry, "host");
	char *command = arg_text(entry, "cmd");
	struct pfw_summary_process process = {
		.pid = entry->pid,
		.ppid = arg_u64(entry, "ppid", 0),
		.start_ns = entry->ts_ns,
		.rank = arg_i64(entry, "rank", -1),
		.local_rank = arg_i64(entry, "local_rank", -1),
		.world_size = arg_u64(entry, "world_size", 1),
		.run = run,
		.host = host,
		.command = command,
	};
	int error = run && host && command ? pfw_summary_add_process(summary, &process) : -ENOMEM;

	free(run);
	free(host);
	free(command);
	return error;
}

static int add_end(struct pfw_summary *summary, const struct pfw_entry *entry)
{
	char *reason = arg_text(entry, "reason");
	struct pfw_summary_process news = {
		.pid = entry->pid,
		.start_ns = PFW_SUMMARY_NO_START,
		.rank = PFW_SUMMARY_NO_RANK,
		.reason = reason,
		.end_ns = entry->ts_ns,
		.events = arg_u64(entry, "events", 0),
		.lost = arg_u64(entry, "lost", 0),
	};
	int error = reason ? pfw_summary_update_process(summary, &news) : -ENOMEM;

	free(reason);
	return error;
}

static int add_rank(struct pfw_summary *summary, const struct pfw_entry *entry)
{
	struct pfw_summary_process news = {
		.pid = entry->pid,
		.start_ns = PFW_SUMMARY_NO_START,
		.rank = arg_i64(entry, "rank", PFW_SUMMARY_NO_RANK),
	};

	return pfw_summary_update_process(summary, &news);
}

static int add_thread_name(struct pfw_summary *summary, const struct pfw_entry *entry,
			   uint32_t thread)
{
	char *name = arg_text(entry, "name");
	int error = name ? pfw_summary_name_thread(summary, thread, name, strlen(name)) : -ENOMEM;

	free(name);
	return error;
}

/* ---- losses ---- */

static int add_loss(struct pfw_summary *summary, const struct pfw_entry *entry, const char *kind,
		    const char *reason, uint64_t count)
{
	struct pfw_summary_loss loss = {
		.pid = entry->pid,
		.kind = kind,
		.reason = reason,
		.count = count,
		.total_ns = arg_ns(entry, "total"),
		.last_ns = entry->ts_ns,
	};

	return pfw_summary_add_loss(summary, &loss);
}

/* A line with its reason in args[key]. */
static int add_reason(struct pfw_summary *summary, const struct pfw_entry *entry, const char *kind,
		      const char *key, uint64_t count)
{
	char *reason = arg_text(entry, key);
	int error = reason ? add_loss(summary, entry, kind, reason, count) : -ENOMEM;

	free(reason);
	return error;
}

/* A line whose args are counts, each under its reason. */
static int add_reasons(struct pfw_summary *summary, const struct pfw_entry *entry, const char *kind)
{
	struct pfw_reader reader = { .at = entry->args.at + 1,
				     .end = entry->args.at + entry->args.bytes };
	char reason[64];
	int error = 0;

	pfw_reader_space(&reader);
	while (!error && reader.at < reader.end && !pfw_reader_at(&reader, '}')) {
		struct pfw_slice key;
		struct pfw_value value;
		uint64_t count;

		if (!pfw_reader_key(&reader, &key) || !pfw_reader_value(&reader, &value))
			return 0;
		pfw_slice_decode(&key, reason, sizeof(reason));
		if (pfw_value_u64(&value, &count))
			error = add_loss(summary, entry, kind, reason, count);
		pfw_reader_space(&reader);
		if (pfw_reader_at(&reader, ','))
			reader.at++;
		pfw_reader_space(&reader);
	}
	return error;
}

/* ---- calls that were summed ---- */

static int add_summed(struct pfw_summary *summary, const struct pfw_entry *entry)
{
	char *name = arg_text(entry, "name"), *fname = arg_text(entry, "fname");
	uint64_t count = arg_u64(entry, "count", 0), bytes = arg_u64(entry, "bytes", 0);
	int64_t ns = arg_ns(entry, "dur"), row = -ENOMEM, file = -ENOMEM;
	const char *cat;
	struct pfw_call call;

	if (name && fname) {
		cat = pfw_call_cat(name, strlen(name));
		row = pfw_summary_name_row(summary, cat, strlen(cat), name, strlen(name), 's');
		call = pfw_call_find(cat, strlen(cat), name, strlen(name));
		file = pfw_summary_file_row(summary, fname, strlen(fname));
	}
	if (row >= 0) {
		summary->name[row].count += count;
		summary->name[row].sum_ns += ns;
		summary->name[row].bytes += bytes;
	}
	if (file >= 0) {
		summary->file[file].lines += *fname != '\0';
		pfw_summary_add_calls(&summary->file[file], call, count, ns > 0 ? (uint64_t)ns : 0,
				      bytes);
	}
	free(name);
	free(fname);
	return row < 0 ? (int)row : file < 0 ? (int)file : 0;
}

/* ---- lines ---- */

int pfw_summary_own_line(struct pfw_summary *summary, const struct pfw_entry *entry,
			 uint32_t thread)
{
	static const char *const named[] = { "excluded", "unrecorded" };
	const struct pfw_slice *name = &entry->name;

	if (pfw_slice_is(name, "thread_name"))
		return add_thread_name(summary, entry, thread);
	if (pfw_slice_is(name, "summed"))
		return add_summed(summary, entry);
	if (pfw_slice_is(name, "process"))
		return add_process(summary, entry);
	if (pfw_slice_is(name, "end"))
		return add_end(summary, entry);
	if (pfw_slice_is(name, "rank"))
		return add_rank(summary, entry);
	if (pfw_slice_is(name, "lost"))
		return add_reason(summary, entry, "lost", "reason", arg_u64(entry, "count", 0));
	if (pfw_slice_is(name, "waited"))
		return add_loss(summary, entry, "waited", "", arg_u64(entry, "count", 0));
	if (pfw_slice_is(name, "sums_full"))
		return add_loss(summary, entry, "sums_full", "", arg_u64(entry, "count", 0));
	if (pfw_slice_is(name, "clock_step"))
		return add_loss(summary, entry, "clock_step", "", 1);
	if (pfw_slice_is(name, "untraced_child"))
		return add_reason(summary, entry, "untraced_child", "why", 1);
	for (size_t i = 0; i < sizeof(named) / sizeof(named[0]); i++) {
		if (pfw_slice_is(name, named[i]))
			return add_reasons(summary, entry, named[i]);
	}
	return 0;
}

bool pfw_summary_is_step(const char *name, size_t bytes, uint64_t *number)
{
	static const char prefix[] = "ProfilerStep#";
	size_t at = sizeof(prefix) - 1;

	if (bytes <= at || bytes > at + 18 || memcmp(name, prefix, at) != 0)
		return false;
	for (*number = 0; at < bytes; at++) {
		if (name[at] < '0' || name[at] > '9')
			return false;
		*number = *number * 10 + (uint64_t)(name[at] - '0');
	}
	return true;
}

struct pfw_call pfw_summary_call(const char *cat, size_t cat_bytes, const char *name,
				 size_t name_bytes)
{
	struct pfw_call call = pfw_call_find(cat, cat_bytes, name, name_bytes);
	static const char steps[] = PFW_SUMMARY_STEPS;

	if (call.moves == PFW_MOVES_BYTES && name_bytes == sizeof(steps) - 1 &&
	    memcmp(name, steps, sizeof(steps) - 1) == 0)
		call.role = PFW_SUMMARY_STEP;
	return call;
}

int pfw_summary_step_line(struct pfw_summary *summary, const struct pfw_entry *entry)
{
	struct pfw_summary_step step = { .pid = entry->pid,
					 .tid = entry->tid,
					 .begin_ns = entry->ts_ns };

	if (entry->ph != 'X' ||
	    !pfw_summary_is_step(entry->name.at, entry->name.bytes, &step.number))
		return 0;
	if (__builtin_add_overflow(entry->ts_ns, entry->dur_ns, &step.end_ns))
		step.end_ns = INT64_MAX;
	return pfw_summary_add_step(summary, &step);
}
