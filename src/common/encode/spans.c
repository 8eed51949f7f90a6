/* common/encode/spans.c - lines of the program's spans and of compute events. */
#include <string.h>

#include "common/encode/frame.h"
#include "common/encode/shapes.h"

#define ARGS_ROOM 256u /* the longest number with its surroundings */

/* The keys of PP args with their commas and colons, in the order of the mask's bits. */
struct pp_key {
	char text[30];
	uint8_t bytes;
	uint8_t type;
};

static const struct pp_key pp_keys[PFW_PP_BITS] = {
#define X(name, kind) { ",\"" #name "\":", sizeof(",\"" #name "\":") - 1, PFW_TYPE_##kind },
	PFW_PP_FIELDS(X)
#undef X
};
_Static_assert(sizeof(struct pp_key) == 32, "a key is copied as 32 bytes");

/* ---- the program's spans ---- */

/* Whether the arguments from `at` on have one of this key: the last one counts, as a key of JSON has one value. */
static bool is_given_again(const char *tail, size_t at, size_t end, const char *key, size_t bytes)
{
	struct pfw_arg arg;

	while (end - at >= sizeof(arg)) {
		memcpy(&arg, tail + at, sizeof(arg));
		at += sizeof(arg);
		if (end - at < (size_t)arg.key_bytes + arg.value_bytes)
			return false;
		if (arg.key_bytes == bytes && memcmp(tail + at, key, bytes) == 0)
			return true;
		at += (size_t)arg.key_bytes + arg.value_bytes;
	}
	return false;
}

/* Append the arguments of a blob, or only those that are numbers. */
static char *put_blob(struct pfw_json_source *source, char *out, size_t at, size_t end,
		      bool numbers)
{
	struct pfw_arg arg;
	uint64_t value;

	for (; out && at < end; at += arg.value_bytes) {
		const char *key;

		if (end - at < sizeof(arg) || ARGS_ROOM > (size_t)(source->limit - out))
			return NULL;
		memcpy(&arg, source->tail + at, sizeof(arg));
		at += sizeof(arg);
		if (end - at < (size_t)arg.key_bytes + arg.value_bytes)
			return NULL;
		key = source->tail + at;
		at += arg.key_bytes;
		if (numbers && (arg.type < PFW_TYPE_I64 || arg.type > PFW_TYPE_F64))
			continue;
		if (is_given_again(source->tail, at + arg.value_bytes, end, key, arg.key_bytes))
			continue;
		out = pfw_json_put_string(pfw_json_put_comma(out), source->limit, key,
					  arg.key_bytes, NULL);
		if (!out)
			return NULL;
		*out++ = ':';
		if (pfw_json_is_text(arg.type)) {
			size_t text_at = at;

			out = pfw_json_put_tail(source, out, arg.type, arg.value_bytes, &text_at);
		} else if (arg.value_bytes == 8 && arg.type >= PFW_TYPE_I64 &&
			   arg.type <= PFW_TYPE_BOOL) {
			memcpy(&value, source->tail + at, 8);
			out = pfw_json_put_word(out, arg.type, value);
		} else {
			return NULL;
		}
	}
	return out;
}

/* Append name or category: the string of ref, else `bytes` bytes of the tail, else `otherwise`. */
static char *put_title(struct pfw_json_source *source, char *out, uint32_t ref, size_t at,
		       size_t bytes, const char *otherwise)
{
	const struct pfw_json_memo *memo = pfw_json_memo_slot(source->json->cache, ref);

	if (PFW_LIKELY(ref && memo->ref == ref))
		return pfw_json_put_memo(out, memo);
	if (ref || !bytes)
		return pfw_json_put_ref(source, out, ref, otherwise);
	return pfw_json_put_string(out, source->limit, source->tail + at, bytes, NULL);
}

char *pfw_json_api_line(struct pfw_json_source *source, char *out, struct pfw_json_shape *shape)
{
	const struct pfw_record *record = source->record;
	struct pfw_json *json = source->json;
	uint32_t name = (uint32_t)record->value[0], category = (uint32_t)(record->value[0] >> 32);
	size_t name_bytes = name ? 0 : record->file & 0xffff;
	size_t titles = name_bytes + (category ? 0 : record->file >> 16);
	uint64_t blob = record->value[3];
	bool counter = record->flags & PFW_RECORD_COUNTER;
	struct pfw_json_times times;

	if (titles > source->tail_bytes || blob > source->tail_bytes - titles)
		return NULL;
	times = pfw_json_times_of(json, record);
	out = pfw_append(pfw_json_put_id(json, out), ",\"name\":");
	out = put_title(source, out, name, 0, name_bytes, "\"(unknown)\"");
	if (!out)
		return NULL;
	out = pfw_append(out, ",\"cat\":");
	out = put_title(source, out, category, name_bytes, titles - name_bytes,
			counter ? "\"COUNTER\"" : "\"app\"");
	if (!out)
		return NULL;
	out = pfw_json_put_when(source, pfw_json_put_prefix(out, shape), source->tid, &times);
	if (json->metadata && record->flags & PFW_RECORD_ANNOTATION && !counter)
		out = pfw_append(out, "\"kind\":\"annotation\"");
	if (json->metadata)
		out = put_blob(source, out, titles, titles + blob, counter);
	if (!out)
		return NULL;
	if (json->metadata && !(record->flags & (PFW_RECORD_INSTANT | PFW_RECORD_COUNTER))) {
		out = pfw_append_u64(pfw_append(pfw_json_put_comma(out), "\"span_id\":"),
				     record->value[1]);
		if (record->value[2])
			out = pfw_json_put_piece(out, &shape->piece[1], record->value[2]);
	}
	if (json->steps && json->metadata)
		out = pfw_json_put_step(json, out, record, false, false);
	return pfw_json_finish(json, out, &times);
}

