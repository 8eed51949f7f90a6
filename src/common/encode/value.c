/* common/encode/value.c - values as JSON: strings of the spool, kept escaped, and words by type. */
#include <string.h>

#include "common/base/names.h"
#include "common/encode/internal.h"

/* ---- strings ---- */

char *pfw_json_put_string(char *out, const char *limit, const char *text, size_t bytes, bool *valid)
{
	if (PFW_JSON_STRING_ROOM(bytes) > (size_t)(limit - out))
		return NULL;
	return pfw_json_string(out, text, bytes, valid);
}

/* Escape a string of the spool into its slot.  False: it is stale or too long. */
static bool memo_fill(struct pfw_json *json, struct pfw_json_memo *memo, uint32_t ref)
{
	char *out = json->cache->scratch, *end;
	uint32_t bytes = 0, again = 0;
	const char *text = pfw_string_text(json->strings, ref, &bytes);
	bool valid;

	if (!text || bytes > PFW_JSON_MEMO_BYTES - 2)
		return false;
	end = pfw_json_string(out, text, bytes, &valid);
	memo->bytes = (uint8_t)(end - out);
	if ((size_t)(end - out) > PFW_JSON_MEMO_BYTES)
		return false;
	if (!valid)
		end = pfw_append_base64(end, text, bytes);
	if ((size_t)(end - out) > PFW_JSON_MEMO_BYTES)
		return false;
	/* If the cell was freed and refilled meanwhile, the bytes are mixed. */
	if (pfw_string_text(json->strings, ref, &again) != text || again != bytes)
		return false;
	memo->b64_bytes = (uint8_t)(end - out - memo->bytes);
	memcpy(memo->text, out, PFW_JSON_MEMO_BYTES);
	memo->ref = ref;
	return true;
}

/* Escape the string of ref (not 0) into its slot; NULL if it is stale or too long to keep. */
static const struct pfw_json_memo *make_memo(struct pfw_json *json, uint32_t ref)
{
	struct pfw_json_memo *memo = pfw_json_memo_slot(json->cache, ref);

	memo->ref = 0; /* until the slot is complete */
	return memo_fill(json, memo, ref) ? memo : NULL;
}

static const struct pfw_json_memo *memo_of(struct pfw_json *json, uint32_t ref)
{
	struct pfw_json_memo *memo = pfw_json_memo_slot(json->cache, ref);

	if (!ref || memo->ref == ref)
		return ref ? memo : NULL;
	return make_memo(json, ref);
}

char *pfw_json_put_ref(struct pfw_json_source *source, char *out, uint32_t ref,
		       const char *otherwise)
{
	const struct pfw_json_memo *memo = memo_of(source->json, ref);
	const char *text;
	uint32_t bytes;

	if (memo)
		return pfw_json_put_memo(out, memo);
	text = pfw_string_text(source->json->strings, ref, &bytes);
	if (text)
		return pfw_json_put_string(out, source->limit, text, bytes, NULL);
	bytes = (uint32_t)strlen(otherwise);
	memcpy(out, otherwise, bytes);
	return out + bytes;
}

char *pfw_json_put_name(struct pfw_json_source *source, char *out, const char *text, size_t bytes)
{
	bool valid = true;

	out = pfw_json_put_string(out, source->limit, text, bytes, &valid);
	if (!out || valid)
		return out;
	if (PFW_JSON_STRING_ROOM(bytes) > (size_t)(source->limit - out))
		return NULL;
	out = pfw_append(out, ",\"fname_b64\":");
	return pfw_append_base64(out, text, bytes);
}

char *pfw_json_put_name_ref(struct pfw_json_source *source, char *out, uint32_t ref)
{
	const struct pfw_json_memo *memo = memo_of(source->json, ref);
	const char *text;
	uint32_t bytes;

	if (memo) {
		out = pfw_json_put_memo(out, memo);
		if (!memo->b64_bytes)
			return out;
		out = pfw_append(out, ",\"fname_b64\":");
		memcpy(out, memo->text + memo->bytes, memo->b64_bytes);
		return out + memo->b64_bytes;
	}
	text = pfw_string_text(source->json->strings, ref, &bytes);
	if (text)
		return pfw_json_put_name(source, out, text, bytes);
	return pfw_append(out, "null");
}

/* ---- values ---- */

/* Copy a JSON value with its line ends replaced; write any other text as a string. */
static char *put_json(char *out, const char *text, size_t bytes)
{
	size_t i;

	if (!pfw_json_valid(text, bytes))
		return pfw_json_string(out, text, bytes, NULL);
	/* A line end is white space here: JSON strings have none. */
	for (i = 0; i < bytes; i++)
		out[i] = text[i] == '\n' || text[i] == '\r' ? ' ' : text[i];
	return out + bytes;
}

static char *put_dims(char *out, uint64_t value)
{
	*out++ = '[';
	out = pfw_append_u64(out, value & 0x7fffffff);
	*out++ = ',';
	out = pfw_append_u64(out, value >> 31 & 0xffff);
	*out++ = ',';
	out = pfw_append_u64(out, value >> 47 & 0xffff);
	*out++ = ']';
	return out;
}

static char *put_kind(char *out, uint64_t kind)
{
	const char *name = pfw_kind_name(kind);

	*out++ = '"';
	if (name)
		out = stpcpy(out, name);
	else
		out = pfw_append_u64(out, kind); /* a kind of a later version */
	*out++ = '"';
	return out;
}

char *pfw_json_put_word(char *out, unsigned int type, uint64_t value)
{
	switch (type) {
	case PFW_TYPE_U64:
		return pfw_append_u64(out, value);
	case PFW_TYPE_I64:
		return pfw_append_i64(out, (int64_t)value);
	case PFW_TYPE_SOME:
		return pfw_append_u64(out, value - 1);
	case PFW_TYPE_F64:
		return pfw_append_f64(out, value);
	case PFW_TYPE_BOOL:
		return value ? pfw_append(out, "true") : pfw_append(out, "false");
	case PFW_TYPE_DIM3:
		return put_dims(out, value);
	case PFW_TYPE_KIND:
		return put_kind(out, value);
	default:
		if (type < PFW_TYPE_NAMES)
			return pfw_append(out, "null");
		*out++ = '"';
		out = pfw_arg_names(out, type - PFW_TYPE_NAMES, value);
		*out++ = '"';
		return out;
	}
}

char *pfw_json_put_tail(struct pfw_json_source *source, char *out, unsigned int type,
			uint64_t value, size_t *bytes_at)
{
	const char *text = source->tail + *bytes_at;

	if (value > source->tail_bytes - *bytes_at ||
	    PFW_JSON_STRING_ROOM(value) > (size_t)(source->limit - out))
		return NULL;
	*bytes_at += value;
	if (type == PFW_TYPE_JSON)
		return put_json(out, text, value);
	return pfw_json_string(out, text, value, NULL);
}
