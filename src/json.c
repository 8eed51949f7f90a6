/* json.c - records to lines: one call a record, everything that repeats kept as ready text.
 *
 * A line is put together from pieces copied at fixed sizes (they write ahead of their end, into the
 * caller's slack) and a few numbers.  Nothing in a record is believed: it may come from the spool of
 * a process that was killed, or from a file that somebody made up.
 */
#include "json.h"

#include <string.h>

#include "json_line.h"

#define TAIL_MAX ((PFW_RECORD_SLOTS_MAX - 1) * PFW_SLOT_BYTES)

/* ---- what templates say ---- */

static void make_key(struct pfw_json_key *text, const struct pfw_key *key)
{
	char *out = pfw_text_put(text->text, ",");
	size_t bytes = strnlen(key->name, sizeof(key->name));

	/* 23 bytes of six characters each: 141 at most, and the escape writes 8 ahead. */
	out = pfw_json_string(out, key->name, bytes, NULL);
	*out++ = ':';
	text->type = key->type;
	text->bytes = (uint8_t)(out - text->text);
}

/* From behind the id to the tid: what all lines of a template have in common. */
static void make_prefix(struct pfw_json_shape *shape, const struct pfw_template *template,
			uint64_t pid)
{
	char *out = shape->prefix;

	if (template->shape == PFW_SHAPE_CALL) {
		out = pfw_text_put(out, ",\"name\":");
		out = pfw_json_string(out, template->name,
				      strnlen(template->name, sizeof(template->name)), NULL);
		out = pfw_text_put(out, ",\"cat\":");
		out = pfw_json_string(out, template->category,
				      strnlen(template->category, sizeof(template->category)),
				      NULL);
	} else if (template->shape == PFW_SHAPE_PP) {
		out = pfw_text_put(out, ",\"cat\":\"PP\"");
	}
	out = pfw_text_u64(pfw_text_put(out, ",\"pid\":"), pid);
	out = pfw_text_put(out, ",\"tid\":");
	shape->prefix_bytes = (uint16_t)(out - shape->prefix);
}

/* Make the text of a template that is seen for the first time. */
static __attribute__((noinline)) void make_shape(struct pfw_json *json, uint32_t index)
{
	const struct pfw_template_chunk *chunk = json->templates;
	const struct pfw_template *template = &chunk->template[index];
	struct pfw_json_shape *text = &json->cache->shape[index];
	uint32_t key_count = chunk->key_count < PFW_KEYS_MAX ? chunk->key_count : PFW_KEYS_MAX;
	unsigned int i;

	text->shape = PFW_SHAPE_COUNT;
	if (template->shape == PFW_SHAPE_NONE || template->shape >= PFW_SHAPE_COUNT ||
	    template->field_count > PFW_TEMPLATE_FIELDS)
		return;
	for (i = 0; i < template->field_count; i++) {
		uint8_t key = template->field[i];

		if (key >= key_count || !chunk->key[key].type ||
		    chunk->key[key].type >= PFW_TYPE_COUNT)
			return;
		text->piece[i + 1].key = key;
		if (!json->cache->key[key].bytes)
			make_key(&json->cache->key[key], &chunk->key[key]);
		pfw_json_make_piece(&text->piece[i + 1], json->cache->key[key].text,
				    json->cache->key[key].bytes, chunk->key[key].type);
	}
	pfw_json_make_piece(&text->piece[0], ",\"ret\":", 7, PFW_TYPE_I64);
	if (template->shape == PFW_SHAPE_API)
		pfw_json_make_piece(&text->piece[1], ",\"parent\":", 10, PFW_TYPE_U64);
	text->has_fd = template->shape == PFW_SHAPE_CALL && template->field_count &&
		       !strncmp(chunk->key[template->field[0]].name, "fd", 3) &&
		       text->piece[1].key_bytes;
	make_prefix(text, template, json->pid);
	text->field_count = template->field_count;
	text->shape = template->shape;
}

/* ---- what repeats from line to line ---- */

uint64_t pfw_json_epoch_ns(struct pfw_json *json, uint64_t ticks)
{
	struct pfw_clock_line *line = &json->cache->clock;

	pfw_clock_map_line(json->clock, ticks, line);
	return pfw_clock_line_ns(line, ticks);
}

bool pfw_json_new_ms(struct pfw_json_cache *cache, uint64_t ns)
{
	uint64_t ms = ns / PFW_JSON_MS;
	char *end = pfw_text_u64(cache->ms_text, ms);

	cache->ms_ns = ms ? ms * PFW_JSON_MS : PFW_JSON_NO_MS;
	cache->ms_bytes = (uint64_t)(end - cache->ms_text);
	return ms != 0;
}

void pfw_json_new_tid(struct pfw_json_cache *cache, uint64_t tid)
{
	char *end = pfw_text_put(pfw_text_u64(cache->tid_text, tid), ",\"ts\":");

	cache->tid = tid;
	cache->tid_bytes = (uint64_t)(end - cache->tid_text);
}

void pfw_json_new_id(struct pfw_json *json)
{
	struct pfw_json_cache *cache = json->cache;
	char *out = pfw_text_put(cache->id_text, "{\"id\":");

	cache->id = json->next_id;
	cache->id_bytes = (uint64_t)(pfw_text_u64(out, cache->id) - cache->id_text);
}

/* ---- intercepted calls ---- */

