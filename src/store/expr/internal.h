/* store/expr/internal.h - the compiled form of an expression, and its parser. */
#pragma once

#include "store/expr/expr.h"
#include "store/pass/fname_hashes.h"
#include "store/regex/regex.h"

/* ---- values ---- */

enum pfw_operand_type {
	PFW_OPERAND_NULL = 1 << 0,
	PFW_OPERAND_TRUTH = 1 << 1,
	PFW_OPERAND_NUMBER = 1 << 2,
	PFW_OPERAND_TEXT = 1 << 3,
	PFW_OPERAND_OTHER = 1 << 4, /* an object or an array: equal to nothing */
	PFW_OPERAND_ANY = 31,
};

struct pfw_number {
	bool exact;
	__int128 thousandths; /* if exact */
	double real;	      /* else */
};

struct pfw_operand {
	enum pfw_operand_type type;
	bool truth;
	struct pfw_number number;
	struct pfw_slice text;
};

static inline void pfw_operand_set_integer(struct pfw_operand *value, __int128 integer)
{
	value->type = PFW_OPERAND_NUMBER;
	value->number.exact = true;
	value->number.thousandths = integer * 1000;
}

/* Read a JSON number.  Thread: any, as all here. */
struct pfw_number pfw_number_read(const struct pfw_slice *text);

enum pfw_op {
	PFW_OP_EQ,
	PFW_OP_NE,
	PFW_OP_LT,
	PFW_OP_LE,
	PFW_OP_GT,
	PFW_OP_GE,
	PFW_OP_ADD,
	PFW_OP_SUB,
	PFW_OP_MUL,
	PFW_OP_DIV,
};

/* Whether a comparison holds for values in this order: -1, 0 or 1; never at 2. */
static inline bool pfw_op_holds(enum pfw_op op, int order)
{
	static const uint8_t orders[] = { 2, 5, 1, 3, 4, 6 }; /* bit n of [op]: order n - 1 */

	return orders[op] >> (order + 1) & 1;
}

/* left op right, for op + - * or /. */
struct pfw_operand pfw_operand_calculate(enum pfw_op op, const struct pfw_operand *left,
					 const struct pfw_operand *right);

/* left op right, for comparisons; texts must be unescaped. */
bool pfw_operand_compare(enum pfw_op op, const struct pfw_operand *left,
			 const struct pfw_operand *right);

/* ---- nodes ---- */

enum pfw_field {
	PFW_FIELD_ID,
	PFW_FIELD_NAME,
	PFW_FIELD_CAT,
	PFW_FIELD_PID,
	PFW_FIELD_TID,
	PFW_FIELD_TS,
	PFW_FIELD_DUR,
	PFW_FIELD_PH,
	PFW_FIELD_RANK,
	PFW_FIELD_STEP, /* args.step, if it is a number */
	PFW_FIELDS,
};

/* Its key (enum pfw_entry_key; 0 for rank, the key of args for step) and place in an entry. */
struct pfw_field_info {
	const char *name;
	unsigned key;
	enum pfw_operand_type type;
	size_t at;
};

extern const struct pfw_field_info pfw_fields[PFW_FIELDS];

/* Whether an entry has this field, and with a valid value. */
static inline bool pfw_field_in(enum pfw_field field, const struct pfw_entry *entry)
{
	return entry->has & ~entry->wrong & pfw_fields[field].key;
}

enum pfw_node_kind {
	PFW_NODE_CONSTANT, /* value */
	PFW_NODE_FIELD,	   /* field */
	PFW_NODE_ARG,	   /* index: of paths */
	PFW_NODE_HAS,	   /* left */
	PFW_NODE_NOT,	   /* left */
	PFW_NODE_AND,	   /* left, right */
	PFW_NODE_OR,
	PFW_NODE_COMPARE,   /* op */
	PFW_NODE_NS,	    /* op: ts or dur against ns, the fast case of COMPARE */
	PFW_NODE_CALCULATE, /* op */
	PFW_NODE_MATCH,	    /* left, index: of regexes */
	PFW_NODE_IN,	    /* left, constants from index to last */
};

