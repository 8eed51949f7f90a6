/* common/encode/encode.c - takes a record, and makes the lines of intercepted calls; see encode.h.
 *
 * A line is made of ready texts, copied at fixed sizes that may extend into the caller's slack, and
 * a few numbers.  Every length in a record is checked, since a spool may be damaged or forged.
 */
#include "common/encode/encode.h"

#include <string.h>

#include "common/base/names.h"
#include "common/encode/frame.h"
#include "common/encode/shapes.h"

#define TAIL_MAX ((PFW_RECORD_SLOTS_MAX - 1) * PFW_SLOT_BYTES)

/* ---- intercepted calls ---- */

static __attribute__((noinline)) char *put_errno(char *out, int error)
{
	const char *name = pfw_errno_name(error);

	out = pfw_append(out, ",\"errno\":\"");
	if (name)
		out = stpcpy(out, name);
	else
		out = pfw_append_i64(out, error);
	*out++ = '"';
	return out;
}

/* Append a field that is not one word, may be left out, or has a key too long for a piece. */
static __attribute__((noinline)) char *put_field(struct pfw_json_source *source, char *out,
						 const struct pfw_json_piece *piece, uint64_t value,
						 size_t *bytes_at)
{
	const struct pfw_json_key *key = &source->json->cache->key[piece->key];

	if (key->type == PFW_TYPE_SOME && !value)
		return out;
	memcpy(out, key->text, key->bytes);
	out += key->bytes;
	if (pfw_json_is_text(key->type))
		return pfw_json_put_tail(source, out, key->type, value, bytes_at);
	if (key->type == PFW_TYPE_REF)
		return pfw_json_put_ref(source, out, (uint32_t)value, "null");
	return pfw_json_put_word(out, key->type, value);
}

/* Append a name from the tail, and advance *bytes_at past it. */
static __attribute__((noinline)) char *put_inline_name(struct pfw_json_source *source, char *out,
						       size_t *bytes_at)
{
	const char *text = source->tail + *bytes_at;
	uint32_t bytes = source->record->file;

	if (bytes > source->tail_bytes - *bytes_at)
		return NULL;
	*bytes_at += bytes;
	return pfw_json_put_name(source, out, text, bytes);
}

static inline char *put_fname(struct pfw_json_source *source, char *out, size_t *bytes_at)
{
	uint32_t ref = source->record->file;
	const struct pfw_json_memo *memo = pfw_json_memo_slot(source->json->cache, ref);

	if (PFW_UNLIKELY(source->record->flags & PFW_RECORD_NAME_INLINE))
		return put_inline_name(source, out, bytes_at);
	if (PFW_LIKELY(memo->ref == ref && memo->bytes && !memo->b64_bytes))
		return pfw_json_put_memo(out, memo);
	return pfw_json_put_name_ref(source, out, ref);
}

/* The number of a call's stack, the last part of its tail; 0 = the tail is too short. */
static __attribute__((noinline)) uint32_t stack_of(const struct pfw_json_source *source,
						   const struct pfw_json_shape *shape)
{
	size_t at = pfw_json_values_end(1u + shape->field_count);
	uint32_t stack = 0;

	if (source->record->flags & PFW_RECORD_NAME_INLINE)
		at += source->record->file;
	for (unsigned i = 1; i <= shape->field_count; i++)
		if (pfw_json_is_text(source->json->cache->key[shape->piece[i].key].type) &&
		    at <= source->tail_bytes)
			at += pfw_json_value(source, i);
	if (at <= source->tail_bytes && source->tail_bytes - at >= sizeof(stack))
		memcpy(&stack, source->tail + at, sizeof(stack));
	return stack;
}

static inline char *put_call_args(struct pfw_json_source *source, char *out,
				  struct pfw_json_shape *shape)
{
	const struct pfw_record *record = source->record;
	struct pfw_json_piece *piece = shape->piece, *end = piece + shape->field_count;
	size_t bytes_at = pfw_json_values_end(1u + shape->field_count);
	unsigned int index = 1;

	out = put_fname(source, pfw_append(out, "\"fname\":"), &bytes_at);
	if (PFW_UNLIKELY(!out))
		return NULL;
	if (shape->has_fd && !(record->flags & PFW_RECORD_NO_FD))
		out = pfw_json_put_piece(out, piece + 1, record->value[1]);
	if (!(record->flags & PFW_RECORD_NO_RET))
		out = pfw_json_put_piece(out, piece, record->value[0]);
	if (PFW_UNLIKELY(record->error))
		out = put_errno(out, record->error);
	piece += shape->has_fd;
	for (index += shape->has_fd; piece++ < end; index++) {
		uint64_t value = pfw_json_value(source, index);

		if (PFW_LIKELY(piece->key_bytes)) {
			out = pfw_json_put_piece(out, piece, value);
			continue;
		}
		out = put_field(source, out, piece, value, &bytes_at);
		if (!out)
			return NULL;
	}
	return out;
}

static inline char *call_line(struct pfw_json_source *source, char *out,
			      struct pfw_json_shape *shape)
{
	struct pfw_json *json = source->json;
	struct pfw_json_times times;
	uint32_t stack = 0;

	if (PFW_UNLIKELY(pfw_json_values_end(1u + shape->field_count) > source->tail_bytes))
		return NULL;
	times = pfw_json_times_of(json, source->record);
	if (PFW_UNLIKELY(source->record->flags & PFW_RECORD_STACK) && json->metadata) {
		stack = stack_of(source, shape);
		out = pfw_json_put_modules(source, out, stack, times.start_ns);
	}
	out = pfw_json_put_prefix(pfw_json_put_id(json, out), shape);
	out = pfw_json_put_when(source, out, source->tid, &times);
	if (PFW_LIKELY(json->metadata))
		out = put_call_args(source, out, shape);
	if (PFW_UNLIKELY(source->record->flags & PFW_RECORD_STACK) && json->metadata && out)
		out = pfw_json_put_stack(source, out, stack);
	if (PFW_UNLIKELY(json->steps != NULL) && json->metadata && out)
		out = pfw_json_put_step(json, out, source->record, false, false);
	return PFW_LIKELY(out != NULL) ? pfw_json_finish(json, out, &times) : NULL;
}

