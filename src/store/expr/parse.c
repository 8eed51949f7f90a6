/* store/expr/parse.c - parser of `--where`: operators and type checks; see expr.h. */

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "store/expr/expr.h"
#include "store/expr/internal.h"
#include "store/kit/grow.h"

/* ---- operators ---- */

static uint32_t parse_joined(struct pfw_parser *parser, enum pfw_node_kind kind);

static const char *type_name(unsigned types)
{
	return types & PFW_OPERAND_NUMBER  ? "a number"
	       : types & PFW_OPERAND_TEXT  ? "a text"
	       : types & PFW_OPERAND_TRUTH ? "a condition"
					   : "null";
}

/* Whether a node can be a condition; reports an error if not. */
static bool is_condition(struct pfw_parser *parser, uint32_t index)
{
	const struct pfw_node *node;

	if (index == PFW_PARSER_NOTHING)
		return false;
	node = &parser->expr->node[index];
	if (node->types & PFW_OPERAND_TRUTH)
		return true;
	pfw_parser_fail(parser, parser->text + node->column,
			"a condition is expected here, and this is %s", type_name(node->types));
	return false;
}

static uint32_t parse_has(struct pfw_parser *parser, const char *start)
{
	struct pfw_node node = { .kind = PFW_NODE_HAS,
				 .types = PFW_OPERAND_TRUTH,
				 .column = (unsigned)(start - parser->text) };

	if (!pfw_parser_take(parser, "("))
		return pfw_parser_fail(parser, parser->at, "has(args.errno): a ( is expected here");
	pfw_parser_space(parser);
	if (!pfw_parser_word(parser))
		return pfw_parser_fail(parser, parser->at,
				       "has(args.errno): a field is expected here");
	node.left = pfw_parser_field(parser);
	if (node.left == PFW_PARSER_NOTHING)
		return PFW_PARSER_NOTHING;
	if (!pfw_parser_take(parser, ")"))
		return pfw_parser_fail(parser, parser->at, "a ) is expected here");
	return pfw_parser_add(parser, &node);
}

static uint32_t parse_primary(struct pfw_parser *parser)
{
	const char *start;
	uint32_t inner;

	pfw_parser_space(parser);
	start = parser->at;
	if (start == parser->end)
		return pfw_parser_fail(parser, start, "something is missing here");
	if (pfw_parser_is_digit(*start))
		return pfw_parser_number(parser);
	if (*start == '"' || *start == '\'')
		return pfw_parser_text(parser);
	if (pfw_parser_take_word(parser, "has"))
		return parse_has(parser, start);
	if (pfw_parser_is_letter(*start))
		return pfw_parser_field(parser);
	if (!pfw_parser_take(parser, "("))
		return pfw_parser_fail(parser, start,
				       "a field, a number, a \"text\" or ( is expected here");
	inner = parse_joined(parser, PFW_NODE_OR);
	if (inner != PFW_PARSER_NOTHING && !pfw_parser_take(parser, ")"))
		return pfw_parser_fail(parser, parser->at,
				       "a ) is expected here, for the ( at column %zu",
				       (size_t)(start - parser->text) + 1);
	return inner;
}

static uint32_t calculate(struct pfw_parser *parser, enum pfw_op op, uint32_t left, uint32_t right)
{
	struct pfw_node node = { .kind = PFW_NODE_CALCULATE,
				 .op = op,
				 .types = PFW_OPERAND_NUMBER | PFW_OPERAND_NULL,
				 .left = left,
				 .right = right };
	uint32_t sides[2] = { left, right };
	struct pfw_node *nodes = parser->expr->node;
	struct pfw_operand value;

	if (left == PFW_PARSER_NOTHING || right == PFW_PARSER_NOTHING)
		return PFW_PARSER_NOTHING;
	for (int i = 0; i < 2; i++) {
		if (!(nodes[sides[i]].types & PFW_OPERAND_NUMBER) &&
		    nodes[sides[i]].types != PFW_OPERAND_NULL)
			return pfw_parser_fail(parser, parser->text + nodes[sides[i]].column,
					       "a number is expected here");
	}
	node.column = nodes[left].column;
	if (nodes[left].kind != PFW_NODE_CONSTANT || nodes[right].kind != PFW_NODE_CONSTANT)
		return pfw_parser_add(parser, &node);
	value = pfw_operand_calculate(op, &nodes[left].value, &nodes[right].value);
	return pfw_parser_add_constant(parser, parser->text + node.column, &value);
}

static bool deeper(struct pfw_parser *parser)
{
	if (++parser->depth <= PFW_EXPR_DEPTH)
		return true;
	pfw_parser_fail(parser, parser->at, "nested too deeply, more than %u levels",
			PFW_EXPR_DEPTH);
	return false;
}