struct pfw_node {
	enum pfw_node_kind kind;
	enum pfw_op op;
	enum pfw_field field;
	unsigned types;	 /* possible types of its value: enum pfw_operand_type */
	unsigned column; /* byte of the text */
	uint32_t left, right;
	uint32_t index, last;
	int64_t ns;
	struct pfw_operand value;
};

/* args.a.b: keys with a NUL each, then an empty key. */
struct pfw_expr_path {
	char *keys;
	size_t bytes;
};

struct pfw_expr {
	struct pfw_node *node;
	uint32_t count, top;
	struct pfw_operand *constant; /* of `in` */
	uint32_t constant_count;
	struct pfw_expr_path *path;
	uint32_t path_count;
	struct pfw_regex *regex;
	uint32_t regex_count;
	size_t texts_used;
	bool meta;
	char texts[]; /* of all constants */
};

/* Create an empty expression for a text of `bytes` bytes; NULL: no memory. */
struct pfw_expr *pfw_expr_new(size_t bytes);

/* Whether a node of kind COMPARE, IN, MATCH or HAS holds for its operands; `right` is COMPARE's. */
static inline bool pfw_expr_holds(const struct pfw_expr *expr, struct pfw_regex *regex,
				  const struct pfw_node *node, const struct pfw_operand *left,
				  const struct pfw_operand *right)
{
	switch (node->kind) {
	case PFW_NODE_COMPARE:
		return pfw_operand_compare(node->op, left, right);
	case PFW_NODE_IN:
		for (uint32_t i = node->index; i < node->last; i++) {
			if (pfw_operand_compare(PFW_OP_EQ, left, &expr->constant[i]))
				return true;
		}
		return false;
	case PFW_NODE_MATCH:
		return left->type == PFW_OPERAND_TEXT &&
		       pfw_regex_find(&regex[node->index], left->text.at, left->text.bytes);
	default: /* has() */
		return left->type != PFW_OPERAND_NULL;
	}
}

/* Look up a path in the args of a line; `fnames` may be NULL.  Thread: any. */
bool pfw_expr_path_find(const struct pfw_expr_path *path, const struct pfw_entry *entry,
			const struct pfw_fname_hashes *fnames, struct pfw_value *value);

/* ---- the parser: parse.c, leaf.c, columns.c ---- */

#define PFW_PARSER_NOTHING UINT32_MAX /* no node: an error was reported */

struct pfw_parser {
	struct pfw_expr *expr;
	const char *text, *at, *end;
	unsigned depth;
	int error; /* 0, -EINVAL with `why`, -ENOMEM */
	char *why;
	size_t size;
};

/* The functions that return uint32_t return the index of a node, or PFW_PARSER_NOTHING.  Thread:
 * the parser's. */

/* Report an error at that place; only the first error counts. */
__attribute__((format(printf, 3, 4))) uint32_t
pfw_parser_fail(struct pfw_parser *parser, const char *at, const char *format, ...);
uint32_t pfw_parser_no_memory(struct pfw_parser *parser);

uint32_t pfw_parser_add(struct pfw_parser *parser, const struct pfw_node *node);
uint32_t pfw_parser_add_constant(struct pfw_parser *parser, const char *at,
				 const struct pfw_operand *value);

/* Parse a constant that begins with a digit or a quote; or a field, true, false or null. */
uint32_t pfw_parser_number(struct pfw_parser *parser);
uint32_t pfw_parser_text(struct pfw_parser *parser);
uint32_t pfw_parser_field(struct pfw_parser *parser);

void pfw_parser_space(struct pfw_parser *parser);

/* Skip space, then these characters or this whole word; false: something else follows. */
bool pfw_parser_take(struct pfw_parser *parser, const char *characters);
bool pfw_parser_take_word(struct pfw_parser *parser, const char *word);

/* Length of the word at parser->at. */
size_t pfw_parser_word(const struct pfw_parser *parser);

/* The closing quote of the text whose opening quote is at `at`, or NULL. */
const char *pfw_parser_quote(const struct pfw_parser *parser, const char *at);

static inline bool pfw_parser_is_letter(char c)
{
	return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' || (c & 0x80);
}

static inline bool pfw_parser_is_digit(char c)
{
	return c >= '0' && c <= '9';
}
