/* tools/table/key.c - makes the key of the row that a line is added to; see table.h. */
#include <string.h>

#include "store/json/walk.h"
#include "store/line/frame.h"
#include "table/table.h"

/* The innermost frames, one per line. */
static void add_stack(struct pfw_table_key *key, const struct pfw_table_line *line, unsigned frames)
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
		pfw_table_key_slice(key, &line->stack);
		return;
	}
	pfw_table_key_text(key, key->field, used);
}

/* The innermost frame of the user's code; of a stack without one, the innermost of all. */
static void add_code_line(struct pfw_table_key *key, const struct pfw_table_line *line)
{
	struct pfw_slice innermost = { .at = NULL };
	struct pfw_walk frames;
	struct pfw_value frame;

	pfw_walk_init(&frames, &line->stack);
	while (line->stack.at && *line->stack.at == '[' && pfw_elements_next(&frames, &frame)) {
		size_t bytes = frame.text.bytes;
		const char *text = frame.text.at;

		if (frame.type != PFW_VALUE_STRING)
			continue;
		if (frame.text.escaped) {
			text = key->field;
			bytes = pfw_slice_decode(&frame.text, key->field, PFW_TABLE_TEXT_MAX);
		}
		if (pfw_frame_users(text, bytes)) {
			pfw_table_key_text(key, text, bytes);
			return;
		}
		innermost = innermost.at ? innermost : frame.text;
	}
	pfw_table_key_slice(key, &innermost);
}

/* A string as it is, other values as JSON has them; "": the line has no such arg. */
static void add_arg(struct pfw_table_key *key, const char *name, const struct pfw_entry *entry)
{
	struct pfw_value value;

	if (!pfw_entry_find(entry, name, strlen(name), &value))
		value.text = (struct pfw_slice){ .at = "" };
	pfw_table_key_slice(key, &value.text);
}

/* A number; negative: none. */
static void add_number(struct pfw_table_key *key, int64_t number)
{
	if (number < 0)
		pfw_table_key_text(key, "", 0);
	else
		pfw_table_key_number(key, number);
}

static void add(struct pfw_table_key *key, enum table_field field,
		const struct table_options *options, const struct pfw_table_line *line,
		const struct pfw_entry *entry, int64_t rank)
{
	switch (field) {
	case TABLE_NAME:
		pfw_table_key_name(key, line);
		break;
	case TABLE_CAT:
		pfw_table_key_slice(key, &line->cat);
		break;
	case TABLE_SHAPE:
		pfw_table_key_shapes(key, line);
		break;
	case TABLE_STACK:
		add_stack(key, line, options->frames);
		break;
	case TABLE_LINE:
		add_code_line(key, line);
		break;
	case TABLE_FNAME:
		pfw_table_key_slice(key, &line->fname);
		break;
	case TABLE_PROCESS:
	case TABLE_CMD:
		pfw_table_key_text(
			key, key->field,
			(field == TABLE_CMD ? table_process_command : table_process_name)(
				options->processes, rank, entry, key->field, PFW_TABLE_TEXT_MAX));
		break;
	case TABLE_OPERATOR: /* of GPU work in a line it is known later */
		pfw_table_key_slice(key, &line->owner);
		break;
	case TABLE_RANK:
		add_number(key, rank);
		break;
	case TABLE_STEP:
		add_number(key, line->step);
		break;
	case TABLE_PID:
		pfw_table_key_number(key, (int64_t)entry->pid);
		break;
	case TABLE_TID:
		pfw_table_key_number(key, (int64_t)entry->tid);
		break;
	default:
		add_arg(key, options->arg[field - TABLE_ARG] + strlen("args."), entry);
	}
}

void table_key_fields(struct pfw_table_key *key, const struct table_options *options,
		      const struct pfw_table_line *line, const struct pfw_entry *entry,
		      int64_t rank)
{
	pfw_table_key_head(key, (const char[]){ (char)line->section, (char)line->device,
						line->annotation && options->by_name });
	for (unsigned i = 0; i < options->fields && line->section < PFW_TABLE_SECTIONS; i++)
		add(key, options->field[i], options, line, entry, rank);
}

void table_key_make(struct pfw_table_key *key, const struct table_options *options,
		    const struct pfw_table_line *line, const struct pfw_entry *entry, int64_t rank)
{
	table_key_fields(key, options, line, entry, rank);
	/* Nesting needs the names of spans, also if rows are not by name. */
	if (line->section == PFW_TABLE_HIDDEN ||
	    (line->section == PFW_TABLE_COMPUTE && !options->by_name))
		pfw_table_key_name(key, line);
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
