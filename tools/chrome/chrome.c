/* tools/chrome/chrome.c - `pfw export --format chrome`: a timeline in Kineto's form.
 *
 * Perfetto, chrome://tracing, TensorBoard's profiler and HolisticTraceAnalysis read it.  Categories
 * and keys are Kineto's (tools/export/kineto.h); an event without a Kineto equivalent keeps ours.
 * Lines come in order of time, so overlapping spans are put on lanes as they pass.  Names of
 * processes and threads are written at the end, when all are known.
 */
#include "chrome/chrome.h"

#include <errno.h>
#include <string.h>

#include "store/json/walk.h"

/* Distance between the flow ids of two processes. */
#define FLOW_SPACE 40

struct chrome {
	const struct export_job *job;
	struct chrome_rows rows;
	struct chrome_flows launches, passes;
	struct export_args args;
	struct pfw_arena extra; /* members of the imported trace's outer object */
	char *extra_text;
	int64_t base_ns;
	bool begun, first;
};

/* ---- the outer object ---- */

static int write_head(struct chrome *chrome)
{
	const struct pfw_trace *head = &chrome->job->traces->file[chrome->job->file[0]].head;
	char *at = export_sink_room(chrome->job->sink, 2048);
	bool merge = chrome->job->options->merge;

	if (!at)
		return -ENOMEM;
	at = pfw_emit(at, "{\n\"schemaVersion\": 1,\n\"displayTimeUnit\": \"ms\",\n"
			  "\"baseTimeNanoseconds\": ");
	at = pfw_append_i64(at, chrome->base_ns);
	at = pfw_emit(at, ",\n\"distributedInfo\": {");
	if (!merge) {
		/* HolisticTraceAnalysis refuses a file without a rank. */
		at = pfw_append_i64(pfw_emit(at, "\"rank\": "), head->rank < 0 ? 0 : head->rank);
		at = pfw_emit(at, ", ");
	}
	at = pfw_append_u64(pfw_emit(at, "\"world_size\": "),
			    head->world_size ? head->world_size : 1);
	at = pfw_emit(at, "},\n\"host_name\": ");
	at = pfw_json_string(at, head->host, strlen(head->host), NULL);
	at = pfw_emit(at, ",\n\"trace_id\": ");
	at = pfw_json_string(at, head->run, strlen(head->run), NULL);
	at = pfw_append_u64(pfw_emit(at, ",\n\"main_pid\": "), chrome->rows.groups[0].pid);
	at = pfw_emit(at, ",\n\"traceEvents\": [\n");
	return export_sink_used(chrome->job->sink, at);
}

/* Take the outer object's members that the line `imported` keeps. */
static int take_extra(struct chrome *chrome, const struct pfw_entry *entry)
{
	if (chrome->extra_text || entry->args.bytes <= 2)
		return 0;
	chrome->extra_text =
		pfw_arena_copy(&chrome->extra, entry->args.at + 1, entry->args.bytes - 2);
	return chrome->extra_text ? 0 : -ENOMEM;
}

static int end(void *state)
{
	struct chrome *chrome = state;
	struct export_sink *sink = chrome->job->sink;
	int error = chrome->begun ? 0 : write_head(chrome);

	error = error ?: chrome_rows_write(&chrome->rows, chrome->base_ns, &chrome->first);
	error = error ?: export_sink_text(sink, "\n],\n");
	if (!error)
		error = export_sink_text(sink, chrome->extra_text ? chrome->extra_text
								  : "\"deviceProperties\":[]");
	return error ?: export_sink_text(sink, "\n}\n");
}

/* ---- args ---- */

/* Kineto's value is a whole percentage. */
static char *occupancy(char *at, const struct pfw_value *value)
{
	double share = export_double(value) * 100;

	at = export_key(at, PFW_KINETO_OCCUPANCY);
	return pfw_append_i64(at, share >= 0 && share < 1e15 ? (int64_t)(share + 0.5) : 0);
}

