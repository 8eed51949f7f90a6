/* tools/perfetto/perfetto.c - `pfw export --format perfetto`: track events in protobuf.
 *
 * A name, a key or a file is written once (interned) and is a number afterwards.  A span is a
 * packet for its begin and one for its end.  Categories are Kineto's, as in the chrome format; the
 * keys of args are ours.
 */
#include "perfetto/perfetto.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "perfetto/wire.h"
#include "store/json/walk.h"

/* ---- args ---- */

static char *put_value(char *at, struct perfetto *perfetto, const struct pfw_value *value);

static char *put_number(char *at, const struct pfw_value *value)
{
	uint64_t number;
	int64_t negative;

	if (pfw_value_u64(value, &number))
		return wire_u64(at, ANNOTATION_UINT, number);
	if (pfw_value_i64(value, &negative))
		return wire_u64(at, ANNOTATION_INT, (uint64_t)negative);
	return wire_double(at, ANNOTATION_DOUBLE, export_double(value));
}

static char *put_list(char *at, struct perfetto *perfetto, const struct pfw_value *value)
{
	bool array = value->type == PFW_VALUE_ARRAY;
	struct pfw_walk members;
	struct pfw_value member;
	struct pfw_slice key;
	char *part, *begin = at;

	pfw_walk_init(&members, &value->text);
	while (at && (array ? pfw_elements_next(&members, &member)
			    : pfw_walk_next(&members, &key, &member))) {
		at = part = wire_open(at, array ? ANNOTATION_ARRAY : ANNOTATION_DICT);
		if (!array) {
			char *name = wire_open(at, ANNOTATION_NAME);

			at = wire_close(name, name + pfw_slice_decode(&key, name, key.bytes + 1));
		}
		at = put_value(at, perfetto, &member);
		at = at ? wire_close(part, at) : NULL;
	}
	/* An empty list or object has no form of its own. */
	return at == begin ? wire_text(at, ANNOTATION_STRING, array ? "[]" : "{}") : at;
}

static char *put_value(char *at, struct perfetto *perfetto, const struct pfw_value *value)
{
	uint32_t iid;

	switch (value->type) {
	case PFW_VALUE_STRING:
		iid = perfetto_iid(&perfetto->names, PERFETTO_STRING, value->text);
		return iid ? wire_u64(at, ANNOTATION_STRING_IID, iid) : NULL;
	case PFW_VALUE_NUMBER:
		return put_number(at, value);
	case PFW_VALUE_TRUE:
	case PFW_VALUE_FALSE:
		return wire_u64(at, ANNOTATION_BOOL, value->type == PFW_VALUE_TRUE);
	case PFW_VALUE_NULL:
		return wire_text(at, ANNOTATION_STRING, "null");
	default:
		return put_list(at, perfetto, value);
	}
}

static char *put_arg(char *at, struct perfetto *perfetto, struct pfw_slice key,
		     const struct pfw_value *value)
{
	uint32_t iid = perfetto_iid(&perfetto->names, PERFETTO_KEY, key);
	char *part = wire_open(at, EVENT_ANNOTATION);

	if (!iid)
		return NULL;
	at = put_value(wire_u64(part, ANNOTATION_NAME_IID, iid), perfetto, value);
	return at ? wire_close(part, at) : NULL;
}

static char *put_args(char *at, struct perfetto *perfetto, bool known)
{
	const struct export_args *args = &perfetto->args;

	for (size_t i = 0; i < args->count && at; i++) {
		/* The category says the same. */
		if (!known || !pfw_member_is(&args->arg[i].key, "kind"))
			at = put_arg(at, perfetto, args->arg[i].key, &args->arg[i].value);
	}
	return at;
}

/* ---- events ---- */

/* A packet is built after room for the interned texts that must precede it. */
struct packet {
	char *begin, *content, *event;
};

static char *begin_event(struct packet *packet, struct perfetto *perfetto, int64_t ts_ns,
			 size_t bytes, unsigned type, uint64_t track)
{
	char *at = perfetto_room(perfetto, bytes + 256);

	if (!at)
		return NULL;
	packet->begin = at;
	packet->content = wire_open(at, TRACE_PACKET);
	at = perfetto_stamp(packet->content, perfetto, ts_ns);
	packet->event = wire_open(at, PACKET_TRACK_EVENT);
	at = type ? wire_u64(packet->event, EVENT_TYPE, type) : packet->event;
	return wire_u64(at, EVENT_TRACK, track);
}

