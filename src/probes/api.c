/* api.c - the C API's spans, events and counters as records. */
#define PFW_BUILDING
#include <pfw/pfw.h>

#include <stdlib.h>
#include <string.h>

#include "../globs.h"
#include "../strings.h"
#include "../templates.h"
#include "api.h"
#include "probe.h"
#include "span.h"

/* Arguments stand in args[], or, once they are more, in a heap block whose address is in args[]. */
#define ARGS_INLINE sizeof(((struct pfw_span *)0)->args)
#define ARGS_MAX (12u * 1024u)
/* An argument of this type is no argument but a name that the arena had no room for. */
#define ARG_NAME PFW_TYPE_NONE
#define ANNOTATIONS "PP" /* their category */

uint16_t pfw_span_template;
static struct pfw_template_ids ids;
static const char *step_names; /* PFW_STEP */

void pfw_api_templates(const struct pfw_template_ids *templates)
{
	ids = *templates;
	pfw_span_template = ids.api;
}

void pfw_api_steps(const char *names)
{
	step_names = names;
}

/* Whether the API records in this thread.  Keeps errno. */
static inline __attribute__((always_inline)) bool on(void)
{
	uint64_t word = atomic_load_explicit(&pfw_live->api, memory_order_relaxed);

	if (PFW_LIKELY(word != 0 && word == pfw_thread.live))
		return true;
	if (!word && pfw_live_off(&pfw_live->api))
		return false;
	return pfw_probe_ready(&pfw_live->api) != 0;
}

bool pfw_api_on(void)
{
	return on();
}

/* A step begins before the span that begins it, and may switch the recording. */
static __attribute__((noinline)) bool on_slow(const char *name)
{
	pfw_probe_ready(&pfw_live->api); /* a forked child has no words before */
	if (atomic_load(&pfw_live->api) & PFW_LIVE_STEPS && name && !pfw_thread.vfork_child &&
	    pfw_glob_list(step_names, ',', name))
		pfw_probe_host.step(false);
	return pfw_probe_ready(&pfw_live->api) != 0;
}

static size_t name_bytes(const char *name)
{
	return strnlen(name, PFW_NAME_BYTES);
}

/* ---- records of shape API ---- */

struct api_record {
	uint64_t t0, dur, id, parent;
	uint32_t name_ref, category_ref;
	const char *name, *category; /* inline where the ref is 0 */
	const void *args;
	size_t args_bytes;
	uint8_t flags;
};

/* A name's reference, from now on found by its address. */
static __attribute__((noinline)) uint32_t remember(struct pfw_known_name *known, const char *name)
{
	uint32_t ref = pfw_string_intern(name, name_bytes(name)), bytes;

	if (!ref)
		return 0;
	known->from = NULL; /* a handler between these lines must not believe half an entry */
	atomic_signal_fence(memory_order_seq_cst);
	known->ref = ref;
	known->text = pfw_strings_text(ref, &bytes);
	atomic_signal_fence(memory_order_seq_cst);
	known->from = known->text ? name : NULL;
	return ref;
}

static inline uint32_t intern_at(struct pfw_known_name *known, const char *name)
{
	uint32_t ref = pfw_span_recall(known, name);

	return PFW_LIKELY(ref) ? ref : remember(known, name);
}

/* Categories have an entry of their own: they seldom change. */
static inline uint32_t intern_category(const char *category)
{
	return intern_at(&pfw_thread.known_category, category);
}

static inline uint32_t intern_name(const char *name)
{
	return intern_at(pfw_span_known(name), name);
}

static void intern(struct api_record *api, const char *name, const char *category)
{
	api->name = name;
	api->category = category ? category : "app";
	api->name_ref = intern_name(name);
	api->category_ref = intern_category(api->category);
}