/* All frames in one text, as Kineto has them. */
static char *stack(char *at, const struct pfw_value *value)
{
	struct pfw_walk frames;
	struct pfw_value frame;
	bool first = true;

	at = export_key(at, PFW_KINETO_STACK);
	if (value->type != PFW_VALUE_ARRAY)
		return export_value(at, value);
	*at++ = '"';
	pfw_walk_init(&frames, &value->text);
	while (pfw_elements_next(&frames, &frame)) {
		if (!first)
			*at++ = ';';
		first = false;
		if (frame.type == PFW_VALUE_STRING)
			at = pfw_emit_slice(at, frame.text);
	}
	*at++ = '"';
	return at;
}

/* Write one arg, or nothing: then return `at`. */
static char *compute_arg(char *at, const struct chrome_work *work, const struct export_arg *arg)
{
	enum pfw_kineto_key which = pfw_kineto_key(&arg->key);
	const char *theirs = pfw_kineto_key_theirs(which);
	bool memory = work->kind == PFW_KINETO_memory;

	switch (which) {
	case PFW_KINETO_KEY_kind:
	case PFW_KINETO_KEY_host_pid:
		return at;
	case PFW_KINETO_KEY_device:
		return memory ? export_value(export_key(at, PFW_KINETO_DEVICE_TYPE), &arg->value)
			      : at;
	case PFW_KINETO_KEY_device_index:
		if (pfw_kineto_on_device(work->kind))
			return export_value(export_key(at, "device"), &arg->value);
		return memory ? export_value(export_key(at, PFW_KINETO_DEVICE_ID), &arg->value)
			      : at;
	case PFW_KINETO_KEY_static_smem:
		at = export_key(at, PFW_KINETO_SHARED_MEMORY);
		return pfw_append_u64(at, work->static_smem + work->dynamic_smem);
	case PFW_KINETO_KEY_dynamic_smem:
		/* A part of the sum before it. */
		return work->dynamic_smem || !work->smem ? export_arg_as_is(at, arg) : at;
	case PFW_KINETO_KEY_occupancy:
		return occupancy(at, &arg->value);
	case PFW_KINETO_KEY_bytes:
		return memory ? export_value(export_key(at, PFW_KINETO_BYTES), &arg->value)
			      : export_arg_as_is(at, arg);
	case PFW_KINETO_KEY_stack:
		return stack(at, &arg->value);
	default:
		if (work->kind == PFW_KINETO_python_function &&
		    pfw_member_is(&arg->key, "python_id"))
			theirs = PFW_KINETO_PYTHON_ID;
		if (work->kind == PFW_KINETO_python_function && pfw_member_is(&arg->key, "parent"))
			theirs = PFW_KINETO_PYTHON_PARENT;
		return theirs ? export_value(export_key(at, theirs), &arg->value)
			      : export_arg_as_is(at, arg);
	}
}

/* ---- an event ---- */

static char *where(char *at, const struct chrome *chrome, const struct chrome_end *end)
{
	at = pfw_append_u64(pfw_emit(at, ",\"pid\":"), end->pid);
	at = pfw_append_u64(pfw_emit(at, ",\"tid\":"), end->tid);
	return pfw_emit_us(pfw_emit(at, ",\"ts\":"), end->ts_ns - chrome->base_ns);
}

static char *emit_event(char *at, struct chrome *chrome, const struct pfw_entry *entry,
			const struct chrome_work *work, const struct chrome_place *place)
{
	const char *category = pfw_kineto_category(work->kind);
	bool instant = chrome_is_instant(entry, work);
	struct chrome_end end = { place->pid, place->tid, entry->ts_ns };

	at = pfw_emit(at, chrome->first ? "{\"ph\":\"" : ",\n{\"ph\":\"");
	chrome->first = false;
	*at++ = instant ? 'i' : entry->ph == 'A' ? 'C' : entry->ph;
	at = pfw_emit(at, "\",\"cat\":\"");
	at = work->kind ? pfw_emit(at, category) : pfw_emit_slice(at, entry->cat);
	at = pfw_emit(at, "\",\"name\":\"");
	at = pfw_emit_slice(at, entry->name);
	*at++ = '"';
	at = where(at, chrome, &end);
	if (instant)
		return pfw_emit(at, ",\"s\":\"t\"");
	if (entry->ph == 'X')
		return pfw_emit_us(pfw_emit(at, ",\"dur\":"), entry->dur_ns);
	return at;
}

