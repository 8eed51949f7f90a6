/* store/summary/own_lines.c - adds the tracer's own lines: processes, steps, losses, sums. */
#include "store/summary/rows.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "store/line/args.h"
#include "store/line/step_name.h"

/* ---- args ---- */

/* A text, to be freed; "" if it is missing; NULL: no memory. */
static char *arg_text(const struct pfw_entry *entry, const char *key)
{
	struct pfw_slice slice = { .at = "" };
	char *text;

	pfw_arg_text(entry, key, &slice);
	text = malloc(slice.bytes + 1);
	if (text)
		pfw_slice_decode(&slice, text, slice.bytes + 1);
	return text;
}

/* ---- processes ---- */

static int add_process(struct pfw_summary *summary, const struct pfw_entry *entry)
{
	char *run = arg_text(entry, "run"), *host = arg_text(entry, "host");
	char *command = arg_text(entry, "cmd");
	struct pfw_summary_process process = {
		.pid = entry->pid,
		.ppid = pfw_arg_u64(entry, "ppid", 0),
		.start_ns = entry->ts_ns,
		.rank = pfw_arg_i64(entry, "rank", -1),
		.local_rank = pfw_arg_i64(entry, "local_rank", -1),
		.world_size = pfw_arg_u64(entry, "world_size", 1),
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
		.events = pfw_arg_u64(entry, "events", 0),
		.lost = pfw_arg_u64(entry, "lost", 0),
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
		.rank = pfw_arg_i64(entry, "rank", PFW_SUMMARY_NO_RANK),
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
		.total_ns = pfw_arg_ns(entry, "total", 0),
		.last_ns = entry->ts_ns,
	};

	return pfw_summary_add_loss(summary, &loss);
}

/* Add a line that has its reason in args[key]. */
static int add_reason(struct pfw_summary *summary, const struct pfw_entry *entry, const char *kind,
		      const char *key, uint64_t count)
{
	char *reason = arg_text(entry, key);
	int error = reason ? add_loss(summary, entry, kind, reason, count) : -ENOMEM;

	free(reason);
	return error;
}

/* Add a line whose args are counts by reason. */
static int add_reasons(struct pfw_summary *summary, const struct pfw_entry *entry, const char *kind)
{
	struct pfw_args args;
	struct pfw_slice key;
	struct pfw_value value;
	char reason[64];
	uint64_t count;
	int error = 0;

	pfw_args_init(&args, entry);
	while (!error && pfw_args_next(&args, &key, &value)) {
		pfw_slice_decode(&key, reason, sizeof(reason));
		if (pfw_value_u64(&value, &count))
			error = add_loss(summary, entry, kind, reason, count);
	}
	return error;
}

/* ---- summed calls ---- */

static int add_summed(struct pfw_summary *summary, const struct pfw_entry *entry)
{
	int64_t row = -ENOMEM, file = -ENOMEM;
	char *name, *fname;
	const char *cat;
	struct pfw_io_call call;
	struct pfw_io_sums sums;

	if (!pfw_io_summed(entry, &sums))
		return 0;
	name = arg_text(entry, "name");
	fname = arg_text(entry, "fname");
	if (name && fname) {
		cat = pfw_io_call_cat(name, strlen(name));
		row = pfw_summary_name_row(summary, cat, strlen(cat), name, strlen(name), 's');
		call = pfw_io_call_find(cat, strlen(cat), name, strlen(name));
		file = pfw_summary_file_row(summary, fname, strlen(fname));
	}
	if (row >= 0) {
		pfw_saturate_u64(&summary->name[row].count, sums.calls);
		summary->name[row].sum_ns += sums.ns;
		if (call.moves != PFW_MOVES_NOTHING)
			pfw_summary_add_transfers(&summary->name[row], sums.calls,
						  (uint64_t)sums.ns, (uint64_t)sums.bytes);
	}
	if (file >= 0) {
		summary->file[file].lines += *fname != '\0';
		pfw_summary_add_calls(&summary->file[file], call, sums.calls, (uint64_t)sums.ns,
				      (uint64_t)sums.bytes);
	}
	free(name);
	free(fname);
	return row < 0 ? (int)row : file < 0 ? (int)file : 0;
}

/* ---- lines ---- */

int pfw_summary_own_line(struct pfw_summary *summary, const struct pfw_entry *entry,
			 uint32_t thread)
{
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
		return add_reason(summary, entry, "lost", "reason", pfw_arg_u64(entry, "count", 0));
	if (pfw_slice_is(name, "waited"))
		return add_loss(summary, entry, "waited", "", pfw_arg_u64(entry, "count", 0));
	if (pfw_slice_is(name, "sums_full"))
		return add_loss(summary, entry, "sums_full", "", pfw_arg_u64(entry, "count", 0));
	if (pfw_slice_is(name, "clock_step"))
		return add_loss(summary, entry, "clock_step", "", 1);
	if (pfw_slice_is(name, "untraced_child"))
		return add_reason(summary, entry, "untraced_child", "why", 1);
	if (pfw_slice_is(name, "excluded"))
		return add_reasons(summary, entry, "excluded");
	if (pfw_slice_is(name, "unrecorded"))
		return add_reasons(summary, entry, "unrecorded");
	return 0;
}

struct pfw_io_call pfw_summary_call(const char *cat, size_t cat_bytes, const char *name,
				    size_t name_bytes)
{
	struct pfw_io_call call = pfw_io_call_find(cat, cat_bytes, name, name_bytes);
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

	if (entry->ph != 'X' || !pfw_is_step_name(entry->name.at, entry->name.bytes, &step.number))
		return 0;
	if (__builtin_add_overflow(entry->ts_ns, entry->dur_ns, &step.end_ns))
		step.end_ns = INT64_MAX;
	return pfw_summary_add_step(summary, &step);
}
