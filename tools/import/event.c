/* tools/import/event.c - converts an event of a chrome trace to a line of ours; see import.h. */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/order.h"
#include "import/import.h"
#include "pfw/pfw.h"
#include "store/json/walk.h"
#include "store/line/step_name.h"

/* ---- the memory of operators ----
 *
 * As torch.profiler does: an operator has all allocations from its start to its end, of any thread.
 * An allocation outside all operators is a row of its own in torch's tables. */

#define MEMORY (64u << 20) /* then a temporary file is used */

int import_memory_add(struct import_memory *memory, int64_t ts_ns, int64_t bytes, bool on_device)
{
	struct import_allocation one = { .ts_ns = ts_ns, .bytes = bytes, .on_device = on_device };
	int error;

	if (!memory->budget.bytes) {
		memory->record = (struct pfw_spill)PFW_SPILL_EMPTY;
		memory->budget.bytes = MEMORY;
	}
	error = pfw_spill_add(&memory->record, &one, sizeof(one), &memory->budget);
	memory->count += !error;
	return error;
}

static int by_time(const void *a, const void *b)
{
	int64_t x = ((const struct import_allocation *)a)->ts_ns;
	int64_t y = ((const struct import_allocation *)b)->ts_ns;

	return PFW_ORDER(x, y);
}

/* A sentinel at the end holds the sums over all records. */
int import_memory_sort(struct import_memory *memory)
{
	int64_t cpu = 0, device = 0;
	int error = import_memory_add(memory, INT64_MAX, 0, false);
	struct import_allocation *record = memory->record.at;

	if (error)
		return error;
	qsort(record, memory->count, sizeof(*record), by_time);
	for (size_t i = 0; i < memory->count; i++) {
		record[i].cpu_before = cpu;
		record[i].device_before = device;
		/* Invalid input may overflow; unsigned arithmetic makes that harmless. */
		if (record[i].on_device)
			device = (int64_t)((uint64_t)device + (uint64_t)record[i].bytes);
		else
			cpu = (int64_t)((uint64_t)cpu + (uint64_t)record[i].bytes);
	}
	memory->count--;
	return 0;
}

/* The first record at ts_ns or later. */
static size_t first_at(const struct import_memory *memory, int64_t ts_ns)
{
	const struct import_allocation *record = memory->record.at;

	return PFW_BISECT(at, memory->count, record[at].ts_ns < ts_ns);
}

/* Sums of the allocations from start to end, both included; marks them as used. */
static void sum_memory(struct import_memory *memory, int64_t start_ns, int64_t end_ns, int64_t *cpu,
		       int64_t *device)
{
	struct import_allocation *record = memory->record.at;
	size_t first = first_at(memory, start_ns);
	size_t end = end_ns == INT64_MAX ? memory->count : first_at(memory, end_ns + 1);

	*cpu = *device = 0;
	if (!memory->count || end <= first)
		return;
	*cpu = (int64_t)((uint64_t)record[end].cpu_before - (uint64_t)record[first].cpu_before);
	*device = (int64_t)((uint64_t)record[end].device_before -
			    (uint64_t)record[first].device_before);
	record[first].covered++;
	record[end].covered--;
}

void import_memory_settle(struct import_memory *memory)
{
	struct import_allocation *record = memory->record.at;
	int64_t covered = 0;

	for (size_t i = 0; i < memory->count; i++)
		record[i].covered = covered += record[i].covered;
}

bool import_memory_used(const struct import_memory *memory, int64_t ts_ns)
{
	const struct import_allocation *record = memory->record.at;
	size_t at = first_at(memory, ts_ns);

	return at < memory->count && record[at].ts_ns == ts_ns && record[at].covered > 0;
}

void import_memory_free(struct import_memory *memory)
{
	if (memory->budget.bytes)
		pfw_spill_free(&memory->record, &memory->budget);
}

/* Lanes of device streams, numbered as the recorder does. */
#define DEVICE_TIDS 10000000u
#define CONTEXT_TIDS 1000u

/* The args of a Kineto event that need a conversion. */
struct work {
	enum pfw_kineto_kind kind;
	bool has_device, has_stream, has_step, has_memory;
	uint64_t device, context, stream, dynamic_smem, host_pid;
};