static char *untraced_line(struct pfw_json_source *source, char *out)
{
	const struct pfw_record *record = source->record;
	struct pfw_json_times times = pfw_json_times_of(source->json, record);

	if (record->value[1] > source->tail_bytes)
		return NULL;
	source->json->untraced++;
	out = pfw_json_begin(source->json, out, "untraced_child", "M", source->tid, times.start_ns);
	if (record->value[0])
		out = pfw_json_key_i64(out, "pid", (int64_t)record->value[0]);
	else
		out = pfw_append(out, "\"pid\":null");
	out = pfw_json_key_str(out, "why", source->tail, record->value[1]);
	return pfw_json_end(source->json, out);
}

/* ---- all of them ---- */

size_t pfw_json_cache_bytes(uint32_t template_count)
{
	return sizeof(struct pfw_json_cache) + template_count * sizeof(struct pfw_json_shape);
}

void pfw_json_init(struct pfw_json *json, void *cache_memory)
{
	struct pfw_json_cache *cache = cache_memory;

	json->cache = cache;
	cache->template_count = json->templates->template_count;
	cache->id_text[0] = '9'; /* so that the first line makes the text */
	cache->id_bytes = 1;
	cache->ms_ns = PFW_JSON_NO_MS;
	pfw_json_new_tid(cache, json->pid);
	pfw_json_window(json);
}

void pfw_json_window(struct pfw_json *json)
{
	json->least_ns = UINT64_MAX;
	json->greatest_ns = 0;
	json->lines = 0;
}

char *pfw_json_record(struct pfw_json *json, char *out, const struct pfw_record *record,
		      const void *tail, size_t tail_bytes, uint64_t tid)
{
	struct pfw_json_source source = {
		json, record, tail, tail_bytes, out + PFW_JSON_LINE_MAX - PFW_JSON_FIXED_ROOM, tid
	};
	struct pfw_json_cache *cache = json->cache;
	struct pfw_json_shape *shape;

	if (PFW_UNLIKELY(record->template >= cache->template_count || tail_bytes > TAIL_MAX))
		return NULL;
	shape = &cache->shape[record->template];
	if (PFW_LIKELY(shape->shape == PFW_SHAPE_CALL))
		return call_line(&source, out, shape);
	if (shape->shape == PFW_SHAPE_NONE) {
		pfw_json_make_shape(json, record->template);
		return pfw_json_record(json, out, record, tail, tail_bytes, tid);
	}
	if (shape->shape == PFW_SHAPE_API)
		return pfw_json_api_line(&source, out, shape);
	if (shape->shape == PFW_SHAPE_PP)
		return pfw_json_pp_line(&source, out, shape);
	if (shape->shape == PFW_SHAPE_UNTRACED)
		return untraced_line(&source, out);
	return NULL;
}

/* The begin of the n-th step in the record's unit of time. */
static uint64_t began(struct pfw_json *json, const struct pfw_record *record, uint64_t n)
{
	const struct pfw_step_mark *mark = &json->steps->mark[n & (PFW_STEP_MARKS - 1)];
	uint64_t ticks = atomic_load_explicit(&mark->ticks, memory_order_relaxed);

	return record->flags & PFW_RECORD_EPOCH_NS ? pfw_json_epoch_ns(json, ticks) : ticks;
}

/* The step and phase of a record: `step << 2 | phase`, 0 = none.  Records are nearly in order, so
 * the search starts at the mark found last.  The program may overwrite the oldest marks meanwhile:
 * the result counts only if its mark is still kept afterwards. */
static uint64_t step_of(struct pfw_json *json, const struct pfw_record *record)
{
	const struct pfw_steps_chunk *steps = json->steps;
	uint64_t head = atomic_load_explicit(&steps->head, memory_order_acquire), n, word;
	uint64_t oldest = head > PFW_STEP_MARKS - 1 ? head - (PFW_STEP_MARKS - 1) : 0;

	if (!head)
		return 0;
	n = json->step_hint < oldest ? oldest : json->step_hint < head ? json->step_hint : head - 1;
	while (n + 1 < head && began(json, record, n + 1) <= record->t0)
		n++;
	while (n > oldest && began(json, record, n) > record->t0)
		n--;
	json->step_hint = n;
	if (began(json, record, n) > record->t0)
		return 0;
	word = atomic_load_explicit(&steps->mark[n & (PFW_STEP_MARKS - 1)].step,
				    memory_order_relaxed);
	/* Pairs with the release of head: if the mark was being overwritten, head shows it. */
	atomic_thread_fence(memory_order_acquire);
	head = atomic_load_explicit(&steps->head, memory_order_relaxed);
	return head - n < PFW_STEP_MARKS ? word : 0;
}

char *pfw_json_put_step(struct pfw_json *json, char *out, const struct pfw_record *record,
			bool has_step, bool has_phase)
{
	uint64_t word = step_of(json, record);

	if (!(word & 3) || (record->flags & PFW_RECORD_COUNTER))
		return out;
	if (!has_step)
		out = pfw_append_u64(pfw_append(pfw_json_put_comma(out), "\"step\":"), word >> 2);
	if (has_phase)
		return out;
	return pfw_append(pfw_json_put_comma(out),
			  (word & 3) == 1 ? "\"phase\":\"warmup\"" : "\"phase\":\"active\"");
}