static __attribute__((noinline)) char *put_errno(char *out, int error)
{
	const char *name = pfw_errno_name(error);

	out = pfw_text_put(out, ",\"errno\":\"");
	if (name)
		out = stpcpy(out, name);
	else
		out = pfw_text_i64(out, error);
	*out++ = '"';
	return out;
}

/* A field that is no word, or has a key that is too long for a piece. */
static __attribute__((noinline)) char *put_field(struct pfw_json_source *source, char *out,
						 const struct pfw_json_piece *piece, uint64_t value,
						 size_t *bytes_at)
{
	const struct pfw_json_key *key = &source->json->cache->key[piece->key];

	memcpy(out, key->text, key->bytes);
	out += key->bytes;
	if (pfw_json_is_text(key->type))
		return pfw_json_put_tail(source, out, key->type, value, bytes_at);
	if (key->type == PFW_TYPE_REF)
		return pfw_json_put_ref(source, out, (uint32_t)value, "null");
	return pfw_json_put_word(out, key->type, value);
}

/* Append a name that stands in the tail, and move *bytes_at behind it. */
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

static inline char *put_call_args(struct pfw_json_source *source, char *out,
				  struct pfw_json_shape *shape)
{
	const struct pfw_record *record = source->record;
	struct pfw_json_piece *piece = shape->piece, *end = piece + shape->field_count;
	size_t bytes_at = pfw_json_values_end(1u + shape->field_count);
	unsigned int index = 1;

	out = put_fname(source, pfw_text_put(out, "\"fname\":"), &bytes_at);
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

	if (PFW_UNLIKELY(pfw_json_values_end(1u + shape->field_count) > source->tail_bytes))
		return NULL;
	times = pfw_json_times_of(json, source->record);
	out = pfw_json_put_prefix(pfw_json_put_id(json, out), shape);
	out = pfw_json_put_when(source, out, source->tid, &times);
	if (PFW_LIKELY(json->metadata))
		out = put_call_args(source, out, shape);
	if (PFW_UNLIKELY(json->steps != NULL) && json->metadata && out)
		out = pfw_json_put_step(json, out, source->record, 0);
	return PFW_LIKELY(out != NULL) ? pfw_json_finish(json, out, &times) : NULL;
}

static char *untraced_line(struct pfw_json_source *source, char *out)
{
	const struct pfw_record *record = source->record;
	struct pfw_json_times times = pfw_json_times_of(source->json, record);

	if (record->value[1] > source->tail_bytes)
		return NULL;
	out = pfw_json_begin(source->json, out, "untraced_child", "M", source->tid, times.start_ns);
	if (record->value[0])
		out = pfw_json_key_i64(out, "pid", (int64_t)record->value[0]);
	else
		out = pfw_text_put(out, "\"pid\":null");
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
	cache->id_text[0] = '9'; /* not to be counted up: made at the first line */
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
		make_shape(json, record->template);
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

/* ---- the tracer's own lines ---- */

char *pfw_json_begin(struct pfw_json *json, char *out, const char *name, const char *ph,
		     uint64_t tid, uint64_t epoch_ns)
{
	struct pfw_json_times times;

	epoch_ns = pfw_json_least(epoch_ns, INT64_MAX);
	times = (struct pfw_json_times){ epoch_ns, epoch_ns, false };
	json->cache->own_is_event = *ph != 'M';
	pfw_json_count_times(json, &times);
	out = pfw_text_put(pfw_json_put_id(json, out), ",\"name\":");
	out = pfw_json_string(out, name, strlen(name), NULL);
	out = pfw_text_put(out, ",\"cat\":\"pfw\",\"pid\":");
	out = pfw_text_u64(out, json->pid);
	out = pfw_text_put(out, ",\"tid\":");
	out = pfw_text_u64(out, json->disable_tids ? json->pid : tid);
	out = pfw_json_put_ts(json, pfw_text_put(out, ",\"ts\":"), epoch_ns);
	out = pfw_text_put(out, ",\"ph\":");
	out = pfw_json_string(out, ph, strlen(ph), NULL);
	return pfw_text_put(out, ",\"args\":{");
}

char *pfw_json_end(struct pfw_json *json, char *out)
{
	json->next_id++;
	json->events += json->cache->own_is_event;
	return pfw_text_put(out, "}}\n");
}

static char *put_own_key(char *out, const char *key)
{
	out = pfw_json_string(pfw_json_put_comma(out), key, strlen(key), NULL);
	*out++ = ':';
	return out;
}

char *pfw_json_key_u64(char *out, const char *key, uint64_t value)
{
	return pfw_text_u64(put_own_key(out, key), value);
}

char *pfw_json_key_i64(char *out, const char *key, int64_t value)
{
	return pfw_text_i64(put_own_key(out, key), value);
}

char *pfw_json_key_str(char *out, const char *key, const char *text, size_t bytes)
{
	return pfw_json_string(put_own_key(out, key), text, bytes, NULL);
}

char *pfw_json_key_fname(char *out, const char *text, size_t bytes)
{
	bool valid = true;

	out = put_own_key(out, "fname");
	if (!text)
		return pfw_text_put(out, "null");
	out = pfw_json_string(out, text, bytes, &valid);
	return valid ? out : pfw_text_base64(put_own_key(out, "fname_b64"), text, bytes);
}

char *pfw_json_key_us(char *out, const char *key, uint64_t ns)
{
	return pfw_text_us(put_own_key(out, key), ns);
}