enum import_kind import_event_kind(const struct import_trace *trace, const struct pfw_entry *entry)
{
	bool flow = pfw_member_is(&entry->cat, "ac2g") || pfw_member_is(&entry->cat, "fwdbwd");

	if (entry->ph == 'M')
		return pfw_member_is(&entry->cat, "pfw") ? IMPORT_SPAN : IMPORT_DROPPED;
	if (entry->ph == '?')
		return flow ? IMPORT_DROPPED : IMPORT_UNKNOWN;
	/* Kineto's frame events of the whole trace have words as pids. */
	if ((entry->wrong & PFW_ENTRY_PID) && !trace->has_main_pid &&
	    (pfw_member_is(&entry->cat, "Trace") || (entry->ph == 'i' && !entry->cat.bytes)))
		return IMPORT_DROPPED;
	return entry->ph == 'A' ? IMPORT_UNKNOWN : IMPORT_SPAN;
}

/* ---- args ---- */

static void read_work(const struct export_args *args, struct work *work)
{
	for (size_t i = 0; i < args->count; i++) {
		const struct pfw_slice *key = &args->arg[i].key;
		const struct pfw_value *value = &args->arg[i].value;

		if (pfw_member_is(key, "device"))
			work->has_device = pfw_value_u64(value, &work->device);
		else if (pfw_member_is(key, "stream"))
			work->has_stream = pfw_value_u64(value, &work->stream);
		else if (pfw_member_is(key, "context"))
			pfw_value_u64(value, &work->context);
		else if (pfw_member_is(key, "dynamic_smem"))
			pfw_value_u64(value, &work->dynamic_smem);
		else if (pfw_member_is(key, PFW_KINETO_HOST_PID))
			pfw_value_u64(value, &work->host_pid);
		else if (pfw_member_is(key, "step"))
			work->has_step = true;
		else if (pfw_member_is(key, "cpu_memory") ||
			 pfw_member_is(key, "device_memory_usage"))
			work->has_memory = true;
	}
}

/* Convert a percentage to a fraction. */
static char *occupancy(char *at, const struct pfw_value *value)
{
	char out[40];

	snprintf(out, sizeof(out), "%.15g", export_double(value) / 100);
	at = export_key(at, "occupancy");
	return pfw_emit(at, strpbrk(out, "in") ? "0" : out);
}

/* Split a stack into frames where Kineto joins them. */
static char *stack(char *at, const struct pfw_value *value)
{
	const char *from = value->text.at, *end = from + value->text.bytes, *cut;

	at = export_key(at, "stack");
	if (value->type != PFW_VALUE_STRING)
		return export_value(at, value);
	*at++ = '[';
	while (from < end) {
		cut = memchr(from, ';', (size_t)(end - from));
		cut = cut ? cut : end;
		*at++ = '"';
		at = pfw_emit_bytes(at, from, (size_t)(cut - from));
		at = pfw_emit(at, cut < end ? "\"," : "\"");
		from = cut + (cut < end);
		if (cut < end && from == end)
			at = pfw_emit(at, "\"\"");
	}
	*at++ = ']';
	return at;
}

static char *shared_memory(char *at, const struct work *work, const struct pfw_value *value)
{
	uint64_t all;

	at = export_key(at, "static_smem");
	if (!pfw_value_u64(value, &all))
		return export_value(at, value);
	return pfw_append_u64(at, all >= work->dynamic_smem ? all - work->dynamic_smem : all);
}