static char *emit_args(char *at, const struct chrome *chrome, const struct pfw_entry *entry,
		       const struct chrome_work *work, bool other)
{
	const struct export_args *args = &chrome->args;
	char *begin;

	at = pfw_emit(at, ",\"args\":{");
	begin = at;
	for (size_t i = 0; i < args->count; i++) {
		char *before = at;

		if (at != begin)
			*at++ = ',';
		before = at;
		at = work->kind ? compute_arg(at, work, &args->arg[i])
				: export_arg_as_is(at, &args->arg[i]);
		if (at == before && at != begin)
			at--;
	}
	if (work->kind == PFW_KINETO_sync && !export_args_find(args, PFW_KINETO_SYNC_KIND)) {
		at = export_key(at == begin ? at : pfw_emit(at, ","), PFW_KINETO_SYNC_KIND);
		*at++ = '"';
		at = pfw_emit_slice(at, entry->name);
		*at++ = '"';
	}
	if (other) {
		at = export_key(at == begin ? at : pfw_emit(at, ","), PFW_KINETO_HOST_PID);
		at = pfw_append_u64(at, entry->pid);
	}
	return pfw_emit(at, "}}");
}

/* ---- arrows ---- */

static char *emit_flow(char *at, const struct chrome *chrome, const char *category, bool begins,
		       uint64_t id, uint32_t process, const struct chrome_end *end)
{
	uint64_t space = chrome->rows.process[process].number;

	at = pfw_emit(at, begins ? ",\n{\"ph\":\"s\",\"id\":" : ",\n{\"ph\":\"f\",\"id\":");
	/* Ids that could collide with another process's are written as texts. */
	if (id >> FLOW_SPACE) {
		*at++ = '"';
		at = pfw_append_u64(at, space);
		*at++ = ':';
		at = pfw_append_u64(at, id);
		*at++ = '"';
	} else {
		at = pfw_append_u64(at, space << FLOW_SPACE | id);
	}
	at = where(at, chrome, end);
	at = export_key(pfw_emit(at, ","), "cat");
	*at++ = '"';
	at = pfw_emit(at, category);
	at = pfw_emit(at, "\",\"name\":\"");
	at = pfw_emit(at, category);
	return pfw_emit(at, begins ? "\"}" : "\",\"bp\":\"e\"}");
}

/* The arrow from the call that launches work to the work: its begin once, with the first end. */
static char *emit_launch(char *at, struct chrome *chrome, size_t file,
			 const struct pfw_entry *entry, const struct chrome_work *work,
			 const struct chrome_place *place)
{
	struct chrome_end end = { place->pid, place->tid, entry->ts_ns };
	enum chrome_launch which = chrome_launch(entry, work);
	struct chrome_begin *call;
	int64_t process;

	if (which == CHROME_LAUNCHES)
		return chrome_flows_begin(&chrome->launches, place->process, work->correlation,
					  &end)
			       ? NULL
			       : at;
	if (!which)
		return at;
	process = chrome_process(&chrome->rows, file, entry, -1);
	if (process < 0)
		return NULL;
	call = chrome_flows_find(&chrome->launches, (uint32_t)process, work->correlation);
	if (!call)
		return at;
	if (!call->taken)
		at = emit_flow(at, chrome, "ac2g", true, work->correlation, (uint32_t)process,
			       &call->at);
	call->taken = true;
	return emit_flow(at, chrome, "ac2g", false, work->correlation, (uint32_t)process, &end);
}

