/* tools/table/key.c - makes the key of the row that a line is added to; see line.h. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "store/json/walk.h"
#include "store/line/step_name.h"
#include "table/line.h"

int table_key_init(struct table_key *key)
{
	*key = (struct table_key){ .room = 2 * TABLE_TEXT_MAX };
	key->text = malloc(key->room);
	key->field = malloc(TABLE_TEXT_MAX);
	if (key->text && key->field)
		return 0;
	table_key_release(key);
	return -ENOMEM;
}

void table_key_release(struct table_key *key)
{
	free(key->text);
	free(key->field);
}

static int add_field(struct table_key *key, const char *text, size_t bytes)
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

static int add_slice(struct table_key *key, const struct pfw_slice *text)
{
	if (!text->escaped && text->bytes < TABLE_TEXT_MAX)
		return add_field(key, text->at ? text->at : "", text->bytes);
	return add_field(key, key->field, pfw_slice_decode(text, key->field, TABLE_TEXT_MAX));
}

static int add_number(struct table_key *key, int64_t number)
{
	char text[24];

	return add_field(key, text, (size_t)sprintf(text, "%" PRId64, number));
}

/* All steps are one row, though their names have numbers. */
static int add_name(struct table_key *key, const struct table_line *line)
{
	uint64_t number;

	if (!pfw_slice_is(&line->cat, "POSIX") &&
	    pfw_is_step_name(line->name.at, line->name.bytes, &number))
		return add_field(key, "ProfilerStep*", 13);
	return add_slice(key, &line->name);
}

/* As Python prints a list: a blank after each comma, none elsewhere. */
static int add_shapes(struct table_key *key, const struct table_line *line)
{
	const struct pfw_slice *shapes = &line->shapes;
	size_t used = 0;

	if (!shapes->at)
		return add_field(key, "[]", 2);
	if (line->shapes_text)
		return add_slice(key, shapes);
	for (size_t i = 0; i < shapes->bytes && used < TABLE_TEXT_MAX - 2; i++) {
		if (shapes->at[i] == ' ')
			continue;
		key->field[used++] = shapes->at[i];
		if (shapes->at[i] == ',')
			key->field[used++] = ' ';
	}
	return add_field(key, key->field, used);
}

/* The innermost frames, one per line. */
static int add_stack(struct table_key *key, const struct table_line *line, unsigned frames)
{
	struct pfw_walk members;
	struct pfw_value frame;
	size_t used = 0;

	if (line->stack.at && *line->stack.at == '[') {
		pfw_walk_init(&members, &line->stack);
		while (frames-- && pfw_elements_next(&members, &frame) &&
		       used + 2 < TABLE_TEXT_MAX) {
			if (used)
				key->field[used++] = '\n';
			used += pfw_slice_decode(&frame.text, key->field + used,
						 TABLE_TEXT_MAX - used);
		}
	} else if (line->stack.at) {
		return add_slice(key, &line->stack);
	}
	return add_field(key, key->field, used);
}

static int add(struct table_key *key, enum table_field field, const struct table_options *options,
	       const struct table_line *line, const struct pfw_entry *entry, int64_t rank)
{
	switch (field) {
	case TABLE_NAME:
		return add_name(key, line);
	case TABLE_CAT:
		return add_slice(key, &line->cat);
	case TABLE_SHAPE:
		return add_shapes(key, line);
	case TABLE_STACK:
		return add_stack(key, line, options->frames);
	case TABLE_FNAME:
		return add_slice(key, &line->fname);
	case TABLE_PROCESS:
		return add_field(key, key->field,
				 table_process_name(options->processes, rank, entry, key->field,
						    TABLE_TEXT_MAX));
	case TABLE_CMD:
		return add_field(key, key->field,
				 table_process_command(options->processes, rank, entry, key->field,
						       TABLE_TEXT_MAX));
	case TABLE_RANK:
		return rank < 0 ? add_field(key, "", 0) : add_number(key, rank);
	case TABLE_STEP:
		return line->step < 0 ? add_field(key, "", 0) : add_number(key, line->step);
	case TABLE_PID:
		return add_number(key, (int64_t)entry->pid);
	default:
		return add_number(key, (int64_t)entry->tid);
	}
}

int table_key_make(struct table_key *key, const struct table_options *options,
		   const struct table_line *line, const struct pfw_entry *entry, int64_t rank)
{
	int error = 0;

	key->text[0] = (char)line->section;
	key->text[1] = (char)line->device;
	key->text[2] = line->annotation && options->by_name;
	key->bytes = TABLE_KEY_HEAD;
	for (unsigned i = 0; i < options->fields && !error && line->section < TABLE_SECTIONS; i++)
		error = add(key, options->field[i], options, line, entry, rank);
	/* Nesting needs the names of spans, also if rows are not by name. */
	if (!error && (line->section == TABLE_HIDDEN ||
		       (line->section == TABLE_COMPUTE && !options->by_name)))
		error = add_name(key, line);
	return error;
}

const char *table_text(const struct pfw_average *row, unsigned n, size_t *bytes)
{
	const char *at = row->key + TABLE_KEY_HEAD;
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