/* Prefix - and !. */
static uint32_t parse_unary(struct pfw_parser *parser)
{
	static const struct pfw_operand zero = { .type = PFW_OPERAND_NUMBER, .number.exact = true };
	struct pfw_node node = { .kind = PFW_NODE_NOT, .types = PFW_OPERAND_TRUTH };
	const char *start;
	uint32_t inner = PFW_PARSER_NOTHING;

	pfw_parser_space(parser);
	start = parser->at;
	if (!deeper(parser))
		return PFW_PARSER_NOTHING;
	if (pfw_parser_take(parser, "-")) {
		inner = parse_unary(parser);
		inner = calculate(parser, PFW_OP_SUB, pfw_parser_add_constant(parser, start, &zero),
				  inner);
	} else if (parser->end - start >= 2 && *start == '!' && start[1] != '=' &&
		   start[1] != '~') {
		parser->at++;
		node.column = (unsigned)(start - parser->text);
		node.left = parse_unary(parser);
		if (is_condition(parser, node.left))
			inner = pfw_parser_add(parser, &node);
	} else {
		inner = parse_primary(parser);
	}
	parser->depth--;
	return inner;
}

/* + and - at level 0, * and / at level 1. */
static uint32_t parse_calculation(struct pfw_parser *parser, unsigned level)
{
	static const char *const words[2][2] = { { "+", "-" }, { "*", "/" } };
	static const enum pfw_op ops[2][2] = { { PFW_OP_ADD, PFW_OP_SUB },
					       { PFW_OP_MUL, PFW_OP_DIV } };
	uint32_t left, right;

	if (level == 2)
		return parse_unary(parser);
	left = parse_calculation(parser, level + 1);
	while (left != PFW_PARSER_NOTHING) {
		bool second = !pfw_parser_take(parser, words[level][0]);

		if (second && !pfw_parser_take(parser, words[level][1]))
			break;
		right = parse_calculation(parser, level + 1);
		left = calculate(parser, ops[level][second], left, right);
	}
	return left;
}

/* ---- comparisons ---- */

/* Use the fast case for ts or dur against a 64-bit constant. */
static void make_fast(struct pfw_expr *expr, struct pfw_node *node)
{
	const struct pfw_node *left = &expr->node[node->left], *right = &expr->node[node->right];

	if (left->kind != PFW_NODE_FIELD ||
	    (left->field != PFW_FIELD_TS && left->field != PFW_FIELD_DUR) ||
	    right->kind != PFW_NODE_CONSTANT || right->types != PFW_OPERAND_NUMBER ||
	    !right->value.number.exact || right->value.number.thousandths > INT64_MAX ||
	    right->value.number.thousandths < INT64_MIN)
		return;
	node->kind = PFW_NODE_NS;
	node->field = left->field;
	node->ns = (int64_t)right->value.number.thousandths;
}

/* cat == "pfw" selects metadata lines. */
static void look_for_meta(struct pfw_expr *expr, uint32_t left, const struct pfw_operand *value)
{
	const struct pfw_node *node = &expr->node[left];

	expr->meta |= node->kind == PFW_NODE_FIELD && node->field == PFW_FIELD_CAT &&
		      value->type == PFW_OPERAND_TEXT && value->text.bytes == 3 &&
		      memcmp(value->text.at, "pfw", 3) == 0;
}

static uint32_t compare(struct pfw_parser *parser, enum pfw_op op, uint32_t left, const char *at)
{
	struct pfw_node node = { .kind = PFW_NODE_COMPARE,
				 .op = op,
				 .types = PFW_OPERAND_TRUTH,
				 .column = (unsigned)(at - parser->text),
				 .left = left };
	const struct pfw_node *nodes;
	unsigned both;

	node.right = parse_calculation(parser, 0);
	if (node.right == PFW_PARSER_NOTHING)
		return PFW_PARSER_NOTHING;
	nodes = parser->expr->node;
	both = nodes[left].types & nodes[node.right].types;
	if (!(both & (unsigned)~PFW_OPERAND_NULL) && nodes[left].types != PFW_OPERAND_NULL &&
	    nodes[node.right].types != PFW_OPERAND_NULL)
		return pfw_parser_fail(parser, at, "%s is never compared with %s",
				       type_name(nodes[left].types),
				       type_name(nodes[node.right].types));
	if (nodes[node.right].kind == PFW_NODE_CONSTANT)
		look_for_meta(parser->expr, left, &nodes[node.right].value);
	if (nodes[left].kind == PFW_NODE_CONSTANT)
		look_for_meta(parser->expr, node.right, &nodes[left].value);
	make_fast(parser->expr, &node);
	return pfw_parser_add(parser, &node);
}

