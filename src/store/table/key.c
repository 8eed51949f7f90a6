/* store/table/key.c - the key of a row: its head and its fields; see key.h. */
#include "store/table/key.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "common/encode/text.h"
#include "store/line/step_name.h"

int pfw_table_key_init(struct pfw_table_key *key)
{
	*key = (struct pfw_table_key){ .room = 2 * PFW_TABLE_TEXT_MAX };
	key->text = malloc(key->room);
	key->field = malloc(PFW_TABLE_TEXT_MAX);
	if (key->text && key->field)
		return 0;
	pfw_table_key_release(key);
	return -ENOMEM;
}

void pfw_table_key_release(struct pfw_table_key *key)
{
	free(key->text);
	free(key->field);
}

void pfw_table_key_begin(struct pfw_table_key *key, const struct pfw_table_line *line)
{
	key->text[0] = (char)line->section;
	key->text[1] = (char)line->device;
	key->text[2] = line->annotation;
	key->bytes = PFW_TABLE_KEY_HEAD;
}

int pfw_table_key_text(struct pfw_table_key *key, const char *text, size_t bytes)
{
	uint32_t length = (uint32_t)bytes;

	if (key->room - key->bytes < bytes + sizeof(length)) {
		char *more = realloc(key->text, key->room * 2);

		if (!more)
			return -ENOMEM;
		key->text = more;
		key->room *= 2;
	}
	memcpy(key->text + key->bytes, &length, sizeof(length));
	memcpy(key->text + key->bytes + sizeof(length), text, bytes);
	key->bytes += sizeof(length) + bytes;
	return 0;
}

int pfw_table_key_slice(struct pfw_table_key *key, const struct pfw_slice *text)
{
	if (!text->escaped && text->bytes < PFW_TABLE_TEXT_MAX)
		return pfw_table_key_text(key, text->at ? text->at : "", text->bytes);
	return pfw_table_key_text(key, key->field,
				  pfw_slice_decode(text, key->field, PFW_TABLE_TEXT_MAX));
}

int pfw_table_key_number(struct pfw_table_key *key, int64_t number)
{
	char text[64]; /* pfw_append_i64() writes beyond the end */

	return pfw_table_key_text(key, text, (size_t)(pfw_append_i64(text, number) - text));
}

int pfw_table_key_name(struct pfw_table_key *key, const struct pfw_table_line *line)
{
	uint64_t number;

	if (!pfw_slice_is(&line->cat, "POSIX") &&
	    pfw_is_step_name(line->name.at, line->name.bytes, &number))
		return pfw_table_key_text(key, "ProfilerStep*", 13);
	return pfw_table_key_slice(key, &line->name);
}

int pfw_table_key_shapes(struct pfw_table_key *key, const struct pfw_table_line *line)
{
	const struct pfw_slice *shapes = &line->shapes;
	size_t used = 0;

	if (!shapes->at)
		return pfw_table_key_text(key, "[]", 2);
	if (line->shapes_text)
		return pfw_table_key_slice(key, shapes);
	for (size_t i = 0; i < shapes->bytes && used < PFW_TABLE_TEXT_MAX - 2; i++) {
		if (shapes->at[i] == ' ')
			continue;
		key->field[used++] = shapes->at[i];
		if (shapes->at[i] == ',')
			key->field[used++] = ' ';
	}
	return pfw_table_key_text(key, key->field, used);
}

const char *pfw_table_key_field(const char *key, unsigned n, size_t *bytes)
{
	const char *at = key + PFW_TABLE_KEY_HEAD;
	uint32_t length;

	for (;; n--) {
		memcpy(&length, at, sizeof(length));
		at += sizeof(length);
		if (!n)
			break;
		at += length;
	}
	*bytes = length;
	return at;
}
