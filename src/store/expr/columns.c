/* store/expr/columns.c - fields of a line as table cells; see columns.h. */
#include "store/expr/columns.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "store/expr/internal.h"

/* ---- the list ---- */

static bool known(const struct pfw_columns *columns, const char *name, size_t bytes)
{
	for (size_t i = 0; i < columns->count; i++) {
		if (strlen(columns->name[i]) == bytes && memcmp(columns->name[i], name, bytes) == 0)
			return true;
	}
	return false;
}

static void parse_column(struct pfw_parser *parser, struct pfw_columns *columns)
{
	const char *start;
	size_t bytes;
	uint32_t node;

	pfw_parser_space(parser);
	start = parser->at;
	if (!pfw_parser_word(parser)) {
		pfw_parser_fail(parser, start, "a field is expected here: ts,dur,name,args.fname");
		return;
	}
	node = pfw_parser_field(parser);
	if (node == PFW_PARSER_NOTHING)
		return;
	bytes = (size_t)(parser->at - start);
	if (parser->expr->node[node].kind == PFW_NODE_CONSTANT)
		pfw_parser_fail(parser, start, "this is no field");
	else if (columns->count == PFW_COLUMNS_MAX)
		pfw_parser_fail(parser, start, "at most %d fields", PFW_COLUMNS_MAX);
	else if (known(columns, start, bytes))
		pfw_parser_fail(parser, start, "this field for a second time");
	else if (!(columns->name[columns->count] = strndup(start, bytes)))
		pfw_parser_no_memory(parser);
	else
		columns->count++;
}

static void parse(struct pfw_parser *parser, struct pfw_columns *columns)
{
	do
		parse_column(parser, columns);
	while (!parser->error && pfw_parser_take(parser, ","));
	pfw_parser_space(parser);
	if (!parser->error && parser->at < parser->end)
		pfw_parser_fail(parser, parser->at, "a comma is expected here");
}

int pfw_columns_parse(struct pfw_columns *columns, const char *list, char *why, size_t size)
{
	struct pfw_parser parser = {
		.text = list, .at = list, .end = list + strlen(list), .why = why, .size = size
	};

	if (strlen(list) > PFW_EXPR_BYTES) {
		snprintf(why, size, "at most %d bytes", PFW_EXPR_BYTES);
		return -EINVAL;
	}
	*columns = (struct pfw_columns){ .name = calloc(PFW_COLUMNS_MAX, sizeof(char *)),
					 .expr = pfw_expr_new(strlen(list)) };
	parser.expr = columns->expr;
	if (columns->name && columns->expr)
		parse(&parser, columns);
	else
		parser.error = -ENOMEM;
	if (parser.error)
		pfw_columns_free(columns);
	return parser.error;
}

void pfw_columns_free(struct pfw_columns *columns)
{
	for (size_t i = 0; i < columns->count; i++)
		free(columns->name[i]);
	free(columns->name);
	pfw_expr_free(columns->expr);
	*columns = (struct pfw_columns){ 0 };
}

bool pfw_columns_ask_fname(const struct pfw_columns *columns)
{
	return columns->count && pfw_expr_asks_fname(columns->expr);
}

/* ---- a line ---- */

static void set_digits(struct pfw_cell *cell, int bytes)
{
	cell->kind = PFW_CELL_JSON;
	cell->text = (struct pfw_slice){ .at = cell->digits, .bytes = (size_t)bytes };
}

static void set_us(struct pfw_cell *cell, int64_t ns)
{
	uint64_t size = ns < 0 ? -(uint64_t)ns : (uint64_t)ns;

	set_digits(cell, snprintf(cell->digits, sizeof(cell->digits), "%s%" PRIu64 ".%03" PRIu64,
				  ns < 0 ? "-" : "", size / 1000, size % 1000));
}

static void set_u64(struct pfw_cell *cell, uint64_t number)
{
	set_digits(cell, snprintf(cell->digits, sizeof(cell->digits), "%" PRIu64, number));
}

static void set_text(struct pfw_cell *cell, struct pfw_slice text)
{
	cell->kind = PFW_CELL_TEXT;
	cell->text = text;
}

static void set_value(struct pfw_cell *cell, const struct pfw_value *value)
{
	cell->kind = value->type == PFW_VALUE_STRING ? PFW_CELL_TEXT
		     : value->type == PFW_VALUE_NULL ? PFW_CELL_NULL
						     : PFW_CELL_JSON;
	cell->text = value->text;
}

static void set_field(struct pfw_cell *cell, const struct pfw_entry *entry, enum pfw_field field)
{
	const void *at = (const char *)entry + pfw_fields[field].at;

	if (field == PFW_FIELD_PH)
		set_text(cell, (struct pfw_slice){ .at = at, .bytes = 1 });
	else if (pfw_fields[field].type == PFW_OPERAND_TEXT)
		set_text(cell, *(const struct pfw_slice *)at);
	else if (field == PFW_FIELD_TS || field == PFW_FIELD_DUR)
		set_us(cell, *(const int64_t *)at);
	else
		set_u64(cell, *(const uint64_t *)at);
}

void pfw_columns_cell(const struct pfw_columns *columns, size_t i, const struct pfw_entry *entry,
		      int64_t rank, struct pfw_cell *cell)
{
	const struct pfw_node *node = &columns->expr->node[i];
	struct pfw_value value;

	cell->kind = PFW_CELL_NULL;
	if (node->kind == PFW_NODE_ARG) {
		if (pfw_expr_path_find(&columns->expr->path[node->index], entry, columns->fnames,
				       &value))
			set_value(cell, &value);
	} else if (node->field == PFW_FIELD_RANK) {
		if (rank >= 0)
			set_u64(cell, (uint64_t)rank);
	} else if (node->field == PFW_FIELD_STEP) {
		if (pfw_entry_arg(entry, "step", &value) && value.type == PFW_VALUE_NUMBER)
			set_value(cell, &value);
	} else if (pfw_field_in(node->field, entry)) {
		set_field(cell, entry, node->field);
	}
}