static char *compute_arg(char *at, const struct work *work, const struct pfw_entry *entry,
			 const struct export_arg *arg)
{
	const struct pfw_slice *theirs = &arg->key;
	const char *ours = pfw_kineto_key_ours(theirs);
	bool memory = work->kind == PFW_KINETO_memory;

	if (work->kind == PFW_KINETO_python_function && pfw_member_is(theirs, PFW_KINETO_PYTHON_ID))
		ours = "python_id";
	if (work->kind == PFW_KINETO_python_function &&
	    pfw_member_is(theirs, PFW_KINETO_PYTHON_PARENT))
		ours = "parent";
	if (ours)
		return export_value(export_key(at, ours), &arg->value);
	if (pfw_member_is(theirs, "device") && pfw_kineto_on_device(work->kind))
		return export_value(pfw_emit(at, "\"device\":1,\"device_index\":"), &arg->value);
	if (pfw_member_is(theirs, PFW_KINETO_SHARED_MEMORY))
		return shared_memory(at, work, &arg->value);
	if (pfw_member_is(theirs, PFW_KINETO_OCCUPANCY))
		return occupancy(at, &arg->value);
	if (pfw_member_is(theirs, PFW_KINETO_STACK))
		return stack(at, &arg->value);
	if (memory && pfw_member_is(theirs, PFW_KINETO_BYTES))
		return export_value(export_key(at, "bytes"), &arg->value);
	if (memory && pfw_member_is(theirs, PFW_KINETO_DEVICE_TYPE))
		return export_value(export_key(at, "device"), &arg->value);
	if (memory && pfw_member_is(theirs, PFW_KINETO_DEVICE_ID))
		return export_value(export_key(at, "device_index"), &arg->value);
	if (pfw_member_is(theirs, PFW_KINETO_HOST_PID) && pfw_kineto_on_device(work->kind))
		return at;
	if (pfw_member_is(theirs, PFW_KINETO_SYNC_KIND) && arg->value.type == PFW_VALUE_STRING &&
	    arg->value.text.bytes == entry->name.bytes &&
	    memcmp(arg->value.text.at, entry->name.at, entry->name.bytes) == 0)
		return at;
	return export_arg_as_is(at, arg);
}

/* The number of a step is usually in its name. */
static char *step(char *at, const struct pfw_entry *entry)
{
	const char *digits = memchr(entry->name.at, '#', entry->name.bytes);
	size_t bytes = digits ? (size_t)(entry->name.at + entry->name.bytes - ++digits) : 0;

	if (!bytes || bytes > 15 || strspn(digits, "0123456789") < bytes ||
	    (*digits == '0' && bytes > 1))
		return at;
	return pfw_emit_bytes(pfw_emit(at, ",\"step\":"), digits, bytes);
}

/* The sums that torch.profiler computes for its tables. */
static char *memory_sums(char *at, struct import_events *events, const struct pfw_entry *entry,
			 const struct work *work)
{
	bool comma = at[-1] != '{';
	int64_t cpu, device_bytes, end_ns;

	if (!events->trace->has_memory || work->has_memory || entry->ph != 'X' ||
	    pfw_kineto_on_device(work->kind) ||
	    __builtin_add_overflow(entry->ts_ns, entry->dur_ns, &end_ns))
		return at;
	sum_memory(&events->trace->memory, entry->ts_ns, end_ns, &cpu, &device_bytes);
	if (!cpu && !device_bytes)
		return at;
	at = pfw_emit(at, comma ? ",\"cpu_memory\":" : "\"cpu_memory\":");
	at = pfw_append_i64(at, cpu);
	if (device_bytes)
		at = pfw_append_i64(pfw_emit(at, ",\"device_memory_usage\":"), device_bytes);
	return at;
}

static char *compute_args(char *at, struct import_events *events, const struct pfw_entry *entry,
			  const struct work *work)
{
	const struct export_args *args = &events->args;

	at = export_key(at, "kind");
	*at++ = '"';
	at = pfw_emit(at, pfw_kineto_kind_name(work->kind));
	*at++ = '"';
	for (size_t i = 0; i < args->count; i++) {
		char *before = ++at;

		before[-1] = ',';
		at = compute_arg(at, work, entry, &args->arg[i]);
		at -= at == before;
	}
	/* An event without a device in its args has its row's. */
	if (pfw_kineto_on_device(work->kind) && !work->has_device)
		at = pfw_append_u64(pfw_emit(at, ",\"device\":1,\"device_index\":"), entry->pid);
	if (work->kind == PFW_KINETO_step && !work->has_step)
		at = step(at, entry);
	return at;
}

/* ---- lines ---- */

static char *head(char *at, struct import_events *events, struct pfw_slice name,
		  struct pfw_slice cat, uint64_t pid, uint64_t tid, int64_t ts_ns)
{
	at = pfw_append_u64(pfw_emit(at, "{\"id\":"), ++events->id);
	at = pfw_emit(at, ",\"name\":\"");
	at = pfw_emit_slice(at, name);
	at = pfw_emit(at, "\",\"cat\":\"");
	at = pfw_emit_slice(at, cat);
	at = pfw_append_u64(pfw_emit(at, "\",\"pid\":"), pid);
	at = pfw_append_u64(pfw_emit(at, ",\"tid\":"), tid);
	return pfw_emit_us(pfw_emit(at, ",\"ts\":"), ts_ns);
}

