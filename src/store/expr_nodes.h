/* expr_nodes.h - a compiled expression: the half of expr that its parts share. */
#ifndef PFW_EXPR_NODES_H
#define PFW_EXPR_NODES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "expr.h"
#include "expr_regex.h"
#include "fnames.h"

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
	__int128 thousandths; /* exact */
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

/* A JSON number as written.  Thread: any, as all here. */
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

/* left op right, op one of + - * /. */
struct pfw_operand pfw_operand_calculate(enum pfw_op op, const struct pfw_operand *left,
					 const struct pfw_operand *right);

/* left op right, op a comparison; texts without escapes. */
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
	PFW_FIELD_STEP, /* args.step, where it is a number */
	PFW_FIELDS,
};

/* The key of the line that a field is: enum pfw_entry_key; 0: rank, step is in the args. */
static inline unsigned pfw_field_key(enum pfw_field field)
{
	static const uint16_t keys[PFW_FIELDS] = {
		PFW_ENTRY_ID,	PFW_ENTRY_NAME, PFW_ENTRY_CAT,
		PFW_ENTRY_PID,	PFW_ENTRY_TID,	PFW_ENTRY_TS,
		PFW_ENTRY_DUR,	PFW_ENTRY_PH,	0,
		PFW_ENTRY_ARGS,
	};

	return keys[field];
}

enum pfw_node_kind {
	PFW_NODE_CONSTANT, /* value */
	PFW_NODE_FIELD,	   /* field */
	PFW_NODE_ARG,	   /* index: of paths */
	PFW_NODE_HAS,	   /* left */
	PFW_NODE_NOT,	   /* left */
	PFW_NODE_AND,	   /* left, right */
	PFW_NODE_OR,
	PFW_NODE_COMPARE, /* op */
	PFW_NODE_NS,	  /* op: the field ts or dur, with constant ns: the fast case of COMPARE */
	PFW_NODE_CALCULATE, /* op */
	PFW_NODE_MATCH,	    /* left, index: of regexes */
	PFW_NODE_IN,	    /* left, constants from index to last */
};

struct pfw_node {
	enum pfw_node_kind kind;
	enum pfw_op op;
	enum pfw_field field;
	unsigned types;	 /* what its value can be: enum pfw_operand_type */
	unsigned column; /* in the text, in bytes */
	uint32_t left, right;
	uint32_t index, last;
	int64_t ns;
	struct pfw_operand value;
};

/* args.a.b: keys one after the other, each with its NUL, then an empty one. */
struct pfw_expr_path {
	char *keys;
	size_t bytes;
};

struct pfw_expr {
	struct pfw_node *node;
	uint32_t count, room, top;
	struct pfw_operand *constant; /* of `in` */
	uint32_t constant_count, constant_room;
	struct pfw_expr_path *path;
	uint32_t path_count, path_room;
	struct pfw_regex *regex;
	uint32_t regex_count, regex_room;
	char *texts; /* of all constants */
	size_t texts_used;
	bool meta;
};

/* An empty one, for a text of so many bytes; NULL: no memory. */
struct pfw_expr *pfw_expr_new(size_t bytes);

/* What is at that path in the args of a line; `fnames` may be NULL.  Thread: any. */
bool pfw_expr_path_find(const struct pfw_expr_path *path, const struct pfw_entry *entry,
			const struct pfw_fnames *fnames, struct pfw_value *value);

#endif