static void put_record(const struct api_record *api)
{
	size_t name = api->name_ref ? 0 : name_bytes(api->name);
	size_t category = api->category_ref ? 0 : name_bytes(api->category);
	size_t slots =
		1 + (name + category + api->args_bytes + PFW_SLOT_BYTES - 1) / PFW_SLOT_BYTES;
	struct pfw_record *record;
	uint64_t position;
	char *out;

	if (slots > PFW_RECORD_SLOTS_MAX) {
		pfw_ring_count_lost(PFW_LOST_TOO_LONG, 1);
		return;
	}
	record = pfw_ring_reserve(pfw_thread.ring, (unsigned)slots, &position);
	if (PFW_UNLIKELY(!record))
		return;
	record->template = ids.api;
	record->slots = (uint8_t)slots;
	record->flags = api->flags;
	record->t0 = api->t0;
	record->dur = api->dur;
	record->file = (uint32_t)(name | category << 16);
	record->error = 0;
	record->value[0] = api->name_ref | (uint64_t)api->category_ref << 32;
	record->value[1] = api->id;
	record->value[2] = api->parent;
	record->value[3] = api->args_bytes;
	out = (char *)(record + 1);
	if (name)
		memcpy(out, api->name, name);
	if (category)
		memcpy(out + name, api->category, category);
	if (api->args_bytes)
		memcpy(out + name + category, api->args, api->args_bytes);
	pfw_probe_commit(record, position);
}

/* ---- arguments ---- */

static size_t args_bytes(const struct pfw_span *span)
{
	return (uint32_t)span->state[PFW_SPAN_ARGS];
}

static unsigned char *args_at(struct pfw_span *span)
{
	unsigned char *heap;

	if (args_bytes(span) <= ARGS_INLINE)
		return span->args;
	memcpy(&heap, span->args, sizeof(heap));
	return heap;
}

/* Room for `bytes` more, or NULL: they are counted as cut. */
static unsigned char *args_room(struct pfw_span *span, size_t bytes)
{
	size_t have = args_bytes(span);
	unsigned char *heap, *at = args_at(span);

	if (have + bytes > ARGS_MAX) {
		span->state[PFW_SPAN_ARGS] += 1ull << 32;
		return NULL;
	}
	if (have <= ARGS_INLINE && have + bytes > ARGS_INLINE) {
		heap = malloc(ARGS_MAX);
		if (!heap) {
			span->state[PFW_SPAN_ARGS] += 1ull << 32;
			return NULL;
		}
		memcpy(heap, span->args, have);
		memcpy(span->args, &heap, sizeof(heap));
		at = heap;
	}
	span->state[PFW_SPAN_ARGS] += bytes;
	return at + have;
}

static size_t put_arg(unsigned char *out, const struct pfw_arg *arg, const char *key,
		      const void *value)
{
	memcpy(out, arg, sizeof(*arg));
	memcpy(out + sizeof(*arg), key, arg->key_bytes);
	memcpy(out + sizeof(*arg) + arg->key_bytes, value, arg->value_bytes);
	return sizeof(*arg) + arg->key_bytes + arg->value_bytes;
}

static int add_arg(struct pfw_span *span, const char *key, enum pfw_type type, const void *value,
		   size_t bytes)
{
	struct pfw_arg arg = { .type = (uint8_t)type, .value_bytes = (uint32_t)bytes };
	unsigned char *out;

	if (!span || !key || !value)
		return -EINVAL;
	if (!span->state[PFW_SPAN_LIVE])
		return 0;
	arg.key_bytes = (uint16_t)name_bytes(key);
	out = args_room(span, sizeof(arg) + arg.key_bytes + bytes);
	if (!out)
		return -E2BIG;
	put_arg(out, &arg, key, value);
	return 0;
}

int pfw_span_arg_int(struct pfw_span *span, const char *key, int64_t value)
{
	return add_arg(span, key, PFW_TYPE_I64, &value, sizeof(value));
}

int pfw_span_arg_double(struct pfw_span *span, const char *key, double value)
{
	return add_arg(span, key, PFW_TYPE_F64, &value, sizeof(value));
}

int pfw_span_arg_str(struct pfw_span *span, const char *key, const char *value)
{
	int error = errno, result;

	result = add_arg(span, key, PFW_TYPE_STRING, value, value ? strnlen(value, ARGS_MAX) : 0);
	errno = error;
	return result;
}

/* ---- spans ---- */

/* The names did not all get into the arena: they stand before the arguments. */
static void keep_names(struct pfw_span *span, const char *name, const char *category)
{
	int error = errno;

	add_arg(span, "", ARG_NAME, name, name_bytes(name));
	add_arg(span, "", ARG_NAME, category, name_bytes(category));
	errno = error;
}