/* The packet that first uses a text defines it. */
static int end_event(struct packet *packet, struct perfetto *perfetto, char *at)
{
	struct pfw_buffer *told = &perfetto->names.told;
	struct export_sink *sink = perfetto->job->sink;
	size_t used, content, bytes = told->bytes;

	if (!at)
		return -ENOMEM;
	at = wire_close(packet->event, at);
	if (bytes) {
		used = (size_t)(at - packet->begin);
		content = (size_t)(packet->content - packet->begin);
		packet->begin = export_sink_room(sink, used + bytes + 64);
		if (!packet->begin)
			return -ENOMEM;
		packet->content = packet->begin + content;
		at = wire_bytes(packet->begin + used, PACKET_INTERNED_DATA, told->data, bytes);
		told->bytes = 0;
	}
	return export_sink_used(sink, wire_close(packet->content, at));
}

static char *put_names(char *at, struct perfetto *perfetto, struct pfw_slice category,
		       struct pfw_slice name)
{
	uint32_t category_iid = perfetto_iid(&perfetto->names, PERFETTO_CATEGORY, category);
	uint32_t name_iid = perfetto_iid(&perfetto->names, PERFETTO_NAME, name);

	if (!category_iid || !name_iid)
		return NULL;
	return wire_u64(wire_u64(at, EVENT_CATEGORY_IID, category_iid), EVENT_NAME_IID, name_iid);
}

/* The flow id of a correlation; ids of two processes never collide. */
static uint64_t flow_id(const struct perfetto *perfetto, uint32_t process, uint64_t correlation)
{
	return correlation ^ perfetto->rows.process[process].number * 0x9e3779b97f4a7c15u;
}

/* The arrow from the call that launches work to the work.  A begin without an end is not drawn, but
 * an end without a begin is an error for the viewer. */
static char *put_launch(char *at, struct perfetto *perfetto, size_t file,
			const struct pfw_entry *entry, const struct chrome_work *work,
			const struct chrome_place *place)
{
	struct chrome_end end = { place->pid, place->tid, entry->ts_ns };
	enum chrome_launch which = chrome_launch(entry, work);
	int64_t process = place->process;
	char *part;

	if (!which)
		return at;
	if (which == CHROME_LAUNCHED)
		process = chrome_process(&perfetto->rows, file, entry, -1);
	else if (chrome_flows_begin(&perfetto->launches, place->process, work->correlation, &end))
		return NULL;
	if (process < 0)
		return NULL;
	if (!chrome_flows_find(&perfetto->launches, (uint32_t)process, work->correlation))
		return at;
	part = wire_open(at, EVENT_LEGACY);
	at = wire_u64(part, LEGACY_BIND_ID,
		      flow_id(perfetto, (uint32_t)process, work->correlation));
	at = wire_u64(at, LEGACY_DIRECTION, which == CHROME_LAUNCHES ? FLOW_OUT : FLOW_IN);
	return wire_close(part, at);
}

/* One end of an arrow that is not in a span's packet. */
static int write_flow(struct perfetto *perfetto, unsigned char phase, uint64_t id,
		      const struct chrome_end *end)
{
	static const struct pfw_slice name = { .at = "fwdbwd", .bytes = 6 };
	struct packet packet;
	char *at = begin_event(&packet, perfetto, end->ts_ns, 64, 0, end->tid), *part;

	at = at ? put_names(at, perfetto, name, name) : NULL;
	if (!at)
		return -ENOMEM;
	part = wire_open(at, EVENT_LEGACY);
	at = wire_u64(part, LEGACY_PHASE, phase);
	at = wire_u64(at, LEGACY_ID, id);
	at = wire_u64(at, LEGACY_BIND_TO_ENCLOSING, 1);
	return end_event(&packet, perfetto, wire_close(part, at));
}

static int write_backward(struct perfetto *perfetto, const struct pfw_entry *entry,
			  const struct chrome_work *work, const struct chrome_place *place,
			  uint64_t track)
{
	struct chrome_end end = { place->pid, track, entry->ts_ns };
	enum chrome_pass pass = chrome_pass(entry, work);
	struct chrome_begin *forward;
	uint64_t id;

	/* An arrow's begin is written later; a span without length would be over before it. */
	if (pass == CHROME_FORWARD)
		return entry->dur_ns ? chrome_flows_begin(&perfetto->passes, place->process,
							  work->sequence, &end)
				     : 0;
	forward = pass ? chrome_flows_find(&perfetto->passes, place->process, work->sequence)
		       : NULL;
	if (!forward || forward->taken)
		return 0;
	forward->taken = true;
	id = ++perfetto->passes.next;
	return write_flow(perfetto, 's', id, &forward->at) ?: write_flow(perfetto, 'f', id, &end);
}

