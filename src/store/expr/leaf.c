/* store/expr/leaf.c - parser of tokens, constants and fields; error messages. */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/units.h"
#include "store/expr/internal.h"
#include "store/json/reader.h"
#include "store/kit/grow.h"

/* ---- errors ---- */

#define SHOWN_BEFORE 60
#define SHOWN_BEHIND 30

static bool starts_character(char c)
{
	return (c & 0xc0) != 0x80;
}

/* Append the text around the place, in one line, and a caret under it. */
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

/* ---- nodes ---- */

uint32_t pfw_parser_add(struct pfw_parser *parser, const struct pfw_node *node)
{
	struct pfw_expr *expr = parser->expr;

	if (parser->error)
		return PFW_PARSER_NOTHING;
	if (expr->count == PFW_EXPR_NODES)
		return pfw_parser_fail(parser, parser->at, "the expression is too long");
	if (PFW_APPEND(expr->node, expr->count, *node))
		return pfw_parser_no_memory(parser);
	return expr->count - 1;
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

/* ---- constants ---- */

static bool is_number_byte(char c)
{
	return pfw_parser_is_digit(c) || pfw_parser_is_letter(c) || c == '.';
}

uint32_t pfw_parser_number(struct pfw_parser *parser)
{
	const char *start = parser->at, *end = start;
	struct pfw_operand value = { .type = PFW_OPERAND_NUMBER, .number.exact = true };
	struct pfw_reader reader = { .at = start, .end = parser->end };
	int64_t thousandths;
	size_t used;
	bool unit;

	while (end < parser->end && is_number_byte(*end))
		end++;
	used = pfw_units_read(start, (size_t)(end - start), PFW_UNITS_TIME | PFW_UNITS_SIZE,
			      &thousandths, &unit);
	if (used && start + used == end) {
		value.number.thousandths = thousandths;
		parser->at = end;
		return pfw_parser_add_constant(parser, start, &value);
	}
	/* JSON numbers: exponents, any number of digits. */
	if (!pfw_reader_number(&reader) || (reader.at < parser->end && is_number_byte(*reader.at)))
		return pfw_parser_fail(
			parser, start,
			"no number: want 12, 0.5, 1e6 or one with a unit (" PFW_UNITS_OF_TIME
			", " PFW_UNITS_OF_SIZE ")");
	value.number =
		pfw_number_read(&(struct pfw_slice){ start, (size_t)(reader.at - start), false });
	parser->at = reader.at;
	return pfw_parser_add_constant(parser, start, &value);
}

const char *pfw_parser_quote(const struct pfw_parser *parser, const char *at)
{
	char quote = *at++;

	for (; at < parser->end && *at != quote; at++) {
		if (*at == '\\' && at + 1 < parser->end)
			at++;
	}
	return at < parser->end ? at : NULL;
}

/* Unescape the text between two quotes into the expression's texts. */
static bool decode_text(struct pfw_parser *parser, const char *from, const char *to,
			struct pfw_slice *text)
{
	char *out = parser->expr->texts + parser->expr->texts_used;
	char quote = from[-1];
	size_t used = 0;

	while (from < to) {
		struct pfw_slice one = { .at = from, .bytes = 2, .escaped = true };

		if (*from != '\\') {
			out[used++] = *from++;
			continue;
		}
		if (from[1] == '\'' && quote == '\'') {
			out[used++] = '\'';
			from += 2;
			continue;
		}
		if (from[1] == 'u') {
			long code = pfw_hex4(from + 2, to);
			bool high = code >= 0xd800 && code < 0xdc00;
			long low = high && to - from >= 12 && from[6] == '\\' && from[7] == 'u'
					   ? pfw_hex4(from + 8, to)
					   : -1;

			if (code < 0 || (code >= 0xdc00 && code < 0xe000) ||
			    (high && (low < 0xdc00 || low > 0xdfff))) {
				pfw_parser_fail(
					parser, from,
					"want \\uXXXX of a character (or a pair of both halves)");
				return false;
			}
			one.bytes = high ? 12 : 6;
		} else if (!strchr("\"\\/bfnrt", from[1])) {
			pfw_parser_fail(parser, from,
					"unknown escape \\%c (JSON's are known; =~ has its own)",
					from[1]);
			return false;
		}
		used += pfw_slice_decode(&one, out + used, 8);
		from += one.bytes;
	}
	*text = (struct pfw_slice){ .at = out, .bytes = used };
	parser->expr->texts_used += used;
	return true;
}

uint32_t pfw_parser_text(struct pfw_parser *parser)
{
	const char *start = parser->at, *end = pfw_parser_quote(parser, start);
	struct pfw_operand value = { .type = PFW_OPERAND_TEXT };

	if (!end)
		return pfw_parser_fail(parser, start, "no %c ends the text that begins here",
				       *start);
	if (!decode_text(parser, start + 1, end, &value.text))
		return PFW_PARSER_NOTHING;
	parser->at = end + 1;
	return pfw_parser_add_constant(parser, start, &value);
}

/* ---- fields ---- */

static uint32_t add_path(struct pfw_parser *parser, const char *start, char *keys, size_t bytes)
{
	struct pfw_expr *expr = parser->expr;
	struct pfw_node node = { .kind = PFW_NODE_ARG,
				 .types = PFW_OPERAND_ANY,
				 .column = (unsigned)(start - parser->text) };

	for (node.index = 0; node.index < expr->path_count; node.index++) {
		const struct pfw_expr_path *path = &expr->path[node.index];

		if (path->bytes == bytes && memcmp(path->keys, keys, bytes) == 0) {
			free(keys);
			return pfw_parser_add(parser, &node);
		}
	}
	if (PFW_APPEND(expr->path, expr->path_count, (struct pfw_expr_path){ keys, bytes })) {
		free(keys);
		return pfw_parser_no_memory(parser);
	}
	return pfw_parser_add(parser, &node);
}

/* Append a key after a '.' with its NUL; false: there is none. */
static bool take_key(struct pfw_parser *parser, char *keys, size_t *used)
{
	size_t bytes = pfw_parser_word(parser);
	const char *start = parser->at, *end;
	struct pfw_slice text;

	if (bytes) {
		memcpy(keys + *used, start, bytes);
		parser->at += bytes;
	} else if (start < parser->end && (*start == '"' || *start == '\'')) {
		end = pfw_parser_quote(parser, start);
		if (!end || !decode_text(parser, start + 1, end, &text) || !text.bytes ||
		    text.bytes > 120) {
			pfw_parser_fail(parser, start, "no key of 1 to 120 bytes");
			return false;
		}
		bytes = text.bytes;
		memcpy(keys + *used, text.at, bytes);
		parser->at = end + 1;
	}
	if (!bytes || bytes > 120) {
		pfw_parser_fail(
			parser, start,
			"a key of 1 to 120 bytes is expected here: args.fname, args.\"odd key\"");
		return false;
	}
	*used += bytes;
	keys[(*used)++] = '\0';
	return true;
}

/* After `args`: one or more .key. */
static uint32_t parse_path(struct pfw_parser *parser, const char *start)
{
	char *keys;
	size_t used = 0;

	if (parser->at >= parser->end || *parser->at != '.')
		return pfw_parser_fail(parser, parser->at, "which of args? args.fname");
	keys = malloc((size_t)(parser->end - parser->at) + 2);
	if (!keys)
		return pfw_parser_no_memory(parser);
	while (parser->at < parser->end && *parser->at == '.') {
		parser->at++;
		if (!take_key(parser, keys, &used)) {
			free(keys);
			return PFW_PARSER_NOTHING;
		}
	}
	keys[used++] = '\0';
	return add_path(parser, start, keys, used);
}

uint32_t pfw_parser_field(struct pfw_parser *parser)
{
	const char *start = parser->at;
	struct pfw_node node = { .kind = PFW_NODE_FIELD,
				 .column = (unsigned)(start - parser->text) };
	struct pfw_operand value = { .type = PFW_OPERAND_NULL };

	if (pfw_parser_take_word(parser, "args"))
		return parse_path(parser, start);
	if (pfw_parser_take_word(parser, "null"))
		return pfw_parser_add_constant(parser, start, &value);
	if (pfw_parser_take_word(parser, "false") || pfw_parser_take_word(parser, "true")) {
		value = (struct pfw_operand){ .type = PFW_OPERAND_TRUTH, .truth = *start == 't' };
		return pfw_parser_add_constant(parser, start, &value);
	}
	for (unsigned i = 0; i < PFW_FIELDS; i++) {
		if (!pfw_parser_take_word(parser, pfw_fields[i].name))
			continue;
		node.field = (enum pfw_field)i;
		node.types = PFW_OPERAND_NULL | pfw_fields[i].type;
		parser->expr->meta |= i == PFW_FIELD_PH;
		return pfw_parser_add(parser, &node);
	}
	return pfw_parser_fail(
		parser, start,
		"there is no field %.*s: id name cat pid tid ts dur ph rank step args.X",
		(int)(pfw_parser_word(parser) > 60 ? 60 : pfw_parser_word(parser)), start);
}
