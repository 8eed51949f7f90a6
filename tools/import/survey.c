/* tools/import/survey.c - collects a chrome trace's time base, rank and names; see import.h. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/order.h"
#include "import/import.h"
#include "store/json/walk.h"
#include "store/kit/grow.h"

#define EXTRA_MAX (8u << 20) /* bytes kept only to be exported again */
#define NAMES_MAX (1u << 20)

/* ---- members of the outer object ---- */

/* Keep a member for the export: `"key":value`. */
static int keep(struct import_trace *trace, const char *key, size_t key_bytes,
		const struct pfw_slice *value)
{
	struct pfw_buffer *extra = &trace->extra;
	int error;

	if (extra->bytes + key_bytes + value->bytes > EXTRA_MAX)
		return 0;
	error = extra->bytes ? pfw_buffer_add(extra, ",\"", 2) : pfw_buffer_add(extra, "\"", 1);
	error = error ?: pfw_buffer_add(extra, key, key_bytes) ?: pfw_buffer_add(extra, "\":", 2);
	return error ?: pfw_buffer_add(extra, value->at, value->bytes);
}

static int take_distributed(struct import_trace *trace, const struct pfw_slice *object)
{
	struct pfw_walk members;
	struct pfw_slice key;
	struct pfw_value value;
	bool more = false;

	pfw_walk_init(&members, object);
	while (pfw_walk_next(&members, &key, &value)) {
		if (pfw_member_is(&key, "rank"))
			pfw_value_i64(&value, &trace->rank);
		else if (pfw_member_is(&key, "world_size"))
			pfw_value_u64(&value, &trace->world_size);
		else
			more = true;
	}
	return more ? keep(trace, "distributed", 11, object) : 0;
}

/* Keep a string without its quotes. */
static int take_text(struct import_trace *trace, const struct pfw_slice *value, const char **text)
{
	if (value->bytes < 2 || value->at[0] != '"')
		return 0;
	*text = pfw_arena_copy(&trace->texts, value->at + 1, value->bytes - 2);
	return *text ? 0 : -ENOMEM;
}

int import_survey_member(struct import_trace *trace, const struct import_value *member)
{
	const struct pfw_slice *key = &member->key;
	struct pfw_value value = { .type = PFW_VALUE_NUMBER, .text = member->text };
	uint64_t number = 0;

	if (pfw_member_is(key, "schemaVersion") || pfw_member_is(key, "displayTimeUnit") ||
	    pfw_member_is(key, "traceName") || pfw_member_is(key, "traceEvents"))
		return 0;
	if (pfw_member_is(key, "baseTimeNanoseconds")) {
		pfw_value_i64(&value, &trace->base_ns);
		return 0;
	}
	if (pfw_member_is(key, "main_pid")) {
		trace->has_main_pid = pfw_value_u64(&value, &trace->main_pid);
		return 0;
	}
	if (pfw_member_is(key, "host_name"))
		return take_text(trace, &member->text, &trace->host);
	if (pfw_member_is(key, "trace_id"))
		return take_text(trace, &member->text, &trace->run);
	if (pfw_member_is(key, "distributedInfo") && *member->text.at == '{')
		return take_distributed(trace, &member->text);
	if (pfw_member_is(key, "profile_memory"))
		trace->has_memory = pfw_value_u64(&value, &number) && number;
	return keep(trace, key->at, key->bytes, &member->text);
}

/* ---- names ---- */

static int add_name(struct import_trace *trace, const struct pfw_entry *entry, const char *key,
		    bool thread, bool device)
{
	struct pfw_value value;
	const char *name;

	if (!pfw_entry_arg(entry, key, &value) || value.type != PFW_VALUE_STRING ||
	    trace->names == NAMES_MAX)
		return 0;
	name = pfw_arena_copy(&trace->texts, value.text.at, value.text.bytes);
	if (!name || PFW_ROOM(trace->name, trace->names, trace->names_room))
		return -ENOMEM;
	trace->name[trace->names++] = (struct import_name){
		.pid = entry->pid,
		.tid = entry->tid,
		.ts_ns = entry->ts_ns,
		.name = name,
		.thread = thread,
		.device = device,
	};
	return 0;
}

/* Whether the labels say that a row is a device: "GPU 0", "rank 3, GPU 0". */
static bool is_device(const struct pfw_entry *entry)
{
	struct pfw_value labels;

	return pfw_entry_arg(entry, "labels", &labels) && labels.type == PFW_VALUE_STRING &&
	       ((labels.text.bytes > 4 && memcmp(labels.text.at, "GPU ", 4) == 0) ||
		memmem(labels.text.at, labels.text.bytes, ", GPU ", 6));
}

