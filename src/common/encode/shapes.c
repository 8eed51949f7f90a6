/* common/encode/shapes.c - ready text that the lines of a template share; see shapes.h. */
#include "common/encode/shapes.h"

#include <string.h>

/* ---- pieces ---- */

char *pfw_json_new_piece(char *out, struct pfw_json_piece *piece, uint64_t value)
{
	char *end = pfw_json_put_word(out, piece->type, value);
	size_t bytes = (size_t)(end - out);

	if (value == piece->seen && piece->key_bytes + bytes <= PFW_JSON_PIECE_BYTES) {
		memcpy(piece->text + piece->key_bytes, out, bytes);
		piece->bytes = (uint8_t)(piece->key_bytes + bytes);
		piece->value = value;
	}
	piece->seen = value;
	return end;
}

void pfw_json_make_piece(struct pfw_json_piece *piece, const char *key, size_t key_bytes,
			 unsigned int type)
{
	char text[64]; /* of 0, which is short */

	if (key_bytes > 32 || pfw_json_is_text(type) || type == PFW_TYPE_REF ||
	    type == PFW_TYPE_SOME)
		return;
	memcpy(piece->text, key, key_bytes);
	piece->key_bytes = (uint8_t)key_bytes;
	piece->type = (uint8_t)type;
	pfw_json_new_piece(text, piece, 0);
}

/* ---- templates ---- */

static void make_key(struct pfw_json_key *text, const struct pfw_key *key)
{
	char *out = pfw_append(text->text, ",");
	size_t bytes = strnlen(key->name, sizeof(key->name));

	/* At most 23 bytes of six characters each, 141 in all; the escape writes 8 past the end. */
	out = pfw_json_string(out, key->name, bytes, NULL);
	*out++ = ':';
	text->type = key->type;
	text->bytes = (uint8_t)(out - text->text);
}

/* The text after the id up to the tid. */
static void make_prefix(struct pfw_json_shape *shape, const struct pfw_template *template,
			uint64_t pid)
{
	char *out = shape->prefix;

	if (template->shape == PFW_SHAPE_CALL) {
		out = pfw_append(out, ",\"name\":");
		out = pfw_json_string(out, template->name,
				      strnlen(template->name, sizeof(template->name)), NULL);
		out = pfw_append(out, ",\"cat\":");
		out = pfw_json_string(out, template->category,
				      strnlen(template->category, sizeof(template->category)),
				      NULL);
	} else if (template->shape == PFW_SHAPE_PP) {
		out = pfw_append(out, ",\"cat\":\"PP\"");
	}
	out = pfw_append_u64(pfw_append(out, ",\"pid\":"), pid);
	out = pfw_append(out, ",\"tid\":");
	shape->prefix_bytes = (uint16_t)(out - shape->prefix);
}

void pfw_json_make_shape(struct pfw_json *json, uint32_t index)
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
