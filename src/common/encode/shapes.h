/* common/encode/shapes.h - ready text that the lines of a template share. */
#pragma once

#include "common/encode/internal.h"

/* Make the texts of a template, at its first record. */
void pfw_json_make_shape(struct pfw_json *json, uint32_t index);

/* Make a piece of a key with its comma and colon, unless key or type do not suit a piece. */
void pfw_json_make_piece(struct pfw_json_piece *piece, const char *key, size_t key_bytes,
			 unsigned int type);
/* Append a value that is not the piece's; store its text if it comes a second time. */
char *pfw_json_new_piece(char *out, struct pfw_json_piece *piece, uint64_t value);

/* Append `,"key":VALUE` from a piece. */
static inline char *pfw_json_put_piece(char *out, struct pfw_json_piece *piece, uint64_t value)
{
	if (PFW_UNLIKELY(value != piece->value)) {
		out = pfw_append_32(out, piece->text, piece->key_bytes);
		/* I64 and U64 have the same digits unless negative. */
		if (PFW_LIKELY(value != piece->seen && piece->type <= PFW_TYPE_U64 &&
			       value <= INT64_MAX)) {
			piece->seen = value;
			return pfw_append_u64(out, value);
		}
		return pfw_json_new_piece(out, piece, value);
	}
	memcpy(out, piece->text, 32);
	if (PFW_UNLIKELY(piece->bytes > 32))
		memcpy(out + 32, piece->text + 32, PFW_JSON_PIECE_BYTES - 32);
	return out + piece->bytes;
}

static inline char *pfw_json_put_prefix(char *out, const struct pfw_json_shape *shape)
{
	memcpy(out, shape->prefix, 64);
	if (PFW_UNLIKELY(shape->prefix_bytes > 64))
		memcpy(out + 64, shape->prefix + 64, sizeof(shape->prefix) - 64);
	return out + shape->prefix_bytes;
}
