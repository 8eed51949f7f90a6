/* tools/perfetto/packet.c - the sequence of packets, its clock, and the ends of spans; see
 * perfetto.h.
 *
 * There is one sequence in order of time.  A packet's time is the ns since the packet before, which
 * takes one or two bytes.  A packet with an earlier time has it in full.
 */
#include <errno.h>

#include "perfetto/perfetto.h"
#include "perfetto/wire.h"
#include "store/kit/grow.h"
#include "store/kit/heap.h"

/* Limits of texts and bytes.  Beyond either, all are forgotten and interned again when used. */
#define NAMES_MAX (1u << 17)
#define BYTES_MAX (16u << 20)

static const uint8_t fields[] = {
	[PERFETTO_CATEGORY] = INTERNED_CATEGORY,
	[PERFETTO_NAME] = INTERNED_NAME,
	[PERFETTO_KEY] = INTERNED_KEY,
	[PERFETTO_STRING] = INTERNED_STRING,
};

void perfetto_names_free(struct perfetto_names *names)
{
	pfw_text_ids_release(&names->texts);
	pfw_buffer_free(&names->told);
}

bool perfetto_names_full(const struct perfetto_names *names)
{
	return names->texts.count >= NAMES_MAX || names->texts.texts.bytes >= BYTES_MAX;
}

/* A field of InternedData: the number and its text, without JSON's escapes. */
static int tell(struct perfetto_names *names, enum perfetto_text kind, uint32_t iid,
		struct pfw_slice text)
{
	struct pfw_buffer *told = &names->told;
	char *content, *at, *decoded;

	if (pfw_buffer_room(told, told->bytes + text.bytes + 64))
		return -ENOMEM;
	content = wire_open(told->data + told->bytes, fields[kind]);
	at = wire_u64(content, INTERNED_IID, iid);
	if (text.escaped) {
		decoded = wire_open(at, INTERNED_TEXT);
		at = wire_close(decoded,
				decoded + pfw_slice_decode(&text, decoded, text.bytes + 1));
	} else {
		at = wire_bytes(at, INTERNED_TEXT, text.at, text.bytes);
	}
	told->bytes = (size_t)(wire_close(content, at) - told->data);
	return 0;
}

uint32_t perfetto_iid(struct perfetto_names *names, enum perfetto_text kind, struct pfw_slice text)
{
	uint32_t count = names->texts.count;
	int64_t number = pfw_text_ids_of(&names->texts, kind, text.at, text.bytes);

	if (number < 0 || (number == count && tell(names, kind, (uint32_t)number + 1, text)))
		return 0;
	return (uint32_t)number + 1;
}

#define SEQUENCE 1
#define FRAME 64u /* bytes of a packet's own fields */

char *perfetto_room(struct perfetto *perfetto, size_t bytes)
{
	return export_sink_room(perfetto->job->sink, bytes + FRAME);
}

static uint64_t time_of(int64_t ts_ns)
{
	return ts_ns < 0 ? 0 : (uint64_t)ts_ns;
}

static char *put_clock(char *at, uint64_t id, uint64_t now, bool incremental)
{
	char *clock = wire_open(at, SNAPSHOT_CLOCK);

	at = wire_u64(clock, CLOCK_ID, id);
	at = wire_u64(at, CLOCK_TIMESTAMP, now);
	if (incremental)
		at = wire_u64(at, CLOCK_IS_INCREMENTAL, 1);
	return wire_close(clock, at);
}

int perfetto_begin(struct perfetto *perfetto, int64_t ts_ns)
{
	char *at = perfetto_room(perfetto, 256), *packet, *part;

	if (!at)
		return -ENOMEM;
	pfw_text_ids_clear(&perfetto->names.texts);
	perfetto->names.told.bytes = 0;
	perfetto->now_ns = ts_ns;
	perfetto->begun = true;
	packet = wire_open(at, TRACE_PACKET);
	at = wire_u64(packet, PACKET_SEQUENCE_ID, SEQUENCE);
	at = wire_u64(at, PACKET_SEQUENCE_FLAGS, STATE_CLEARED);
	part = wire_open(at, PACKET_CLOCK_SNAPSHOT);
	at = put_clock(part, CLOCK_OURS, time_of(ts_ns), true);
	at = put_clock(at, CLOCK_REALTIME_ID, time_of(ts_ns), false);
	at = wire_close(part, wire_u64(at, SNAPSHOT_PRIMARY, CLOCK_REALTIME_ID));
	part = wire_open(at, PACKET_DEFAULTS);
	at = wire_close(part, wire_u64(part, PACKET_CLOCK_ID, CLOCK_OURS));
	return export_sink_used(perfetto->job->sink, wire_close(packet, at));
}

char *perfetto_stamp(char *at, struct perfetto *perfetto, int64_t ts_ns)
{
	if (ts_ns >= perfetto->now_ns) {
		at = wire_u64(at, PACKET_TIMESTAMP, time_of(ts_ns) - time_of(perfetto->now_ns));
		perfetto->now_ns = ts_ns;
	} else {
		at = wire_u64(at, PACKET_TIMESTAMP, time_of(ts_ns));
		at = wire_u64(at, PACKET_CLOCK_ID, CLOCK_REALTIME_ID);
	}
	at = wire_u64(at, PACKET_SEQUENCE_ID, SEQUENCE);
	return wire_u64(at, PACKET_SEQUENCE_FLAGS, STATE_NEEDED);
}

/* ---- ends ---- */

static bool ends_before(const struct perfetto_open *a, const struct perfetto_open *b,
			const void *user)
{
	(void)user;
	return a->end_ns < b->end_ns;
}

PFW_HEAP(ends, struct perfetto_open, ends_before)

int perfetto_open(struct perfetto *perfetto, int64_t end_ns, uint64_t track)
{
	const struct perfetto_open open = { end_ns, track };

	if (PFW_ROOM(perfetto->open, perfetto->open_count, perfetto->open_room))
		return -ENOMEM;
	ends_rise(perfetto->open, perfetto->open_count++, open, NULL);
	return 0;
}

int perfetto_close(struct perfetto *perfetto, int64_t ts_ns)
{
	int error = 0;

	while (perfetto->open_count && perfetto->open[0].end_ns <= ts_ns && !error) {
		struct perfetto_open *heap = perfetto->open, end = heap[0];
		size_t count = --perfetto->open_count;
		char *at = perfetto_room(perfetto, 0), *packet, *event;

		ends_sink(heap, count, 0, heap[count], NULL);
		if (!at)
			return -ENOMEM;
		packet = wire_open(at, TRACE_PACKET);
		at = perfetto_stamp(packet, perfetto, end.end_ns);
		event = wire_open(at, PACKET_TRACK_EVENT);
		at = wire_u64(event, EVENT_TYPE, TYPE_END);
		at = wire_close(event, wire_u64(at, EVENT_TRACK, end.track));
		error = export_sink_used(perfetto->job->sink, wire_close(packet, at));
	}
	return error;
}
