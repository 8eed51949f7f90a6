/* recorder/marks/api.c - the C API's spans, instants and counters as records. */
#define PFW_BUILDING
#include <pfw/pfw.h>

#include <stdlib.h>
#include <string.h>

#include "common/base/globs.h"
#include "recorder/marks/api.h"
#include "recorder/marks/span.h"
#include "recorder/probe/probe.h"
#include "recorder/spool/strings.h"
#include "recorder/spool/templates.h"

/*
 * Arguments are in args[] or, if they do not fit there, in a heap block whose address is in args[].
 */
#define ARGS_INLINE sizeof(((struct pfw_span *)0)->args)
#define ARGS_MAX (12u * 1024u)
/* The type of a pseudo-argument: a name that the arena had no room for. */
#define ARG_NAME PFW_TYPE_NONE
#define ANNOTATIONS "PP" /* the category of annotations */

uint16_t pfw_span_template;
uint16_t pfw_compute_template;
_Atomic uint64_t pfw_span_last;
static const char *step_names; /* PFW_STEP */

void pfw_api_templates(const struct pfw_template_ids *templates)
{
	pfw_span_template = templates->api;
	pfw_compute_template = templates->pp;
}

void pfw_api_steps(const char *names)
{
	step_names = names;
}

/* Whether the API records in this thread.  Keeps errno. */
static inline __attribute__((always_inline)) bool on(void)
{
	uint64_t word = atomic_load_explicit(&pfw_switches->api, memory_order_relaxed);

	if (PFW_LIKELY(word != 0 && word == pfw_thread.live))
		return true;
	if (!word && pfw_switches_off(&pfw_switches->api))
		return false;
	return pfw_probe_ready(&pfw_switches->api) != 0;
}

bool pfw_api_on(void)
{
	return on();
}

/* A step begins before the span that marks it, and may switch the recording. */
static __attribute__((noinline)) bool on_slow(const char *name)
{
	pfw_probe_ready(&pfw_switches->api); /* a forked child has no switch words yet */
	if (atomic_load(&pfw_switches->api) & PFW_SWITCH_STEPS && name && !pfw_thread.vfork_child &&
	    pfw_glob_list(step_names, ',', name))
		pfw_probe_host.step(false);
	return pfw_probe_ready(&pfw_switches->api) != 0;
}

/* ---- records of shape API ---- */

struct api_record {
	uint64_t t0, dur, id, parent;
	uint32_t name_ref, category_ref;
	const char *name, *category; /* inline if the reference is 0 */
	size_t name_bytes, category_bytes;
	const void *args, *more_args;
	size_t args_bytes, more_bytes;
	uint8_t flags;
};

