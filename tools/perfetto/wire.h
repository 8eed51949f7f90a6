/* tools/perfetto/wire.h - writes protobuf fields, and the numbers of the Perfetto fields that we
 * use.
 *
 * The field numbers are those of protos/perfetto/trace in Perfetto's sources.  The caller provides
 * room.  A nested message is opened with one byte for its length; if the length needs more, the
 * content is moved when the message is closed, which is rare.
 */
#pragma once

#include <stdint.h>
#include <string.h>

#include "store/kit/varint.h"

enum perfetto_field {
	TRACE_PACKET = 1,

	PACKET_CLOCK_SNAPSHOT = 6,
	PACKET_TIMESTAMP = 8,
	PACKET_SEQUENCE_ID = 10,
	PACKET_TRACK_EVENT = 11,
	PACKET_INTERNED_DATA = 12,
	PACKET_SEQUENCE_FLAGS = 13,
	PACKET_CLOCK_ID = 58,
	PACKET_DEFAULTS = 59,
	PACKET_TRACK_DESCRIPTOR = 60,

	SNAPSHOT_CLOCK = 1,
	SNAPSHOT_PRIMARY = 2,
	CLOCK_ID = 1,
	CLOCK_TIMESTAMP = 2,
	CLOCK_IS_INCREMENTAL = 3,

	EVENT_CATEGORY_IID = 3,
	EVENT_ANNOTATION = 4,
	EVENT_LEGACY = 6,
	EVENT_TYPE = 9,
	EVENT_NAME_IID = 10,
	EVENT_TRACK = 11,
	EVENT_COUNTER_VALUE = 30,
	EVENT_COUNTER_DOUBLE = 44,

	LEGACY_PHASE = 2,
	LEGACY_ID = 6,
	LEGACY_BIND_ID = 8,
	LEGACY_BIND_TO_ENCLOSING = 12,
	LEGACY_DIRECTION = 13,

	ANNOTATION_NAME_IID = 1,
	ANNOTATION_BOOL = 2,
	ANNOTATION_UINT = 3,
	ANNOTATION_INT = 4,
	ANNOTATION_DOUBLE = 5,
	ANNOTATION_STRING = 6,
	ANNOTATION_NAME = 10,
	ANNOTATION_DICT = 11,
	ANNOTATION_ARRAY = 12,
	ANNOTATION_STRING_IID = 17,

	INTERNED_CATEGORY = 1,
	INTERNED_NAME = 2,
	INTERNED_KEY = 3,
	INTERNED_STRING = 29,
	INTERNED_IID = 1,
	INTERNED_TEXT = 2,

	TRACK_UUID = 1,
	TRACK_NAME = 2,
	TRACK_PROCESS = 3,
	TRACK_THREAD = 4,
	TRACK_PARENT = 5,
	TRACK_COUNTER = 8,
	PROCESS_PID = 1,
	PROCESS_NAME = 6,
	THREAD_PID = 1,
	THREAD_TID = 2,
	THREAD_NAME = 5,
};

/* Values of such fields. */
enum { STATE_CLEARED = 1, STATE_NEEDED = 2 };
enum { CLOCK_REALTIME_ID = 1, CLOCK_OURS = 64 };
enum { TYPE_BEGIN = 1, TYPE_END = 2, TYPE_INSTANT = 3, TYPE_COUNTER = 4 };
enum { FLOW_IN = 1, FLOW_OUT = 2 };

enum { WIRE_VARINT = 0, WIRE_FIXED64 = 1, WIRE_BYTES = 2 };

/* Each function returns the place after what it wrote.  Thread: any. */
static inline char *wire_varint(char *at, uint64_t value)
{
	return (char *)pfw_varint_put((uint8_t *)at, value);
}

static inline char *wire_u64(char *at, unsigned field, uint64_t value)
{
	return wire_varint(wire_varint(at, field << 3 | WIRE_VARINT), value);
}

static inline char *wire_double(char *at, unsigned field, double value)
{
	uint64_t bits;

	memcpy(&bits, &value, sizeof(bits));
	at = wire_varint(at, field << 3 | WIRE_FIXED64);
	for (unsigned i = 0; i < 8; i++)
		*at++ = (char)(bits >> 8 * i);
	return at;
}

static inline char *wire_bytes(char *at, unsigned field, const char *bytes, size_t count)
{
	at = wire_varint(wire_varint(at, field << 3 | WIRE_BYTES), count);
	memcpy(at, bytes, count);
	return at + count;
}

static inline char *wire_text(char *at, unsigned field, const char *text)
{
	return wire_bytes(at, field, text, strlen(text));
}

/* The place for a message's content; close it with that place and the end of the content. */
static inline char *wire_open(char *at, unsigned field)
{
	return wire_varint(at, field << 3 | WIRE_BYTES) + 1;
}

static inline char *wire_close(char *content, char *end)
{
	uint64_t bytes = (uint64_t)(end - content);
	uint8_t length[PFW_VARINT_MAX];
	size_t more = (size_t)(pfw_varint_put(length, bytes) - length) - 1;

	if (more)
		memmove(content + more, content, bytes);
	memcpy(content - 1, length, more + 1);
	return end + more;
}