static struct pfw_slice slice(const char *text)
{
	return (struct pfw_slice){ .at = text, .bytes = strlen(text) };
}

/* The beginning of a metadata line, up to its args. */
static char *meta(char *at, struct import_events *events, const char *name, uint64_t pid,
		  uint64_t tid, int64_t ts_ns)
{
	at = head(at, events, slice(name), slice("pfw"), pid, tid, ts_ns);
	return pfw_emit(at, ",\"ph\":\"M\",\"args\":{");
}

static enum pfw_kineto_kind kind_of(const struct pfw_entry *entry)
{
	enum pfw_kineto_kind kind = pfw_kineto_kind_of_category(&entry->cat);
	uint64_t step;

	if (kind == PFW_KINETO_annotation &&
	    pfw_is_step_name(entry->name.at, entry->name.bytes, &step))
		return PFW_KINETO_step;
	return kind;
}

/* Write the name of a stream's lane once. */
static char *name_lane(char *at, struct import_events *events, const struct work *work,
		       uint64_t pid, uint64_t tid, int64_t ts_ns)
{
	uint32_t before = events->lanes.count;
	char name[80];

	if (pfw_pair_ids_of(&events->lanes, pid, tid) < before || events->lanes.count == before)
		return at;
	snprintf(name, sizeof(name), "\"name\":\"GPU %" PRIu64 " stream %" PRIu64 "\"}}\n",
		 work->device, work->stream);
	at = meta(at, events, "thread_name", pid, tid, ts_ns);
	return pfw_emit(at, name);
}

size_t import_event_room(const struct pfw_entry *entry)
{
	return 4096 + entry->name.bytes + entry->cat.bytes + 4 * entry->args.bytes;
}

char *import_event_line(char *at, struct import_events *events, const struct pfw_entry *entry)
{
	const struct import_trace *trace = events->trace;
	struct work work = { .kind = kind_of(entry) };
	bool on_device = pfw_kineto_on_device(work.kind);
	/* A text or a negative number is the main pid. */
	uint64_t pid = entry->wrong & PFW_ENTRY_PID ? trace->main_pid : entry->pid;
	uint64_t tid = entry->wrong & PFW_ENTRY_TID ? pid : import_tid(trace, pid, entry->tid);
	int64_t ts_ns = import_ts(trace, entry->ts_ns), end_ns;
	struct pfw_slice cat = entry->cat.bytes ? entry->cat : slice("user");

	if (export_args_read(&events->args, entry))
		return NULL;
	read_work(&events->args, &work);
	if (on_device)
		pid = work.host_pid ? work.host_pid : trace->main_pid;
	if (on_device && !work.has_device)
		work.device = entry->pid;
	if (on_device && work.has_stream && work.device < DEVICE_TIDS) {
		tid = (work.device + 1) * DEVICE_TIDS + work.context * CONTEXT_TIDS + work.stream;
		at = name_lane(at, events, &work, pid, tid, ts_ns);
	}
	at = head(at, events, entry->name, work.kind ? slice("PP") : cat, pid, tid, ts_ns);
	if (entry->ph == 'X')
		at = pfw_emit_us(pfw_emit(at, ",\"dur\":"), entry->dur_ns);
	at = pfw_emit(at, ",\"ph\":\"");
	*at++ = entry->ph;
	at = pfw_emit(at, "\",\"args\":{");
	if (work.kind)
		at = compute_args(at, events, entry, &work);
	for (size_t i = 0; i < events->args.count && !work.kind; i++) {
		if (i)
			*at++ = ',';
		at = export_arg_as_is(at, &events->args.arg[i]);
	}
	at = memory_sums(at, events, entry, &work);
	events->events += entry->ph != 'M';
	if (!__builtin_add_overflow(ts_ns, entry->dur_ns, &end_ns) && end_ns > events->greatest_ns)
		events->greatest_ns = end_ns;
	return pfw_emit(at, "}}\n");
}

