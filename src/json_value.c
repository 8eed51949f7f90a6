/* json_value.c - strings of the spool, kept escaped, and values that are not plain numbers. */
#include <string.h>

#include "json_line.h"

/* ---- strings ---- */

const char *pfw_string_text(const struct pfw_string_view *view, uint32_t ref, uint32_t *bytes)
{
	const char *segment = view->segment[(ref & 0xffff) >> 12];
	uint32_t offset = (ref & 4095) * PFW_STRING_GRANULE;
	const struct pfw_string *string;
	uint32_t generation;

	if (!ref || !segment || offset < sizeof(struct pfw_chunk))
		return NULL;
	if (offset + sizeof(*string) > PFW_STRING_SEGMENT_BYTES)
		return NULL;
	string = (const struct pfw_string *)(segment + offset);
	/* Pairs with the release store of whoever filled or freed the cell. */
	generation = atomic_load_explicit(&string->generation, memory_order_acquire);
	if (generation != ref >> 16 || !(generation & 1))
		return NULL;
	*bytes = string->bytes;
	if (offset + sizeof(*string) + *bytes > PFW_STRING_SEGMENT_BYTES)
		return NULL;
	return string->text;
}

char *pfw_json_put_string(char *out, const char *limit, const char *text, size_t bytes, bool *valid)
{
	if (PFW_JSON_STRING_ROOM(bytes) > (size_t)(limit - out))
		return NULL;
	return pfw_json_string(out, text, bytes, valid);
}

/* Escape a string of the spool into its slot.  Return false where it is stale or too long. */
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
		end = pfw_text_base64(end, text, bytes);
	if ((size_t)(end - out) > PFW_JSON_MEMO_BYTES)
		return false;
	/* The cell may have been freed and filled anew meanwhile: then these are mixed bytes. */
	if (pfw_string_text(json->strings, ref, &again) != text || again != bytes)
		return false;
	memo->b64_bytes = (uint8_t)(end - out - memo->bytes);
	memcpy(memo->text, out, PFW_JSON_MEMO_BYTES);
	memo->ref = ref;
	return true;
}

const struct pfw_json_memo *pfw_json_make_memo(struct pfw_json *json, uint32_t ref)
{
	struct pfw_json_memo *memo = pfw_json_memo_slot(json->cache, ref);

	memo->ref = 0; /* until it is whole */
	return memo_fill(json, memo, ref) ? memo : NULL;
}

static const struct pfw_json_memo *memo_of(struct pfw_json *json, uint32_t ref)
{
	struct pfw_json_memo *memo = pfw_json_memo_slot(json->cache, ref);

	if (!ref || memo->ref == ref)
		return ref ? memo : NULL;
	return pfw_json_make_memo(json, ref);
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
	out = pfw_text_put(out, ",\"fname_b64\":");
	return pfw_text_base64(out, text, bytes);
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
		out = pfw_text_put(out, ",\"fname_b64\":");
		memcpy(out, memo->text + memo->bytes, memo->b64_bytes);
		return out + memo->b64_bytes;
	}
	text = pfw_string_text(source->json->strings, ref, &bytes);
	if (text)
		return pfw_json_put_name(source, out, text, bytes);
	return pfw_text_put(out, "null");
}

/* ---- values ---- */

/* Text that is one JSON value stands as it is, on one line; anything else as a string. */
static char *put_json(char *out, const char *text, size_t bytes)
{
	size_t i;

	if (!pfw_json_valid(text, bytes))
		return pfw_json_string(out, text, bytes, NULL);
	/* A line end can only be white space here: within a string it would not be JSON. */
	for (i = 0; i < bytes; i++)
		out[i] = text[i] == '\n' || text[i] == '\r' ? ' ' : text[i];
	return out + bytes;
}

static char *put_dim3(char *out, uint64_t value)
{
	*out++ = '[';
	out = pfw_text_u64(out, value & 0x7fffffff);
	*out++ = ',';
	out = pfw_text_u64(out, value >> 31 & 0xffff);
	*out++ = ',';
	out = pfw_text_u64(out, value >> 47 & 0xffff);
	*out++ = ']';
	return out;
}

/* The ones at the end say nothing: most kernels have one dimension. */
static char *put_dims(char *out, uint64_t value)
{
	uint64_t y = value >> 31 & 0xffff, z = value >> 47 & 0xffff;

	*out++ = '[';
	out = pfw_text_u64(out, value & 0x7fffffff);
	if (y != 1 || z != 1) {
		*out++ = ',';
		out = pfw_text_u64(out, y);
	}
	if (z != 1) {
		*out++ = ',';
		out = pfw_text_u64(out, z);
	}
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
		out = pfw_text_u64(out, kind); /* a later version's kind */
	*out++ = '"';
	return out;
}

char *pfw_json_put_word(char *out, unsigned int type, uint64_t value)
{
	switch (type) {
	case PFW_TYPE_U64:
		return pfw_text_u64(out, value);
	case PFW_TYPE_I64:
		return pfw_text_i64(out, (int64_t)value);
	case PFW_TYPE_F64:
		return pfw_text_f64(out, value);
	case PFW_TYPE_BOOL:
		return value ? pfw_text_put(out, "true") : pfw_text_put(out, "false");
	case PFW_TYPE_DIM3:
		return put_dim3(out, value);
	case PFW_JSON_DIMS:
		return put_dims(out, value);
	case PFW_TYPE_KIND:
		return put_kind(out, value);
	default:
		return pfw_text_put(out, "null");
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

/* ---- pieces ---- */

void pfw_json_fill_piece(struct pfw_json_piece *piece, uint64_t value)
{
	char text[64];
	size_t bytes = (size_t)(pfw_json_put_word(text, piece->type, value) - text);

	if (piece->key_bytes + bytes > PFW_JSON_PIECE_BYTES)
		return;
	memcpy(piece->text + piece->key_bytes, text, bytes);
	piece->bytes = (uint8_t)(piece->key_bytes + bytes);
	piece->value = value;
}

void pfw_json_make_piece(struct pfw_json_piece *piece, const char *key, size_t key_bytes,
			 unsigned int type)
{
	if (key_bytes > 32 || pfw_json_is_text(type) || type == PFW_TYPE_REF)
		return;
	memcpy(piece->text, key, key_bytes);
	piece->key_bytes = (uint8_t)key_bytes;
	piece->type = (uint8_t)type;
	pfw_json_fill_piece(piece, 0);
}
