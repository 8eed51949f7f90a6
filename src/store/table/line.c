/* store/table/line.c - reads a line: its args, its links to GPU work, its I/O; see line.h. */
#include "store/table/line.h"

#include <errno.h>
#include <string.h>

#include "store/kit/saturate.h"
#include "store/line/step_name.h"
#include "store/nesting/launches.h"
#include "store/pass/fname_hashes.h"
#include "store/pass/steps.h"

/* ---- the line ---- */

/* args that link a line of cat PP to other lines. */
struct links {
	struct pfw_slice kind;
	uint64_t correlation, external_id, span, span_id, parent;
};

static int device_of(const struct pfw_value *value)
{
	uint64_t number;

	if (!pfw_value_u64(value, &number))
		return 0;
	return number < 100 ? (int)number : 99;
}

/* The device of a kind, for a line without one. */
static int usual_device(const struct pfw_slice *kind)
{
	return pfw_slice_is(kind, "kernel") || pfw_slice_is(kind, "memcpy") ||
	       pfw_slice_is(kind, "memset") || pfw_slice_is(kind, "sync") ||
	       pfw_slice_is(kind, "memory");
}

/* By the length of its key first: most args are none of these. */
static void take_arg(const struct pfw_slice *key, const struct pfw_value *value,
		     struct pfw_table_line *line, struct links *links)
{
	switch (key->bytes) {
	case 4:
		if (pfw_member_is(key, "kind"))
			links->kind = value->text;
		else if (pfw_member_is(key, "span"))
			pfw_value_u64(value, &links->span);
		break;
	case 5:
		if (pfw_member_is(key, "flops"))
			pfw_value_u64(value, &line->extra.flops);
		else if (pfw_member_is(key, "stack"))
			line->stack = value->text;
		else if (pfw_member_is(key, "fname") && value->type == PFW_VALUE_STRING)
			line->fname = value->text;
		break;
	case 6:
		if (pfw_member_is(key, "device"))
			line->device = device_of(value);
		else if (pfw_member_is(key, "parent"))
			pfw_value_u64(value, &links->parent);
		break;
	case 7:
		if (pfw_member_is(key, "span_id"))
			pfw_value_u64(value, &links->span_id);
		break;
	case 10:
		if (pfw_member_is(key, "cpu_memory"))
			line->has_memory = pfw_value_i64(value, &line->extra.cpu_memory);
		break;
	case 11:
		if (pfw_member_is(key, "correlation"))
			pfw_value_u64(value, &links->correlation);
		else if (pfw_member_is(key, "external_id"))
			pfw_value_u64(value, &links->external_id);
		break;
	case 12:
		if (pfw_member_is(key, "input_shapes")) {
			line->shapes = value->text;
			line->shapes_text = value->type == PFW_VALUE_STRING;
		}
		break;
	case 19:
		if (pfw_member_is(key, "device_memory_usage"))
			line->has_memory |= pfw_value_i64(value, &line->extra.device_memory);
		break;
	}
}

static void read_args(const struct pfw_entry *entry, struct pfw_table_line *line,
		      struct links *links)
{
	struct pfw_slice key;
	struct pfw_value value;
	struct pfw_args args;

	line->device = -1;
	pfw_args_init(&args, entry);
	while (pfw_args_next(&args, &key, &value))
		take_arg(&key, &value, line, links);
	if (line->device < 0)
		line->device = usual_device(&links->kind);
	line->has_extra = line->extra.flops || line->extra.cpu_memory || line->extra.device_memory;
}

/* Bookkeeping of torch.profiler and of autograd, which torch's own tables leave out. */
static bool is_bookkeeping(const struct pfw_slice *name)
{
	static const char *const names[] = { "profiler::_record_function_enter",
					     "profiler::_record_function_enter_new",
					     "profiler::_record_function_exit",
					     "aten::is_leaf",
					     "aten::output_nr",
					     "aten::_version" };

	if (!pfw_slice_begins(name, "profiler::") && !pfw_slice_begins(name, "aten::"))
		return false;
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		if (pfw_slice_is(name, names[i]))
			return true;
	}
	return false;
}

