/* recorder/marks/compute.c - compute events (cat PP) as records: the C API's, CUPTI's and
 * PyTorch's.
 */
#define PFW_BUILDING
#include <pfw/pfw.h>

#include <string.h>

#include "recorder/marks/api.h"
#include "recorder/marks/span.h"
#include "recorder/probe/probe.h"

#define VALUE_I64(x) (uint64_t)(int64_t)(x)
#define VALUE_U64(x) (uint64_t)(x)
#define VALUE_KIND(x) (uint64_t)(x)
#define VALUE_F64(x) double_bits(x)
#define VALUE_DIM3(x) dim3_bits(x)
#define VALUE_STRING(x) text_value(x, &text[texts++])
#define VALUE_JSON(x) text_value(x, &text[texts++])
#define PP_TEXTS 16
/* bytes of all texts of one event, the rest is cut: a record has at most 16 KiB */
#define PP_TEXT_MAX 12000u

struct pp_text {
	const char *at;
	size_t bytes;
};

static uint64_t double_bits(double x)
{
	uint64_t bits;

	memcpy(&bits, &x, sizeof(bits));
	return bits;
}

static uint64_t dim3_bits(const uint32_t dim[3])
{
	return (uint64_t)(dim[0] & 0x7fffffffu) | (uint64_t)(dim[1] & 0xffffu) << 31 |
	       (uint64_t)(dim[2] & 0xffffu) << 47;
}

static uint64_t text_value(const char *x, struct pp_text *text)
{
	text->at = x ? x : "";
	text->bytes = x ? strnlen(x, PP_TEXT_MAX) : 0;
	return text->bytes;
}

/* The values of the members in the mask, in the order of their bits, and their texts. */
static unsigned gather(const struct pfw_compute *event, uint64_t *value, struct pp_text *text,
		       unsigned *text_count)
{
	unsigned count = 0, texts = 0;

#define X(member, type)                      \
	if (event->fields & PFW_HAS(member)) \
		value[count++] = VALUE_##type(event->member);
	PFW_PP_FIELDS(X)
#undef X
	*text_count = texts;
	return count;
}

/* pfw.h and common/format/record.h both list the members: their bits must be the same. */
#define X(member, type) \
	_Static_assert((int)PFW_PP_BIT_##member == (int)PFW_COMPUTE_BIT_##member, #member);
PFW_PP_FIELDS(X)
#undef X

static uint8_t epoch_flags(const struct pfw_compute *event)
{
	return PFW_RECORD_EPOCH_NS | (event->phase == PFW_PHASE_WARMUP	 ? PFW_RECORD_WARMUP
				      : event->phase == PFW_PHASE_ACTIVE ? PFW_RECORD_ACTIVE
									 : 0);
}

/* The parts of a compute event's record. */
struct pp {
	uint64_t value[PFW_PP_BITS];
	struct pp_text text[PP_TEXTS + 1]; /* [0]: the name if it is inline */
	uint32_t name;			   /* the name's reference, 0 = inline */
	unsigned count, texts;
	size_t slots;
};

static void measure_pp(struct pp *pp, const struct pfw_compute *event, uint32_t name)
{
	size_t bytes = 0;

	pp->name = name;
	pp->text[0] = (struct pp_text){ event->name, name ? 0 : pfw_api_name_bytes(event->name) };
	pp->count = gather(event, pp->value, pp->text + 1, &pp->texts);
	for (unsigned i = 0; i <= pp->texts; i++)
		bytes += pp->text[i].bytes;
	bytes += pp->count > 1 ? (pp->count - 1) * sizeof(uint64_t) : 0;
	pp->slots = 1 + (bytes + PFW_SLOT_BYTES - 1) / PFW_SLOT_BYTES;
}

static void put_pp_tail(struct pfw_record *record, const struct pp *pp)
{
	char *out = (char *)(record + 1);

	if (pp->count)
		record->value[PFW_PP_HEAD] = pp->value[0];
	if (pp->count > 1) {
		memcpy(out, pp->value + 1, (pp->count - 1) * sizeof(*pp->value));
		out += (pp->count - 1) * sizeof(*pp->value);
	}
	for (unsigned i = 0; i <= pp->texts; i++) {
		memcpy(out, pp->text[i].at, pp->text[i].bytes);
		out += pp->text[i].bytes;
	}
}

static void put_pp(struct pfw_record *record, const struct pp *pp, const struct pfw_compute *event,
		   uint8_t flags)
{
	record->template = pfw_compute_template;
	record->slots = (uint8_t)pp->slots;
	record->flags = flags;
	record->t0 = event->ts_ns;
	record->dur = event->dur_ns;
	record->file = (uint32_t)pp->text[0].bytes;
	record->error = 0;
	record->value[0] = pp->name;
	record->value[1] = event->fields & ((1ull << PFW_PP_BITS) - 1);
	record->value[2] = event->tid;
	put_pp_tail(record, pp);
}

unsigned pfw_api_compute_record(struct pfw_record *record, unsigned slots,
				const struct pfw_compute *event)
{
	struct pp pp;

	measure_pp(&pp, event, 0);
	if (pp.slots > slots)
		return 0;
	put_pp(record, &pp, event, epoch_flags(event));
	return (unsigned)pp.slots;
}

/* Write the record of an event.  0, or -E2BIG if it is too long. */
PFW_SPAN_INLINE int put_event(const struct pfw_compute *event, uint8_t flags)
{
	struct pp pp;
	struct pfw_record *record;
	uint64_t position;

	measure_pp(&pp, event, pfw_api_intern(event->name));
	if (pp.slots > PFW_RECORD_SLOTS_MAX) {
		pfw_ring_count_lost(PFW_LOST_TOO_LONG, 1);
		return -E2BIG;
	}
	record = pfw_ring_reserve(pfw_thread.ring, (unsigned)pp.slots, &position);
	if (!record)
		return 0;
	put_pp(record, &pp, event, flags);
	pfw_probe_commit(record, position);
	return 0;
}

int pfw_compute_event(const struct pfw_compute *event)
{
	if (!event || event->struct_bytes < sizeof(*event) || !event->name)
		return -EINVAL;
	return pfw_api_on() ? put_event(event, epoch_flags(event)) : 0;
}

void pfw_api_name_place(const struct pfw_compute *place)
{
	struct pfw_compute event = *place;

	if (!pfw_api_on())
		return;
	event.ts_ns = pfw_clock_ns(CLOCK_REALTIME);
	put_event(&event, epoch_flags(&event) | PFW_RECORD_LANE_NAME | PFW_RECORD_INSTANT);
}

void pfw_api_operator(const char *name, enum pfw_kind kind, int32_t tid, uint64_t t0, uint64_t t1)
{
	struct pfw_compute event = {
		.fields = PFW_HAS(kind) | PFW_HAS(device) | PFW_HAS(device_index),
		.name = name,
		.kind = kind,
		.device_index = -1,
		.tid = (uint64_t)tid,
		.ts_ns = t0,
		.dur_ns = t1 - t0,
	};

	put_event(&event, 0); /* times in ticks */
}