static __attribute__((noinline)) int begin_rarely(struct pfw_span *span, const char *name,
						  const char *category)
{
	const char *of = category ? category : ANNOTATIONS;
	uint32_t ref, category_ref;

	if (!pfw_span_plain() && !on_slow(name))
		return 0;
	if (!name)
		return -EINVAL;
	ref = intern_name(name);
	category_ref = intern_category(of);
	if (!category)
		pfw_thread.annotation = category_ref;
	pfw_span_open(span, ref, category_ref);
	if (PFW_UNLIKELY(!ref || !category_ref))
		keep_names(span, name, of);
	span->state[PFW_SPAN_START] = pfw_clock_ticks();
	return 0;
}

/* Where nothing is recorded it ends here. */
int pfw_span_begin_slow(struct pfw_span *span, const char *name, const char *category)
{
	span->state[PFW_SPAN_LIVE] = 0;
	if (!atomic_load_explicit(&pfw_live->api, memory_order_relaxed) &&
	    pfw_live_off(&pfw_live->api))
		return 0;
	return begin_rarely(span, name, category);
}

int pfw_span_begin(struct pfw_span *span, const char *name, const char *category)
{
	uint32_t ref, category_ref;

	if (PFW_UNLIKELY(!span))
		return -EINVAL;
	if (!category)
		category = "app";
	if (PFW_UNLIKELY(!name || !pfw_span_plain()))
		return pfw_span_begin_slow(span, name, category);
	ref = pfw_span_recall(pfw_span_known(name), name);
	category_ref = pfw_span_recall(&pfw_thread.known_category, category);
	if (PFW_UNLIKELY(!ref || !category_ref))
		return pfw_span_begin_slow(span, name, category);
	pfw_span_open(span, ref, category_ref);
	span->state[PFW_SPAN_START] = pfw_clock_ticks();
	return 0;
}

/* The name or category that stands before the arguments; *args moves behind it. */
static char *inline_name(struct api_record *api, char *room)
{
	struct pfw_arg arg;
	const char *at = api->args;

	memcpy(&arg, at, sizeof(arg));
	memcpy(room, at + sizeof(arg), arg.value_bytes);
	room[arg.value_bytes] = '\0';
	api->args = at + sizeof(arg) + arg.value_bytes;
	api->args_bytes -= sizeof(arg) + arg.value_bytes;
	return room;
}

/* A span whose names the arena had no room for: rare, so two copies on the stack are no matter
 * (names are cut to what the head of a record can say). */
static __attribute__((noinline)) void put_with_names(struct api_record *api)
{
	char name[PFW_NAME_BYTES + 1], category[PFW_NAME_BYTES + 1];

	api->name_ref = api->category_ref = 0;
	api->name = inline_name(api, name);
	api->category = inline_name(api, category);
	put_record(api);
}

/* Say how many arguments did not fit; `room` is where they are put together for that. */
static void append_cut(struct pfw_span *span, struct api_record *api, unsigned char *room)
{
	static const char key[] = "args_cut";
	struct pfw_arg arg = { sizeof(key) - 1, PFW_TYPE_I64, 0, sizeof(int64_t) };
	int64_t cut = (int64_t)(span->state[PFW_SPAN_ARGS] >> 32);

	memcpy(room, api->args, api->args_bytes);
	api->args = room;
	api->args_bytes += put_arg(room + api->args_bytes, &arg, key, &cut);
}

static void put_span(struct api_record *api)
{
	if (PFW_LIKELY(api->name_ref && api->category_ref))
		put_record(api);
	else
		put_with_names(api);
}

/* Rare, so the room may be on the stack. */
static __attribute__((noinline)) void put_cut(struct pfw_span *span, struct api_record *api)
{
	unsigned char room[ARGS_MAX + 64];

	append_cut(span, api, room);
	put_span(api);
}

/* A span with arguments, or with a name that has no reference. */
static __attribute__((noinline)) void end_full(struct pfw_span *span, uint64_t t1, uint8_t flags)
{
	struct api_record api = {
		.t0 = span->state[PFW_SPAN_START],
		.dur = t1 - span->state[PFW_SPAN_START],
		.id = span->state[PFW_SPAN_ID],
		.parent = span->state[PFW_SPAN_PARENT],
		.name_ref = (uint32_t)span->state[PFW_SPAN_NAMES],
		.category_ref = (uint32_t)(span->state[PFW_SPAN_NAMES] >> 32),
		.args = args_at(span),
		.args_bytes = args_bytes(span),
		.flags = flags,
	};

	if (PFW_UNLIKELY(span->state[PFW_SPAN_ARGS] >> 32))
		put_cut(span, &api);
	else
		put_span(&api);
}