static void link_work(struct pfw_table_line *line, const struct links *links)
{
	uint64_t span = links->span ? pfw_launcher(PFW_LAUNCHER_SPAN, links->span) : 0;
	bool call = pfw_slice_is(&links->kind, "runtime") || pfw_slice_is(&links->kind, "driver");

	line->annotation = pfw_slice_is(&links->kind, "annotation") ||
			   pfw_slice_is(&links->kind, "step");
	/* The work in an annotation has lines of its own; a wait is no work. */
	if (line->device && (line->annotation || pfw_slice_is(&links->kind, "sync")))
		return;
	if (!line->device) {
		if (call)
			line->launcher = pfw_launcher(PFW_LAUNCHER_CALL, links->correlation);
		else if (links->external_id)
			line->launcher = pfw_launcher(PFW_LAUNCHER_OPERATOR, links->external_id);
		else if (links->span_id)
			line->launcher = pfw_launcher(PFW_LAUNCHER_SPAN, links->span_id);
		if (links->span_id)
			line->parent = links->parent;
		return;
	}
	if (links->external_id)
		line->launched_by = pfw_launcher(PFW_LAUNCHER_OPERATOR, links->external_id);
	else if (links->correlation)
		line->launched_by = pfw_launcher(PFW_LAUNCHER_CALL, links->correlation);
	else
		line->launched_by = span;
	if (line->launched_by != span)
		line->otherwise = span;
}

/* ---- I/O ---- */

/* What a call's args say of the bytes it moved; -1: nothing. */
struct amounts {
	int64_t ret, size, count;
};

static void read_call_args(const struct pfw_entry *entry, struct pfw_table_line *line,
			   struct amounts *amounts)
{
	struct pfw_slice key;
	struct pfw_value value;
	struct pfw_args args;

	pfw_args_init(&args, entry);
	while (pfw_args_next(&args, &key, &value)) {
		if (pfw_member_is(&key, "ret"))
			pfw_value_i64(&value, &amounts->ret);
		else if (pfw_member_is(&key, "size"))
			pfw_value_i64(&value, &amounts->size);
		else if (pfw_member_is(&key, "count"))
			pfw_value_i64(&value, &amounts->count);
		else if (pfw_member_is(&key, "fname") && value.type == PFW_VALUE_STRING)
			line->fname = value.text;
	}
}

static void read_call(struct pfw_table_line *line, const struct pfw_entry *entry,
		      struct pfw_io_calls *calls, struct pfw_table_how how)
{
	struct pfw_io_call call = pfw_io_calls_find(calls, &line->name);
	struct amounts amounts = { -1, -1, -1 };
	struct pfw_value value;
	uint64_t bytes;

	line->calls = 1;
	line->transfers = call.moves != PFW_MOVES_NOTHING;
	if (how.args || line->transfers)
		read_call_args(entry, line, &amounts);
	if (how.args && call.role == PFW_ROLE_COPY)
		pfw_arg_text(entry, "target", &line->target);
	if (how.fnames && !line->fname.at && pfw_fname_hashes_find(how.fnames, entry, &value) &&
	    value.type == PFW_VALUE_STRING)
		line->fname = value.text;
	pfw_io_moved(call, amounts.ret,
		     call.moves == PFW_MOVES_ITEMS   ? amounts.size
		     : call.moves == PFW_MOVES_COUNT ? amounts.count
						     : 0,
		     &bytes);
	line->bytes = (int64_t)bytes;
	if (!line->transfers)
		line->mapped = pfw_io_mapped(entry);
}

/* A `summed` line, which stands for many short calls. */
static bool read_summed(struct pfw_table_line *line, const struct pfw_entry *entry)
{
	struct pfw_value value;

	if (!pfw_slice_is(&entry->cat, "pfw") || !pfw_slice_is(&entry->name, "summed") ||
	    !pfw_arg_text(entry, "name", &line->name))
		return false;
	line->section = PFW_TABLE_IO;
	line->summed = true;
	line->cat.at = pfw_io_call_cat(line->name.at, line->name.bytes);
	line->cat.bytes = strlen(line->cat.at);
	pfw_arg_text(entry, "fname", &line->fname);
	if (!pfw_entry_arg(entry, "count", &value) || !pfw_value_u64(&value, &line->calls) ||
	    !pfw_entry_arg(entry, "dur", &value) || !pfw_value_ns(&value, &line->dur_ns))
		return false;
	line->bytes = pfw_arg_i64(entry, "bytes", 0);
	line->transfers =
		pfw_io_call_find(line->cat.at, line->cat.bytes, line->name.at, line->name.bytes)
					.moves != PFW_MOVES_NOTHING
			? line->calls
			: 0;
	return true;
}