int import_survey_event(struct import_trace *trace, const struct pfw_entry *entry)
{
	struct pfw_value bytes, type;
	int64_t number = 0, device = 0, ts_ns;

	if (entry->wrong & PFW_ENTRY_PID)
		return 0;
	if (entry->ph == 'M' && !pfw_member_is(&entry->cat, "pfw")) {
		if (pfw_slice_is(&entry->name, "process_name"))
			return add_name(trace, entry, "name", false, false);
		if (pfw_slice_is(&entry->name, "thread_name") && !(entry->wrong & PFW_ENTRY_TID))
			return add_name(trace, entry, "name", true, false);
		if (pfw_slice_is(&entry->name, "process_labels") && is_device(entry))
			return add_name(trace, entry, "labels", false, true);
		return 0;
	}
	ts_ns = entry->ts_ns;
	PFW_LOWER(trace->least_ns, ts_ns);
	if (!pfw_member_is(&entry->cat, "cpu_instant_event") ||
	    !pfw_slice_is(&entry->name, "[memory]"))
		return 0;
	if (pfw_entry_arg(entry, PFW_KINETO_BYTES, &bytes))
		pfw_value_i64(&bytes, &number);
	if (pfw_entry_arg(entry, PFW_KINETO_DEVICE_TYPE, &type))
		pfw_value_i64(&type, &device);
	return import_memory_add(&trace->memory, ts_ns, number, device != 0);
}

/* ---- the end ---- */

static int by_pid(const void *a, const void *b)
{
	const struct import_name *x = a, *y = b;

	return PFW_ORDER(x->pid, y->pid) ?: PFW_ORDER(y->device, x->device) ?:
	       PFW_ORDER(x->thread, y->thread) ?: PFW_ORDER(x->tid, y->tid) ?:
	       PFW_ORDER(x->ts_ns, y->ts_ns);
}

/* The lane number of "reader (lane 2)", an exported name: 2.  Otherwise 0. */
static uint64_t lane_of(const struct import_name *name)
{
	const char *text = name->thread ? strstr(name->name, " (lane ") : NULL;
	char *end;
	uint64_t lane;

	while (text && strstr(text + 1, " (lane "))
		text = strstr(text + 1, " (lane ");
	if (!text || text[7] < '1' || text[7] > '9')
		return 0;
	lane = strtoull(text + 7, &end, 10);
	return strcmp(end, ")") == 0 && lane > 1 && (lane - 1) < name->tid / EXPORT_LANE + 1 ? lane
											     : 0;
}

/* Map each further lane back to its thread. */
static int take_lanes(struct import_trace *trace)
{
	size_t kept = 0;

	trace->lane = malloc((trace->names + 1) * sizeof(*trace->lane));
	if (!trace->lane)
		return -ENOMEM;
	for (size_t i = 0; i < trace->names; i++) {
		if (lane_of(&trace->name[i]))
			trace->lane[trace->lanes++] = trace->name[i];
		else
			trace->name[kept++] = trace->name[i];
	}
	trace->names = kept;
	return 0;
}

uint64_t import_tid(const struct import_trace *trace, uint64_t pid, uint64_t tid)
{
	size_t lanes = tid < EXPORT_LANE ? 0 : trace->lanes;
	const struct import_name *lane = trace->lane;
	size_t found = PFW_BISECT(
		at, lanes, lane[at].pid < pid || (lane[at].pid == pid && lane[at].tid < tid));

	if (found == lanes || lane[found].pid != pid || lane[found].tid != tid)
		return tid;
	return tid - (lane_of(&lane[found]) - 1) * EXPORT_LANE;
}

/* Keep only names of processes and threads, each once. */
static void drop_names(struct import_trace *trace)
{
	size_t kept = 0;
	bool device = false;

	for (size_t i = 0; i < trace->names; i++) {
		struct import_name name = trace->name[i];
		bool again = i && trace->name[i - 1].pid == name.pid;

		device = again ? device : name.device;
		if (device)
			continue;
		again = kept && trace->name[kept - 1].pid == name.pid &&
			trace->name[kept - 1].thread == name.thread &&
			trace->name[kept - 1].tid == name.tid;
		kept -= again;
		trace->name[kept++] = name;
	}
	trace->names = kept;
}

int import_survey_end(struct import_trace *trace)
{
	/* Sort names of foreign traces, which have their own order. */
	if (trace->names)
		qsort(trace->name, trace->names, sizeof(*trace->name), by_pid);
	drop_names(trace);
	if (take_lanes(trace))
		return -ENOMEM;
	for (size_t i = 0; i < trace->names && !trace->has_main_pid; i++) {
		if (!trace->name[i].thread) {
			trace->main_pid = trace->name[i].pid;
			break;
		}
	}
	/* An export of ours has torch's sums in its args. */
	trace->has_memory &= !trace->has_main_pid && trace->memory.count;
	return trace->has_memory ? import_memory_sort(&trace->memory) : 0;
}

void import_trace_free(struct import_trace *trace)
{
	pfw_arena_release(&trace->texts);
	pfw_buffer_free(&trace->extra);
	free(trace->name);
	free(trace->lane);
	import_memory_free(&trace->memory);
}