static void free_args(struct pfw_span *span)
{
	int error = errno;

	if (args_bytes(span) > ARGS_INLINE)
		free(args_at(span));
	errno = error;
}

void pfw_span_end_slow(struct pfw_span *span, uint64_t live, uint64_t t1, uint8_t flags)
{
	if (on() && live == atomic_load_explicit(&pfw_live->born, memory_order_relaxed)) {
		/* A name without a reference stands in the arguments. */
		if (!span->state[PFW_SPAN_ARGS])
			pfw_span_put(span, t1, flags);
		else
			end_full(span, t1, flags);
	}
	free_args(span);
}

int pfw_span_end(struct pfw_span *span)
{
	if (PFW_UNLIKELY(!span))
		return -EINVAL;
	pfw_span_close(span, 0);
	return 0;
}

int pfw_span_end_as(struct pfw_span *span, uint64_t ts_ns, uint64_t dur_ns)
{
	bool instant = dur_ns == PFW_INSTANT;
	uint64_t live;

	if (!span)
		return -EINVAL;
	live = span->state[PFW_SPAN_LIVE];
	if (!live)
		return 0;
	span->state[PFW_SPAN_LIVE] = 0;
	pfw_span_leave(span);
	span->state[PFW_SPAN_START] = ts_ns;
	pfw_span_end_slow(span, live, instant ? ts_ns : ts_ns + dur_ns,
			  PFW_RECORD_EPOCH_NS | (instant ? PFW_RECORD_INSTANT : 0));
	return 0;
}

int pfw_span_drop(struct pfw_span *span)
{
	if (!span)
		return -EINVAL;
	if (!span->state[PFW_SPAN_LIVE])
		return 0;
	span->state[PFW_SPAN_LIVE] = 0;
	pfw_span_leave(span);
	free_args(span);
	return 0;
}

uint64_t pfw_span_current(void)
{
	return atomic_load_explicit(&pfw_live->api, memory_order_relaxed) ? pfw_thread.span : 0;
}

uint64_t pfw_span_set_current(uint64_t span_id)
{
	uint64_t before;

	if (!on())
		return 0;
	before = pfw_thread.span;
	pfw_thread.span = span_id;
	if (PFW_UNLIKELY(atomic_load_explicit(&pfw_cupti_spans, memory_order_relaxed)) &&
	    before != span_id)
		pfw_cupti_replace(span_id);
	return before;
}

int pfw_enabled(void)
{
	return on();
}

/* ---- for the probe of NVTX ---- */

int32_t pfw_api_tid(void)
{
	return on() ? atomic_load_explicit(&pfw_thread.ring->tid, memory_order_relaxed) : 0;
}

void pfw_api_arg_u64(struct pfw_span *span, const char *key, uint64_t value)
{
	add_arg(span, key, PFW_TYPE_U64, &value, sizeof(value));
}

void pfw_api_aside(const struct pfw_span *span)
{
	if (span->state[PFW_SPAN_LIVE])
		pfw_span_leave(span);
}

void pfw_api_end_instant(struct pfw_span *span)
{
	pfw_span_close(span, PFW_RECORD_INSTANT | PFW_RECORD_ANNOTATION);
}

/* ---- finished events ---- */

int pfw_event(const char *name, const char *category, uint64_t ts_ns, uint64_t dur_ns)
{
	struct api_record api = { .t0 = ts_ns, .dur = dur_ns, .flags = PFW_RECORD_EPOCH_NS };

	if (!name)
		return -EINVAL;
	if (!on())
		return 0;
	intern(&api, name, category);
	api.id = pfw_span_new_id();
	api.parent = pfw_thread.span;
	put_record(&api);
	return 0;
}

int pfw_instant(const char *name, const char *category)
{
	struct api_record api = { .flags = PFW_RECORD_INSTANT };

	if (!name)
		return -EINVAL;
	if (!on())
		return 0;
	api.t0 = pfw_clock_ticks();
	intern(&api, name, category);
	put_record(&api);
	return 0;
}