bool pfw_table_line_name(struct pfw_table_line *line, const struct pfw_entry *entry, bool plain)
{
	bool call = pfw_is_io(&entry->cat);
	size_t bytes = sizeof(*line);

	/* The asm hides the size: for a known size the compiler uses `rep stos`, which starts
	 * slowly. */
	__asm__("" : "+r"(bytes));
	memset(line, 0, bytes);
	line->section = call || plain ? PFW_TABLE_IO : PFW_TABLE_COMPUTE;
	line->name = entry->name;
	line->cat = entry->cat;
	line->step = -1;
	return !pfw_slice_is(&entry->cat, "pfw") &&
	       (plain || !pfw_slice_is(&entry->cat, "PP") || !is_bookkeeping(&entry->name));
}

/* An event that is no I/O call, with --plain: copies and sets of memory have bytes. */
static void read_plain(struct pfw_table_line *line, const struct pfw_entry *entry, bool args)
{
	struct links links = { .kind = { .at = "" } };
	uint64_t bytes;

	line->calls = 1;
	if (args)
		read_args(entry, line, &links);
	line->device = 0;
	if (!pfw_slice_is(&entry->cat, "PP") || !pfw_memory_moved(entry, &bytes))
		return;
	line->transfers = 1;
	line->bytes = bytes < INT64_MAX ? (int64_t)bytes : INT64_MAX;
}

void pfw_table_line_args(struct pfw_table_line *line, const struct pfw_entry *entry)
{
	struct links links = { .kind = { .at = "" } };

	read_args(entry, line, &links);
	link_work(line, &links);
	/* As in torch's tables: a Python function's time is no self time of its caller. */
	if (pfw_slice_is(&links.kind, "python_function"))
		line->section = PFW_TABLE_HIDDEN;
}

bool pfw_table_line_times(struct pfw_table_line *line, const struct pfw_entry *entry)
{
	int64_t end;

	line->start_ns = entry->ts_ns;
	line->dur_ns = entry->dur_ns > 0 ? entry->dur_ns : 0;
	return !__builtin_add_overflow(line->start_ns, line->dur_ns, &end) &&
	       line->start_ns != INT64_MIN;
}

bool pfw_table_line_read(struct pfw_table_line *line, const struct pfw_entry *entry,
			 struct pfw_io_calls *calls, struct pfw_table_how how)
{
	bool known = pfw_table_line_name(line, entry, how.plain);
	bool timed = pfw_table_line_times(line, entry);

	if (entry->ph == 'M')
		return read_summed(line, entry);
	if (entry->ph != 'X' || !timed || !known)
		return false;
	if (pfw_is_io(&entry->cat))
		read_call(line, entry, calls, how);
	else if (how.plain)
		read_plain(line, entry, how.args);
	else
		pfw_table_line_args(line, entry);
	return true;
}

int pfw_table_add_call(struct pfw_average *row, struct pfw_table_call call, bool self, bool sketch)
{
	struct pfw_tally *sums = &row->sums;

	if (call.summed) {
		pfw_saturate_u64(&sums->count, call.calls);
		pfw_saturate_sum(&sums->total_ns, call.dur_ns);
	} else {
		pfw_tally_begin(sums, call.start_ns, call.dur_ns, false);
		pfw_tally_time(sums, call.dur_ns);
		if (sketch && pfw_sketch_add(&row->durations, call.dur_ns))
			return -ENOMEM;
	}
	if (self || call.summed)
		pfw_saturate_sum(&sums->self_ns, call.dur_ns);
	if (call.transfers) {
		pfw_saturate_u64(&sums->transfers, call.transfers);
		pfw_saturate_sum(&sums->bytes, call.bytes);
		pfw_saturate_sum(&sums->transfer_ns, call.dur_ns);
	}
	return 0;
}

void pfw_table_line_step(struct pfw_table_line *line, const struct pfw_steps *steps, size_t file,
			 const struct pfw_entry *entry)
{
	uint64_t number;

	if (pfw_steps_find(steps, file, entry, &number))
		line->step = (int64_t)number;
}
