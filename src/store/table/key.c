/* store/table/key.c - the key of a row: its head and its fields; see key.h. */
#include "store/table/key.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "common/encode/text.h"
#include "store/kit/grow.h"
#include "store/line/step_name.h"

void pfw_table_key_release(struct pfw_table_key *key)
{
	free(key->text);
}

/* Where so many more bytes are to be written; NULL: the key has failed. */
static inline char *append(struct pfw_table_key *key, size_t bytes)
{
	char *at;

	key->failed = key->failed || PFW_REACH(key->text, key->bytes + bytes, key->room);
	at = key->failed ? NULL : key->text + key->bytes;
	key->bytes += bytes;
	return at;
}

void pfw_table_key_head(struct pfw_table_key *key, const char head[PFW_TABLE_KEY_HEAD])
{
	key->bytes = 0;
	key->failed = false;
	if (append(key, PFW_TABLE_KEY_HEAD))
		memcpy(key->text, head, PFW_TABLE_KEY_HEAD);
}

void pfw_table_key_begin(struct pfw_table_key *key, const struct pfw_table_line *line)
{
	pfw_table_key_head(key, (const char[]){ (char)line->section, (char)line->device,
						line->annotation });
}

void pfw_table_key_text(struct pfw_table_key *key, const char *text, size_t bytes)
{
	uint32_t length = (uint32_t)bytes;
	char *at = append(key, sizeof(length) + bytes);

	if (at)
		memcpy(mempcpy(at, &length, sizeof(length)), text, bytes);
}

void pfw_table_key_slice(struct pfw_table_key *key, const struct pfw_slice *text)
{
	if (!text->escaped && text->bytes < PFW_TABLE_TEXT_MAX)
		pfw_table_key_text(key, text->at ? text->at : "", text->bytes);
	else
		pfw_table_key_text(key, key->field,
				   pfw_slice_decode(text, key->field, PFW_TABLE_TEXT_MAX));
}

void pfw_table_key_number(struct pfw_table_key *key, int64_t number)
{
	char text[64]; /* pfw_append_i64() writes beyond the end */

	pfw_table_key_text(key, text, (size_t)(pfw_append_i64(text, number) - text));
}

void pfw_table_key_name(struct pfw_table_key *key, const struct pfw_table_line *line)
{
	uint64_t number;

	if (!pfw_slice_is(&line->cat, "POSIX") &&
	    pfw_is_step_name(line->name.at, line->name.bytes, &number))
		pfw_table_key_text(key, "ProfilerStep*", 13);
	else
		pfw_table_key_slice(key, &line->name);
}

void pfw_table_key_shapes(struct pfw_table_key *key, const struct pfw_table_line *line)
{
	const struct pfw_slice *shapes = &line->shapes;
	size_t used = 0;

	if (line->shapes_text && shapes->at) {
		pfw_table_key_slice(key, shapes);
		return;
	}
	if (!shapes->at)
		used = (size_t)(stpcpy(key->field, "[]") - key->field);
	for (size_t i = 0; i < shapes->bytes && used < PFW_TABLE_TEXT_MAX - 2; i++) {
		if (shapes->at[i] == ' ')
			continue;
		key->field[used++] = shapes->at[i];
		if (shapes->at[i] == ',')
			key->field[used++] = ' ';
	}
	pfw_table_key_text(key, key->field, used);
}

int64_t pfw_table_key_row(const struct pfw_table_key *key, struct pfw_averages *rows)
{
	return key->failed ? -ENOMEM : pfw_averages_row(rows, key->text, key->bytes);
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