/* ---- the first and the last lines ---- */

static int process_line(struct import_events *events, struct export_sink *sink, int64_t ts_ns,
			const char *cmd)
{
	const struct import_trace *trace = events->trace;
	const char *run = trace->run ? trace->run : "imported";
	const char *host = trace->host ? trace->host : "";
	char *at = export_sink_room(sink, 2048 + strlen(cmd) + strlen(run) + strlen(host));

	if (!at)
		return -ENOMEM;
	at = meta(at, events, "process", trace->main_pid, trace->main_pid, ts_ns);
	at = pfw_emit(at, "\"format\":1,\"version\":\"" PFW_VERSION "\",\"run\":\"");
	at = pfw_emit(at, run);
	at = pfw_emit(at, "\",\"host\":\"");
	at = pfw_emit(at, host);
	at = pfw_emit(at, "\",\"boot\":\"\",\"rank\":");
	at = trace->rank >= 0 ? pfw_append_i64(at, trace->rank) : pfw_emit(at, "null");
	at = pfw_append_u64(pfw_emit(at, ",\"world_size\":"),
			    trace->world_size ? trace->world_size : 1);
	at = pfw_emit(at,
		      ",\"local_rank\":null,\"rank_source\":\"imported\",\"ppid\":0,\"cmd\":\"");
	at = pfw_emit(at, cmd);
	at = pfw_emit_us(pfw_emit(at, "\",\"start_ts\":"), ts_ns);
	at = pfw_emit(at, ",\"clock\":\"imported\",\"spool\":null}}\n");
	return export_sink_used(sink, at);
}

/* The name of a thread, or of a process other than the main one. */
static int name_line(struct import_events *events, struct export_sink *sink,
		     const struct import_name *name)
{
	char *at = export_sink_room(sink, 1024 + strlen(name->name));

	if (!at)
		return -ENOMEM;
	at = meta(at, events, name->thread ? "thread_name" : "process_name", name->pid,
		  name->thread ? name->tid : name->pid, import_ts(events->trace, name->ts_ns));
	at = pfw_emit(at, "\"name\":\"");
	at = pfw_emit(at, name->name);
	return export_sink_used(sink, pfw_emit(at, "\"}}\n"));
}

/* The kept members of the outer object. */
static int imported_line(struct import_events *events, struct export_sink *sink, int64_t ts_ns)
{
	const struct pfw_buffer *extra = &events->trace->extra;
	char *at = export_sink_room(sink, 1024 + extra->bytes);

	if (!at)
		return -ENOMEM;
	at = meta(at, events, "imported", events->trace->main_pid, events->trace->main_pid, ts_ns);
	if (extra->bytes)
		at = pfw_emit_bytes(at, extra->data, extra->bytes);
	return export_sink_used(sink, pfw_emit(at, "}}\n"));
}

int import_head_lines(struct import_events *events, struct export_sink *sink)
{
	const struct import_trace *trace = events->trace;
	int64_t first_ns = import_ts(trace, trace->least_ns == INT64_MAX ? 0 : trace->least_ns);
	const char *cmd = "";
	int error;

	for (size_t i = 0; i < trace->names; i++) {
		if (!trace->name[i].thread && trace->name[i].pid == trace->main_pid) {
			first_ns = import_ts(trace, trace->name[i].ts_ns);
			cmd = trace->name[i].name;
		}
	}
	error = process_line(events, sink, first_ns, cmd) ?: imported_line(events, sink, first_ns);
	for (size_t i = 0; i < trace->names && !error; i++) {
		const struct import_name *name = &trace->name[i];

		if (name->thread || name->pid != trace->main_pid)
			error = name_line(events, sink, name);
	}
	events->greatest_ns = first_ns;
	return error;
}

int import_last_line(struct import_events *events, struct export_sink *sink)
{
	char *at = export_sink_room(sink, 1024);

	if (!at)
		return -ENOMEM;
	at = meta(at, events, "end", events->trace->main_pid, events->trace->main_pid,
		  events->greatest_ns);
	at = pfw_append_u64(pfw_emit(at, "\"events\":"), events->events);
	at = pfw_emit(at, ",\"lost\":0,\"reason\":\"exit\"}}\n");
	return export_sink_used(sink, at);
}