static uint32_t match(struct pfw_parser *parser, uint32_t left, bool no)
{
	struct pfw_expr *expr = parser->expr;
	struct pfw_node node = { .kind = PFW_NODE_MATCH,
				 .types = PFW_OPERAND_TRUTH,
				 .left = left,
				 .index = expr->regex_count };
	struct pfw_node negated = { .kind = PFW_NODE_NOT, .types = PFW_OPERAND_TRUTH };
	const char *start, *end;
	char why[128] = "";
	int error;

	pfw_parser_space(parser);
	start = parser->at;
	node.column = negated.column = (unsigned)(start - parser->text);
	if (!(expr->node[left].types & PFW_OPERAND_TEXT))
		return pfw_parser_fail(parser, parser->text + expr->node[left].column,
				       "a text is expected here");
	if (start == parser->end || (*start != '"' && *start != '\''))
		return pfw_parser_fail(parser, start, "a \"pattern\" is expected here");
	end = pfw_parser_quote(parser, start);
	if (!end)
		return pfw_parser_fail(parser, start, "no %c ends the pattern that begins here",
				       *start);
	if (memchr(start, '\0', (size_t)(end - start)))
		return pfw_parser_fail(parser, start, "a NUL in the pattern");
	if (PFW_LIST_ROOM(expr->regex, expr->regex_count))
		return pfw_parser_no_memory(parser);
	error = pfw_regex_init(&expr->regex[expr->regex_count], start + 1,
			       (size_t)(end - start - 1), why, sizeof(why));
	if (error)
		return error == -ENOMEM ? pfw_parser_no_memory(parser)
					: pfw_parser_fail(parser, start, "%s", why);
	expr->regex_count++;
	parser->at = end + 1;
	negated.left = pfw_parser_add(parser, &node);
	return no && negated.left != PFW_PARSER_NOTHING ? pfw_parser_add(parser, &negated)
							: negated.left;
}

/* After `in`: constants in parentheses. */
static uint32_t parse_in(struct pfw_parser *parser, uint32_t left, const char *at)
{
	struct pfw_expr *expr = parser->expr;
	struct pfw_node node = { .kind = PFW_NODE_IN,
				 .types = PFW_OPERAND_TRUTH,
				 .column = (unsigned)(at - parser->text),
				 .left = left,
				 .index = expr->constant_count };

	if (!pfw_parser_take(parser, "("))
		return pfw_parser_fail(parser, parser->at, "a ( is expected here: in (1, 2, 3)");
	do {
		const char *start;
		uint32_t value;

		pfw_parser_space(parser);
		start = parser->at;
		value = parse_unary(parser);
		if (value == PFW_PARSER_NOTHING)
			return PFW_PARSER_NOTHING;
		if (expr->node[value].kind != PFW_NODE_CONSTANT)
			return pfw_parser_fail(parser, start, "`in` takes constants only");
		look_for_meta(expr, left, &expr->node[value].value);
		if (PFW_APPEND(expr->constant, expr->constant_count, expr->node[value].value))
			return pfw_parser_no_memory(parser);
	} while (pfw_parser_take(parser, ","));
	if (!pfw_parser_take(parser, ")"))
		return pfw_parser_fail(parser, parser->at, "a , or ) is expected here");
	node.last = expr->constant_count;
	return pfw_parser_add(parser, &node);
}

static bool at_comparison(struct pfw_parser *parser, enum pfw_op *op)
{
	static const struct {
		const char *word;
		enum pfw_op op;
	} words[] = { { "==", PFW_OP_EQ }, { "!=", PFW_OP_NE }, { "<=", PFW_OP_LE },
		      { ">=", PFW_OP_GE }, { "<", PFW_OP_LT },	{ ">", PFW_OP_GT } };

	for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++) {
		if (pfw_parser_take(parser, words[i].word)) {
			*op = words[i].op;
			return true;
		}
	}
	return false;
}

static uint32_t parse_comparison(struct pfw_parser *parser)
{
	uint32_t left = parse_calculation(parser, 0), result = left;
	enum pfw_op op = PFW_OP_EQ;
	const char *at;

	if (left == PFW_PARSER_NOTHING)
		return PFW_PARSER_NOTHING;
	pfw_parser_space(parser);
	at = parser->at;
	if (pfw_parser_take(parser, "=~"))
		result = match(parser, left, false);
	else if (pfw_parser_take(parser, "!~"))
		result = match(parser, left, true);
	else if (at_comparison(parser, &op))
		result = compare(parser, op, left, at);
	else if (pfw_parser_take_word(parser, "in"))
		result = parse_in(parser, left, at);
	else if (pfw_parser_take(parser, "="))
		return pfw_parser_fail(parser, at, "`=` is no operator: == compares, =~ matches");
	pfw_parser_space(parser);
	at = parser->at;
	if (result != left && result != PFW_PARSER_NOTHING && at_comparison(parser, &op))
		return pfw_parser_fail(parser, at, "comparisons do not chain: a<b && b<c");
	return result;
}

