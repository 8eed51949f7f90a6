/* expr_leaf.c - the constants and fields of an expression; see expr_words.h. */
#include <stdlib.h>
#include <string.h>

#include "expr_words.h"
#include "jsonread.h"
#include "times.h"

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
	used = pfw_times_number(start, (size_t)(end - start), true, &thousandths, &unit);
	if (used && start + used == end) {
		value.number.thousandths = thousandths;
		parser->at = end;
		return pfw_parser_add_constant(parser, start, &value);
	}
	/* As JSON has them: exponents, any number of digits. */
	if (!pfw_reader_number(&reader) || (reader.at < parser->end && is_number_byte(*reader.at)))
		return pfw_parser_fail(
			parser, start,
			"no number: want 12, 0.5, 1e6 or one with a unit (ns us ms s m h, "
			"KiB MiB GiB TiB, kB MB GB TB)");
	value.number =
		pfw_number_read(&(struct pfw_slice){ start, (size_t)(reader.at - start), false });
	parser->at = reader.at;
	return pfw_parser_add_constant(parser, start, &value);
}

/* The end of the text that begins behind the quote at `at`: its closing quote, or NULL. */
const char *pfw_parser_quote(const struct pfw_parser *parser, const char *at)
{
	char quote = *at++;

	for (; at < parser->end && *at != quote; at++) {
		if (*at == '\\' && at + 1 < parser->end)
			at++;
	}
	return at < parser->end ? at : NULL;
}

/* Put the text between two quotes among the constants, escapes resolved. */
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

static const char *const field_names[PFW_FIELDS] = { "id", "name", "cat", "pid",  "tid",
						     "ts", "dur",  "ph",  "rank", "step" };

static const unsigned field_types[PFW_FIELDS] = {
	[PFW_FIELD_NAME] = PFW_OPERAND_TEXT,
	[PFW_FIELD_CAT] = PFW_OPERAND_TEXT,
	[PFW_FIELD_PH] = PFW_OPERAND_TEXT,
};

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
	if (!pfw_parser_grow(parser, &expr->path, expr->path_count, &expr->path_room,
			     sizeof(*expr->path))) {
		free(keys);
		return PFW_PARSER_NOTHING;
	}
	expr->path[expr->path_count++] = (struct pfw_expr_path){ keys, bytes };
	return pfw_parser_add(parser, &node);
}

/* One key behind a '.', with a NUL behind it; false: there is none. */
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
			"a key of 1 to 120 bytes is wanted here: args.fname, args.\"odd key\"");
		return false;
	}
	*used += bytes;
	keys[(*used)++] = '\0';
	return true;
}

/* Behind `args`: .key, as often as they are nested. */
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
		if (!pfw_parser_take_word(parser, field_names[i]))
			continue;
		node.field = (enum pfw_field)i;
		node.types = PFW_OPERAND_NULL |
			     (field_types[i] ? field_types[i] : PFW_OPERAND_NUMBER);
		parser->expr->meta |= i == PFW_FIELD_PH;
		return pfw_parser_add(parser, &node);
	}
	return pfw_parser_fail(
		parser, start,
		"there is no field %.*s: id name cat pid tid ts dur ph rank step args.X",
		(int)(pfw_parser_word(parser) > 60 ? 60 : pfw_parser_word(parser)), start);
}