/* ---- compute events ---- */

/* Decode a compute event; false if a length does not fit. */
static bool pp_read(const struct pfw_json_source *source, struct pfw_json_pp *pp)
{
	const struct pfw_record *record = source->record;
	size_t texts = (uint32_t)record->value[0] ? 0 : record->file;
	unsigned int index = PFW_PP_HEAD;
	uint64_t left;

	pp->mask = record->value[1];
	if (pp->mask >> PFW_PP_BITS)
		return false;
	for (left = pp->mask; left; left &= left - 1) {
		unsigned int bit = (unsigned int)__builtin_ctzll(left);
		uint64_t value;

		if (pfw_json_values_end(index + 1) > source->tail_bytes)
			return false;
		value = pfw_json_value(source, index++);
		pp->value[bit] = value;
		if (pfw_json_is_text(pp_keys[bit].type)) {
			if (value > source->tail_bytes)
				return false;
			texts += value;
		}
	}
	pp->bytes_at = pfw_json_values_end(index);
	return texts <= source->tail_bytes - pp->bytes_at;
}

/* Whether the line fits with all strings at their longest. */
static bool pp_has_room(const struct pfw_json_source *source)
{
	uint32_t name = (uint32_t)source->record->value[0], bytes = 0;

	if (pfw_json_memo_slot(source->json->cache, name)->ref != name)
		pfw_string_text(source->json->strings, name, &bytes);
	return PFW_JSON_STRING_ROOM(PFW_JSON_MEMO_BYTES + bytes + source->tail_bytes) +
		       2 * PFW_JSON_FIXED_ROOM <=
	       PFW_JSON_LINE_MAX;
}

static char *put_pp_args(struct pfw_json_source *source, const struct pfw_json_pp *pp, char *out,
			 size_t bytes_at)
{
	struct pfw_json_piece *pieces = source->json->cache->pp;
	char *brace = --out; /* the comma of the first key overwrites the brace */
	uint64_t left;

	for (left = pp->mask; left; left &= left - 1) {
		unsigned int bit = (unsigned int)__builtin_ctzll(left);
		const struct pp_key *key = &pp_keys[bit];

		if (pfw_json_is_text(key->type)) {
			out = pfw_append_32(out, (const char *)key, key->bytes);
			out = pfw_json_put_tail(source, out, key->type, pp->value[bit], &bytes_at);
			if (!out)
				return NULL;
			continue;
		}
		if (PFW_UNLIKELY(!pieces[bit].key_bytes))
			pfw_json_make_piece(&pieces[bit], key->text, key->bytes, key->type);
		out = pfw_json_put_piece(out, &pieces[bit], pp->value[bit]);
	}
	if (source->record->flags & PFW_RECORD_WARMUP)
		out = pfw_append(out, ",\"phase\":\"warmup\"");
	else if (source->record->flags & PFW_RECORD_ACTIVE)
		out = pfw_append(out, ",\"phase\":\"active\"");
	if (out == brace)
		out++;
	*brace = '{';
	return out;
}

char *pfw_json_pp_line(struct pfw_json_source *source, char *out,
		       const struct pfw_json_shape *shape)
{
	const struct pfw_record *record = source->record;
	struct pfw_json *json = source->json;
	uint32_t name = (uint32_t)record->value[0], bytes = name ? 0 : record->file;
	uint64_t tid = source->tid;
	struct pfw_json_times times;
	struct pfw_json_pp pp;

	/* Check all of it first: a thread_name line must be followed by an event. */
	if (!pp_read(source, &pp) || !pp_has_room(source))
		return NULL;
	times = pfw_json_times_of(json, record);
	if (PFW_UNLIKELY(record->flags & PFW_RECORD_LANE_NAME))
		return pfw_json_name_lane(source, &pp, out, times.start_ns);
	out = pfw_json_pp_tid(source, &pp, out, &tid, times.start_ns);
	out = pfw_append(pfw_json_put_id(json, out), ",\"name\":");
	out = put_title(source, out, name, pp.bytes_at, bytes, "\"(unknown)\"");
	if (!out)
		return NULL;
	out = pfw_json_put_when(source, pfw_json_put_prefix(out, shape), tid, &times);
	if (json->metadata)
		out = put_pp_args(source, &pp, out, pp.bytes_at + bytes);
	if (out && json->steps && json->metadata)
		out = pfw_json_put_step(json, out, record, pp.mask & 1ull << PFW_PP_BIT_step,
					record->flags & (PFW_RECORD_WARMUP | PFW_RECORD_ACTIVE));
	return out ? pfw_json_finish(json, out, &times) : NULL;
}