/* Intern a name and cache its reference by the name's address. */
static __attribute__((noinline)) uint32_t remember(struct pfw_known_name *known, const char *name)
{
	uint32_t ref = pfw_string_intern(name, pfw_api_name_bytes(name)), bytes;

	if (!ref)
		return 0;
	known->from = NULL; /* a signal handler between these lines must not use half an entry */
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

/* Categories have their own cache entry, since they seldom change. */
static inline uint32_t intern_category(const char *category)
{
	return intern_at(&pfw_thread.known_category, category);
}

uint32_t pfw_api_intern(const char *name)
{
	return intern_at(pfw_span_known(name), name);
}

static void intern(struct api_record *api, const char *name, const char *category)
{
	api->name = name;
	api->category = category ? category : "app";
	api->name_ref = pfw_api_intern(name);
	api->category_ref = intern_category(api->category);
	api->name_bytes = api->name_ref ? 0 : pfw_api_name_bytes(api->name);
	api->category_bytes = api->category_ref ? 0 : pfw_api_name_bytes(api->category);
}

static char *put_bytes(char *out, const void *from, size_t bytes)
{
	if (bytes)
		memcpy(out, from, bytes);
	return out + bytes;
}

static void put_record(const struct api_record *api)
{
	size_t args = api->args_bytes + api->more_bytes;
	size_t slots = 1 + (api->name_bytes + api->category_bytes + args + PFW_SLOT_BYTES - 1) /
				   PFW_SLOT_BYTES;
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
	record->template = pfw_span_template;
	record->slots = (uint8_t)slots;
	record->flags = api->flags;
	record->t0 = api->t0;
	record->dur = api->dur;
	record->file = (uint32_t)(api->name_bytes | api->category_bytes << 16);
	record->error = 0;
	record->value[0] = api->name_ref | (uint64_t)api->category_ref << 32;
	record->value[1] = api->id;
	record->value[2] = api->parent;
	record->value[3] = args;
	out = put_bytes((char *)(record + 1), api->name, api->name_bytes);
	out = put_bytes(out, api->category, api->category_bytes);
	out = put_bytes(out, api->args, api->args_bytes);
	put_bytes(out, api->more_args, api->more_bytes);
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

/* Room for `bytes` more bytes of arguments, or NULL: then the argument is counted as cut. */
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
	arg.key_bytes = (uint16_t)pfw_api_name_bytes(key);
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

/* The arena had no room for both names: store them before the arguments. */
static void keep_names(struct pfw_span *span, const char *name, const char *category)
{
	int error = errno;

	add_arg(span, "", ARG_NAME, name, pfw_api_name_bytes(name));
	add_arg(span, "", ARG_NAME, category, pfw_api_name_bytes(category));
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
	ref = pfw_api_intern(name);
	category_ref = intern_category(of);
	if (!category)
		pfw_thread.annotation = category_ref;
	pfw_span_open(span, ref, category_ref);
	if (PFW_UNLIKELY(!ref || !category_ref))
		keep_names(span, name, of);
	span->state[PFW_SPAN_START] = pfw_clock_ticks();
	return 0;
}

/* The slow path, which also ends every call while recording is off. */
int pfw_span_begin_slow(struct pfw_span *span, const char *name, const char *category)
{
	span->state[PFW_SPAN_LIVE] = 0;
	if (!atomic_load_explicit(&pfw_switches->api, memory_order_relaxed) &&
	    pfw_switches_off(&pfw_switches->api))
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

/* The name or category that is stored before the arguments; api->args advances past it. */
static const char *inline_name(struct api_record *api, size_t *bytes)
{
	struct pfw_arg arg;
	const char *at = api->args;

	memcpy(&arg, at, sizeof(arg));
	api->args = at + sizeof(arg) + arg.value_bytes;
	api->args_bytes -= sizeof(arg) + arg.value_bytes;
	*bytes = arg.value_bytes;
	return at + sizeof(arg);
}

/* A span whose names found no room in the arena. */
static __attribute__((noinline)) void put_with_names(struct api_record *api)
{
	api->name_ref = api->category_ref = 0;
	api->name = inline_name(api, &api->name_bytes);
	api->category = inline_name(api, &api->category_bytes);
	put_record(api);
}

static void put_span(struct api_record *api)
{
	if (PFW_LIKELY(api->name_ref && api->category_ref))
		put_record(api);
	else
		put_with_names(api);
}

/* Append how many arguments were cut. */
static __attribute__((noinline)) void put_cut(struct pfw_span *span, struct api_record *api)
{
	static const char key[] = "args_cut";
	struct pfw_arg arg = { sizeof(key) - 1, PFW_TYPE_I64, 0, sizeof(int64_t) };
	int64_t cut = (int64_t)(span->state[PFW_SPAN_ARGS] >> 32);
	unsigned char more[sizeof(arg) + sizeof(key) + sizeof(cut)];

	api->more_args = more;
	api->more_bytes = put_arg(more, &arg, key, &cut);
	put_span(api);
}

/* End a span that has arguments, or a name without a reference. */
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
	if (on() && live == atomic_load_explicit(&pfw_switches->born, memory_order_relaxed)) {
		/* A name without a reference is stored among the arguments. */
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
	return atomic_load_explicit(&pfw_switches->api, memory_order_relaxed) ? pfw_thread.span : 0;
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