int pfw_counter(const char *name, const char *series, double value)
{
	struct api_record api = { .flags = PFW_RECORD_COUNTER };
	unsigned char args[sizeof(struct pfw_arg) + 256 + sizeof(value)];
	struct pfw_arg arg = { .type = PFW_TYPE_F64, .value_bytes = sizeof(value) };

	if (!name || !series)
		return -EINVAL;
	if (!on())
		return 0;
	api.t0 = pfw_clock_ticks();
	arg.key_bytes = (uint16_t)strnlen(series, 256);
	api.args = args;
	api.args_bytes = put_arg(args, &arg, series, &value);
	intern(&api, name, "COUNTER");
	put_record(&api);
	return 0;
}

/* ---- compute events ---- */

#define VALUE_I64(x) (uint64_t)(int64_t)(x)
#define VALUE_U64(x) (uint64_t)(x)
#define VALUE_KIND(x) (uint64_t)(x)
#define VALUE_F64(x) double_bits(x)
#define VALUE_DIM3(x) dim3_bits(x)
#define VALUE_STRING(x) text_value(x, &text[texts++])
#define VALUE_JSON(x) text_value(x, &text[texts++])
#define PP_TEXTS 16
#define PP_TEXT_MAX 12000u /* all texts of one event; more is cut, a record being 16 KiB at most */

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

/* The values of the mask's members, in its order; their texts too. */
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

/* pfw.h and record.h each list the members: the bits must be the same. */
#define X(member, type) \
	_Static_assert((int)PFW_PP_BIT_##member == (int)PFW_COMPUTE_BIT_##member, #member);
PFW_PP_FIELDS(X)
#undef X

static uint8_t phase_flag(enum pfw_phase phase)
{
	return phase == PFW_PHASE_WARMUP   ? PFW_RECORD_WARMUP
	       : phase == PFW_PHASE_ACTIVE ? PFW_RECORD_ACTIVE
					   : 0;
}

/* A compute event as a record: what will be in it. */
struct pp {
	uint64_t value[PFW_PP_BITS];
	struct pp_text text[PP_TEXTS + 1]; /* [0]: the name, where it is inline */
	uint32_t name;			   /* its reference, 0 = inline */
	unsigned count, texts;
	size_t slots;
};

static void measure_pp(struct pp *pp, const struct pfw_compute *event, uint32_t name)
{
	size_t bytes = 0;

	pp->name = name;
	pp->text[0] = (struct pp_text){ event->name, name ? 0 : name_bytes(event->name) };
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

static void put_pp(struct pfw_record *record, const struct pp *pp, const struct pfw_compute *event)
{
	record->template = ids.pp;
	record->slots = (uint8_t)pp->slots;
	record->flags = PFW_RECORD_EPOCH_NS | phase_flag(event->phase);
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
	put_pp(record, &pp, event);
	return (unsigned)pp.slots;
}

int pfw_compute_event(const struct pfw_compute *event)
{
	struct pp pp;
	struct pfw_record *record;
	uint64_t position;

	if (!event || event->struct_bytes < sizeof(*event) || !event->name)
		return -EINVAL;
	if (!on())
		return 0;
	measure_pp(&pp, event, intern_name(event->name));
	if (pp.slots > PFW_RECORD_SLOTS_MAX) {
		pfw_ring_count_lost(PFW_LOST_TOO_LONG, 1);
		return -E2BIG;
	}
	record = pfw_ring_reserve(pfw_thread.ring, (unsigned)pp.slots, &position);
	if (!record)
		return 0;
	put_pp(record, &pp, event);
	pfw_probe_commit(record, position);
	return 0;
}

void pfw_api_name_place(const struct pfw_compute *place)
{
	struct pfw_compute event = *place;
	struct pfw_record *record;
	uint64_t position;
	struct pp pp;

	if (!on())
		return;
	event.ts_ns = pfw_clock_ns(CLOCK_REALTIME);
	measure_pp(&pp, &event, intern_name(event.name));
	record = pfw_ring_reserve(pfw_thread.ring, (unsigned)pp.slots, &position);
	if (!record)
		return;
	put_pp(record, &pp, &event);
	record->flags |= PFW_RECORD_LANE_NAME | PFW_RECORD_INSTANT;
	pfw_probe_commit(record, position);
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
	struct pfw_record *record;
	uint64_t position;
	struct pp pp;

	measure_pp(&pp, &event, intern_name(name));
	record = pfw_ring_reserve(pfw_thread.ring, (unsigned)pp.slots, &position);
	if (!record)
		return;
	put_pp(record, &pp, &event);
	record->flags = 0; /* ticks */
	pfw_probe_commit(record, position);
}
