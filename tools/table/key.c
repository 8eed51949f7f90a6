/* tools/table/key.c - makes the key of the row that a line is added to; see table.h. */
#include <stdlib.h>
#include <string.h>

#include "store/json/walk.h"
#include "store/line/frame.h"
#include "table/table.h"

/* The innermost frames, one per line. */
static int add_stack(struct pfw_table_key *key, const struct pfw_table_line *line, unsigned frames)
{
	struct pfw_walk members;
	struct pfw_value frame;
	size_t used = 0;

	if (line->stack.at && *line->stack.at == '[') {
		pfw_walk_init(&members, &line->stack);
		while (frames-- && pfw_elements_next(&members, &frame) &&
		       used + 2 < PFW_TABLE_TEXT_MAX) {
			if (used)
				key->field[used++] = '\n';
			used += pfw_slice_decode(&frame.text, key->field + used,
						 PFW_TABLE_TEXT_MAX - used);
		}
	} else if (line->stack.at) {
		return pfw_table_key_slice(key, &line->stack);
	}
	return pfw_table_key_text(key, key->field, used);
}

/* The innermost frame of the user's code; of a stack without one, the innermost of all. */
static int add_code_line(struct pfw_table_key *key, const struct pfw_table_line *line)
{
	struct pfw_slice innermost = { .at = NULL };
	struct pfw_walk frames;
	struct pfw_value frame;

	if (!line->stack.at || *line->stack.at != '[')
		return pfw_table_key_text(key, "", 0);
	pfw_walk_init(&frames, &line->stack);
	while (pfw_elements_next(&frames, &frame)) {
		size_t bytes = frame.text.bytes;
		const char *text = frame.text.at;

		if (frame.type != PFW_VALUE_STRING)
			continue;
		if (frame.text.escaped) {
			text = key->field;
			bytes = pfw_slice_decode(&frame.text, key->field, PFW_TABLE_TEXT_MAX);
		}
		if (pfw_frame_users(text, bytes))
			return pfw_table_key_text(key, text, bytes);
		innermost = innermost.at ? innermost : frame.text;
	}
	return pfw_table_key_slice(key, &innermost);
}

/* A string as it is, other values as JSON has them; "": the line has no such arg. */
static int add_arg(struct pfw_table_key *key, const char *name, const struct pfw_entry *entry)
{
	struct pfw_value value;

	if (!pfw_entry_find(entry, name, strlen(name), &value))
		return pfw_table_key_text(key, "", 0);
	return pfw_table_key_slice(key, &value.text);
}

static int add(struct pfw_table_key *key, enum table_field field,
	       const struct table_options *options, const struct pfw_table_line *line,
	       const struct pfw_entry *entry, int64_t rank)
{
	switch (field) {
	case TABLE_NAME:
		return pfw_table_key_name(key, line);
	case TABLE_CAT:
		return pfw_table_key_slice(key, &line->cat);
	case TABLE_SHAPE:
		return pfw_table_key_shapes(key, line);
	case TABLE_STACK:
		return add_stack(key, line, options->frames);
	case TABLE_LINE:
		return add_code_line(key, line);
	case TABLE_FNAME:
		return pfw_table_key_slice(key, &line->fname);
	case TABLE_PROCESS:
		return pfw_table_key_text(key, key->field,
					  table_process_name(options->processes, rank, entry,
							     key->field, PFW_TABLE_TEXT_MAX));
	case TABLE_CMD:
		return pfw_table_key_text(key, key->field,
					  table_process_command(options->processes, rank, entry,
								key->field, PFW_TABLE_TEXT_MAX));
	case TABLE_OPERATOR: /* of GPU work in a line it is known later */
		return pfw_table_key_slice(key, &line->owner);
	case TABLE_RANK:
		return rank < 0 ? pfw_table_key_text(key, "", 0) : pfw_table_key_number(key, rank);
	case TABLE_STEP:
		return line->step < 0 ? pfw_table_key_text(key, "", 0)
				      : pfw_table_key_number(key, line->step);
	case TABLE_PID:
		return pfw_table_key_number(key, (int64_t)entry->pid);
	case TABLE_TID:
		return pfw_table_key_number(key, (int64_t)entry->tid);
	default:
		return add_arg(key, options->arg[field - TABLE_ARG] + strlen("args."), entry);
	}
}

int table_key_make(struct pfw_table_key *key, const struct table_options *options,
		   const struct pfw_table_line *line, const struct pfw_entry *entry, int64_t rank)
{
	int error = 0;

	pfw_table_key_begin(key, line);
	key->text[2] &= options->by_name;
	for (unsigned i = 0; i < options->fields && !error && line->section < PFW_TABLE_SECTIONS;
	     i++)
		error = add(key, options->field[i], options, line, entry, rank);
	/* Nesting needs the names of spans, also if rows are not by name. */
	if (!error && (line->section == PFW_TABLE_HIDDEN ||
		       (line->section == PFW_TABLE_COMPUTE && !options->by_name)))
		error = pfw_table_key_name(key, line);
	return error;
}

const char *table_text(const struct pfw_average *row, unsigned n, size_t *bytes)
{
	return pfw_table_key_field(row->key, n, bytes);
}

struct pfw_entry table_event_named(struct pfw_slice name, struct pfw_slice cat)
{
	return (struct pfw_entry){ .kind = PFW_ENTRY_EVENT,
				   .has = PFW_ENTRY_NAME | PFW_ENTRY_CAT | PFW_ENTRY_PH,
				   .ph = 'X',
				   .name = name,
				   .cat = cat,
				   .args = { .at = "{}", .bytes = 2 } };
}