static int write_event(struct perfetto *perfetto, size_t file, const struct pfw_entry *entry,
		       const struct chrome_work *work, const struct chrome_place *place,
		       uint64_t track)
{
	const char *kind = pfw_kineto_category(work->kind);
	struct pfw_slice category = entry->cat;
	bool span = entry->ph == 'X' && !chrome_is_instant(entry, work);
	struct packet packet;
	int64_t end_ns;
	int error;
	char *at = begin_event(&packet, perfetto, entry->ts_ns, 12 * entry->args.bytes + 4096,
			       span ? TYPE_BEGIN : TYPE_INSTANT, track);

	if (work->kind)
		category = (struct pfw_slice){ .at = kind, .bytes = strlen(kind) };
	at = at ? put_names(at, perfetto, category, entry->name) : NULL;
	at = at ? put_args(at, perfetto, work->kind) : NULL;
	at = at ? put_launch(at, perfetto, file, entry, work, place) : NULL;
	error = end_event(&packet, perfetto, at);
	if (error || !span)
		return error;
	if (__builtin_add_overflow(entry->ts_ns, entry->dur_ns, &end_ns))
		end_ns = INT64_MAX;
	error = perfetto_open(perfetto, end_ns, track);
	return error ?: write_backward(perfetto, entry, work, place, track);
}

/* ---- counters ---- */

static int write_counter(struct perfetto *perfetto, int64_t ts_ns, uint64_t track,
			 const struct pfw_value *value)
{
	struct packet packet;
	char *at = begin_event(&packet, perfetto, ts_ns, 0, TYPE_COUNTER, track);
	int64_t number;

	if (!at)
		return -ENOMEM;
	if (pfw_value_i64(value, &number))
		at = wire_u64(at, EVENT_COUNTER_VALUE, (uint64_t)number);
	else
		at = wire_double(at, EVENT_COUNTER_DOUBLE, export_double(value));
	return end_event(&packet, perfetto, at);
}

/* Each number in its args is a counter track of its own. */
static int write_counters(struct perfetto *perfetto, size_t file, const struct pfw_entry *entry)
{
	int64_t process = chrome_process(&perfetto->rows, file, entry, -1);
	int error = process < 0 ? (int)process : 0;

	for (size_t i = 0; i < perfetto->args.count && !error; i++) {
		const struct export_arg *arg = &perfetto->args.arg[i];
		uint64_t track;

		if (arg->value.type != PFW_VALUE_NUMBER)
			continue;
		track = perfetto_counter(perfetto, file, (uint32_t)process, entry->name, arg->key,
					 &error);
		error = error ?: write_counter(perfetto, entry->ts_ns, track, &arg->value);
	}
	return error;
}

/* ---- lines ---- */

static int begin_at(struct perfetto *perfetto, size_t file, const struct pfw_entry *entry)
{
	if (perfetto->begun && !perfetto_names_full(&perfetto->names))
		return 0;
	if (!perfetto->begun)
		chrome_rows_first(&perfetto->rows, file, entry);
	return perfetto_begin(perfetto, entry->ts_ns);
}

static int line(void *state, size_t file, const struct pfw_entry *entry)
{
	struct perfetto *perfetto = state;
	struct chrome_work work = CHROME_NO_WORK;
	struct chrome_place place;
	uint64_t track;
	bool done;
	int error = chrome_rows_meta(&perfetto->rows, file, entry, &done);

	if (error || done || !(entry->has & PFW_ENTRY_TS))
		return error;
	error = perfetto_close(perfetto, entry->ts_ns) ?: begin_at(perfetto, file, entry);
	error = error ?: export_args_read(&perfetto->args, entry);
	error = error ?: export_args_fname(&perfetto->args, perfetto->job, entry);
	if (error || entry->ph == 'C' || entry->ph == 'A')
		return error ?: write_counters(perfetto, file, entry);
	if (pfw_slice_is(&entry->cat, "PP"))
		chrome_work_read(&work, &perfetto->args);
	error = chrome_place_find(&place, &perfetto->rows, file, entry, &work);
	if (error)
		return error;
	track = perfetto_track(perfetto, file, &place, &error);
	return error ?: write_event(perfetto, file, entry, &work, &place, track);
}

static int end(void *state)
{
	struct perfetto *perfetto = state;
	return perfetto_close(perfetto, INT64_MAX) ?: perfetto_tracks_end(perfetto);
}

static void release(void *state)
{
	struct perfetto *perfetto = state;

	chrome_rows_free(&perfetto->rows);
	chrome_flows_free(&perfetto->launches);
	chrome_flows_free(&perfetto->passes);
	export_args_free(&perfetto->args);
	perfetto_names_free(&perfetto->names);
	pfw_pair_ids_release(&perfetto->tracks);
	free(perfetto->told);
	free(perfetto->open);
}

static int begin(void *state)
{
	struct perfetto *perfetto = state;

	return chrome_rows_init(&perfetto->rows, perfetto->job);
}

const struct export_format export_perfetto = {
	.name = "perfetto",
	.meta = true,
	.binary = true,
	.one_rank = true,
	.state_bytes = sizeof(struct perfetto),
	.begin = begin,
	.line = line,
	.end = end,
	.release = release,
};