/* The arrow from a forward operator to its backward operator. */
static char *emit_backward(char *at, struct chrome *chrome, const struct pfw_entry *entry,
			   const struct chrome_work *work, const struct chrome_place *place)
{
	struct chrome_end end = { place->pid, place->tid, entry->ts_ns };
	enum chrome_pass pass = chrome_pass(entry, work);
	struct chrome_begin *forward;
	uint64_t id;

	if (pass == CHROME_FORWARD)
		return chrome_flows_begin(&chrome->passes, place->process, work->sequence, &end)
			       ? NULL
			       : at;
	forward = pass ? chrome_flows_find(&chrome->passes, place->process, work->sequence) : NULL;
	if (!forward || forward->taken)
		return at;
	forward->taken = true;
	id = ++chrome->passes.next;
	at = emit_flow(at, chrome, "fwdbwd", true, id, place->process, &forward->at);
	return emit_flow(at, chrome, "fwdbwd", false, id, place->process, &end);
}

/* ---- lines ---- */

/* Kineto's time base, so that the traces of a run share it; times before 1970 get none. */
static int begin_at(struct chrome *chrome, int64_t ts_ns)
{
	chrome->begun = true;
	if (!chrome->job->options->absolute && ts_ns > 0)
		chrome->base_ns = ts_ns - ts_ns % PFW_KINETO_BASE_NS;
	return write_head(chrome);
}

static int line(void *state, size_t file, const struct pfw_entry *entry)
{
	struct chrome *chrome = state;
	struct chrome_work work = CHROME_NO_WORK;
	struct chrome_place place = { 0 };
	bool other, done = false;
	char *at;
	int error = 0;

	if (!chrome->begun && (entry->has & PFW_ENTRY_TS)) {
		chrome_rows_first(&chrome->rows, file, entry);
		error = begin_at(chrome, entry->ts_ns);
	}
	error = error ?: chrome_rows_meta(&chrome->rows, file, entry, &done);
	if (!error && done && pfw_slice_is(&entry->name, "imported"))
		error = take_extra(chrome, entry);
	if (error || done || !(entry->has & PFW_ENTRY_TS))
		return error;
	error = export_args_read(&chrome->args, entry);
	error = error ?: export_args_fname(&chrome->args, chrome->job, entry);
	if (!error && pfw_slice_is(&entry->cat, "PP"))
		chrome_work_read(&work, &chrome->args);
	error = error ?: chrome_place_find(&place, &chrome->rows, file, entry, &work);
	if (error)
		return error;
	at = export_sink_room(chrome->job->sink, 4096 + 2 * (entry->name.bytes + entry->cat.bytes) +
							 8 * entry->args.bytes);
	if (!at)
		return -ENOMEM;
	other = chrome->rows.process[place.process].device >= 0 &&
		chrome_is_other(&chrome->rows, file, entry->pid);
	at = emit_event(at, chrome, entry, &work, &place);
	at = emit_args(at, chrome, entry, &work, other);
	at = emit_launch(at, chrome, file, entry, &work, &place);
	if (at)
		at = emit_backward(at, chrome, entry, &work, &place);
	return at ? export_sink_used(chrome->job->sink, at) : -ENOMEM;
}

static void release(void *state)
{
	struct chrome *chrome = state;

	chrome_rows_free(&chrome->rows);
	chrome_flows_free(&chrome->launches);
	chrome_flows_free(&chrome->passes);
	export_args_free(&chrome->args);
	pfw_arena_release(&chrome->extra);
}

static int begin(void *state)
{
	struct chrome *chrome = state;

	chrome->first = true;
	return chrome_rows_init(&chrome->rows, chrome->job);
}

const struct export_format export_chrome = {
	.name = "chrome",
	.meta = true,
	.one_rank = true,
	.state_bytes = sizeof(struct chrome),
	.begin = begin,
	.line = line,
	.end = end,
	.release = release,
};

/* One such file per rank, with the names that TensorBoard's plugin looks for. */
const struct export_format export_tensorboard = {
	.name = "tensorboard",
	.meta = true,
	.directory = true,
	.state_bytes = sizeof(struct chrome),
	.begin = begin,
	.line = line,
	.end = end,
	.release = release,
};
