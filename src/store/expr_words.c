/* expr_words.c - the words of an expression, its nodes as they are made, and what is wrong with it. */
#include "expr_words.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- what is wrong ---- */

#define SHOWN_BEFORE 60
#define SHOWN_BEHIND 30

static bool starts_character(char c)
{
	return (c & 0xc0) != 0x80;
}

/* The text about the place, in one line, and a caret under it. */
static void show_place(const struct pfw_parser *parser, const char *at)
{
	size_t used = strlen(parser->why), characters = 0, total = 0;
	const char *from = at;

	while (from > parser->text && characters < SHOWN_BEFORE) {
		from--;
		characters += starts_character(*from);
	}
	used += (size_t)snprintf(parser->why + used, parser->size - used, "\n  ");
	for (const char *c = from; c < parser->end && used + 1 < parser->size; c++) {
		total += starts_character(*c);
		if (total > characters + SHOWN_BEHIND)
			break;
		parser->why[used++] = (unsigned char)*c < 0x20 || *c == 0x7f ? '?' : *c;
	}
	if (used < parser->size)
		snprintf(parser->why + used, parser->size - used, "\n  %*s^", (int)characters, "");
}

/* Note what is wrong at that place, unless something was before. */
__attribute__((format(printf, 3, 4))) uint32_t
pfw_parser_fail(struct pfw_parser *parser, const char *at, const char *format, ...)
{
	size_t column = 1;
	va_list values;
	int used;

	if (parser->error)
		return PFW_PARSER_NOTHING;
	parser->error = -EINVAL;
	for (const char *c = parser->text; c < at; c++)
		column += starts_character(*c);
	used = snprintf(parser->why, parser->size, "column %zu: ", column);
	va_start(values, format);
	if (used > 0 && (size_t)used < parser->size)
		vsnprintf(parser->why + used, parser->size - (size_t)used, format, values);
	va_end(values);
	show_place(parser, at);
	return PFW_PARSER_NOTHING;
}

uint32_t pfw_parser_no_memory(struct pfw_parser *parser)
{
	if (!parser->error)
		parser->error = -ENOMEM;
	return PFW_PARSER_NOTHING;
}

/* ---- memory ---- */

/* Room for one more of `bytes` each; false: there is no memory. */
bool pfw_parser_grow(struct pfw_parser *parser, void *list, uint32_t count, uint32_t *room,
		     size_t bytes)
{
	void **at = list, *more;
	uint32_t want = *room ? 2 * *room : 16;

	if (count < *room)
		return true;
	more = realloc(*at, want * bytes);
	if (!more) {
		pfw_parser_no_memory(parser);
		return false;
	}
	*at = more;
	*room = want;
	return true;
}

uint32_t pfw_parser_add(struct pfw_parser *parser, const struct pfw_node *node)
{
	struct pfw_expr *expr = parser->expr;

	if (parser->error)
		return PFW_PARSER_NOTHING;
	if (expr->count == PFW_EXPR_NODES)
		return pfw_parser_fail(parser, parser->at, "the expression is too long");
	if (!pfw_parser_grow(parser, &expr->node, expr->count, &expr->room, sizeof(*expr->node)))
		return PFW_PARSER_NOTHING;
	expr->node[expr->count] = *node;
	return expr->count++;
}

uint32_t pfw_parser_add_constant(struct pfw_parser *parser, const char *at,
				 const struct pfw_operand *value)
{
	struct pfw_node node = { .kind = PFW_NODE_CONSTANT,
				 .types = value->type,
				 .column = (unsigned)(at - parser->text),
				 .value = *value };

	return pfw_parser_add(parser, &node);
}

/* ---- words ---- */

void pfw_parser_space(struct pfw_parser *parser)
{
	while (parser->at < parser->end && strchr(" \t\r\n", *parser->at) && *parser->at)
		parser->at++;
}

bool pfw_parser_take(struct pfw_parser *parser, const char *word)
{
	size_t bytes = strlen(word);

	pfw_parser_space(parser);
	if ((size_t)(parser->end - parser->at) < bytes || memcmp(parser->at, word, bytes) != 0)
		return false;
	parser->at += bytes;
	return true;
}

/* The bytes of the word at parser->at, without taking it. */
size_t pfw_parser_word(const struct pfw_parser *parser)
{
	const char *at = parser->at;

	if (at < parser->end && pfw_parser_is_letter(*at)) {
		while (at < parser->end && (pfw_parser_is_letter(*at) || pfw_parser_is_digit(*at)))
			at++;
	}
	return (size_t)(at - parser->at);
}

bool pfw_parser_take_word(struct pfw_parser *parser, const char *word)
{
	pfw_parser_space(parser);
	if (pfw_parser_word(parser) != strlen(word) || memcmp(parser->at, word, strlen(word)) != 0)
		return false;
	parser->at += strlen(word);
	return true;
}