/* Conditions joined by || (kind OR) or by && (AND), which binds closer. */
static uint32_t parse_joined(struct pfw_parser *parser, enum pfw_node_kind kind)
{
	bool or = kind == PFW_NODE_OR;
	struct pfw_node node = { .kind = kind, .types = PFW_OPERAND_TRUTH };
	uint32_t left = or ? parse_joined(parser, PFW_NODE_AND) : parse_comparison(parser);

	while (left != PFW_PARSER_NOTHING && pfw_parser_take(parser, or ? "||" : "&&")) {
		node.left = left;
		node.right = or ? parse_joined(parser, PFW_NODE_AND) : parse_comparison(parser);
		if (!is_condition(parser, node.left) || !is_condition(parser, node.right))
			return PFW_PARSER_NOTHING;
		node.column = parser->expr->node[left].column;
		left = pfw_parser_add(parser, &node);
	}
	return left;
}

/* ---- the whole ---- */

static void parse(struct pfw_parser *parser)
{
	const char *at;

	pfw_parser_space(parser);
	if (parser->at == parser->end) {
		pfw_parser_fail(parser, parser->at, "the expression is empty");
		return;
	}
	parser->expr->top = parse_joined(parser, PFW_NODE_OR);
	if (!is_condition(parser, parser->expr->top))
		return;
	pfw_parser_space(parser);
	at = parser->at;
	if (at == parser->end)
		return;
	if (*at == '&' || *at == '|')
		pfw_parser_fail(parser, at, "want && or ||");
	else
		pfw_parser_fail(
			parser, at,
			"an operator is expected here (== != < <= > >= =~ !~ in + - * / && ||)");
}

struct pfw_expr *pfw_expr_new(size_t bytes)
{
	/* An unescaped text is never longer than its source; decoding needs 8 spare bytes. */
	return calloc(1, sizeof(struct pfw_expr) + bytes + 16);
}

int pfw_expr_compile(struct pfw_expr **out, const char *text, char *why, size_t size)
{
	size_t bytes = strlen(text);
	struct pfw_parser parser = {
		.text = text, .at = text, .end = text + bytes, .why = why, .size = size
	};

	if (bytes > PFW_EXPR_BYTES) {
		snprintf(why, size, "an expression has at most %d bytes", PFW_EXPR_BYTES);
		return -EINVAL;
	}
	parser.expr = pfw_expr_new(bytes);
	if (!parser.expr)
		return -ENOMEM;
	parse(&parser);
	if (parser.error) {
		pfw_expr_free(parser.expr);
		return parser.error;
	}
	*out = parser.expr;
	return 0;
}

void pfw_expr_free(struct pfw_expr *expr)
{
	if (!expr)
		return;
	for (uint32_t i = 0; i < expr->path_count; i++)
		free(expr->path[i].keys);
	for (uint32_t i = 0; i < expr->regex_count; i++)
		pfw_regex_release(&expr->regex[i]);
	free(expr->node);
	free(expr->constant);
	free(expr->path);
	free(expr->regex);
	free(expr);
}

bool pfw_expr_wants_meta(const struct pfw_expr *expr)
{
	return expr->meta;
}

bool pfw_expr_asks_name(const struct pfw_expr *expr)
{
	for (uint32_t i = 0; i < expr->count; i++) {
		if (expr->node[i].kind == PFW_NODE_FIELD && expr->node[i].field == PFW_FIELD_NAME)
			return true;
	}
	return false;
}

bool pfw_expr_asks_only(const struct pfw_expr *expr, bool (*known)(const struct pfw_slice *key))
{
	for (uint32_t i = 0; i < expr->count; i++) {
		const struct pfw_node *node = &expr->node[i];

		if (node->kind == PFW_NODE_NS ||
		    (node->kind == PFW_NODE_FIELD && node->field != PFW_FIELD_CAT &&
		     node->field != PFW_FIELD_NAME))
			return false;
	}
	for (uint32_t i = 0; i < expr->path_count; i++) {
		const struct pfw_expr_path *path = &expr->path[i];
		const struct pfw_slice key = { .at = path->keys, .bytes = strlen(path->keys) };

		/* One of several keys is in an object inside. */
		if (path->keys[key.bytes + 1] || !known(&key))
			return false;
	}
	return true;
}

bool pfw_expr_asks_fname(const struct pfw_expr *expr)
{
	for (uint32_t i = 0; i < expr->path_count; i++) {
		if (strcmp(expr->path[i].keys, "fname") == 0)
			return true;
	}
	return false;
}
