/* expr_may.c - whether an expression can be true of lines of which only a part is known. */
#include <string.h>

#include "expr_nodes.h"

enum verdict {
	NEVER,	/* false of every line */
	ALWAYS, /* true of every line */
	MAYBE,
};

/* ---- what is known ---- */

static bool know_text(struct pfw_operand *value, const struct pfw_slice *text)
{
	/* What an index has as "" may be null as well. */
	if (!text->at || !text->bytes)
		return false;
	value->type = PFW_OPERAND_TEXT;
	value->text = *text;
	return true;
}

static bool know_field(enum pfw_field field, const struct pfw_expr_facts *facts,
		       struct pfw_operand *value)
{
	switch (field) {
	case PFW_FIELD_NAME:
		return know_text(value, &facts->name);
	case PFW_FIELD_CAT:
		return know_text(value, &facts->cat);
	case PFW_FIELD_PH:
		/* Readers make a '?' of all that they do not know, and of nothing. */
		if (!facts->ph || facts->ph == '?')
			return false;
		return know_text(value, &(struct pfw_slice){ .at = &facts->ph, .bytes = 1 });
	case PFW_FIELD_RANK:
		if (facts->rank == PFW_EXPR_ANY_RANK)
			return false;
		value->type = PFW_OPERAND_NULL;
		if (facts->rank >= 0)
			pfw_operand_set_integer(value, facts->rank);
		return true;
	case PFW_FIELD_PID:
	case PFW_FIELD_TID:
		/* 0 stands for null, too. */
		if (!facts->thread || !(field == PFW_FIELD_PID ? facts->pid : facts->tid))
			return false;
		pfw_operand_set_integer(value, field == PFW_FIELD_PID ? facts->pid : facts->tid);
		return true;
	default:
		return false;
	}
}

/* The value of a node where that is the same in all lines. */
static bool know(const struct pfw_expr *expr, uint32_t index, const struct pfw_expr_facts *facts,
		 struct pfw_operand *value)
{
	const struct pfw_node *node = &expr->node[index];

	switch (node->kind) {
	case PFW_NODE_CONSTANT:
		*value = node->value;
		return true;
	case PFW_NODE_FIELD:
		return know_field(node->field, facts, value);
	case PFW_NODE_ARG:
		if (strcmp(expr->path[node->index].keys, "fname") != 0)
			return false;
		value->type = PFW_OPERAND_NULL;
		/* What is below a text or nothing is nothing. */
		if (facts->no_fname || (facts->fname.at && expr->path[node->index].bytes > 7))
			return true;
		return know_text(value, &facts->fname);
	default:
		return false;
	}
}

/* ---- times ---- */

/* Whether `low <= x <= high` can be in that relation to `ns`. */
static bool range_may(enum pfw_op op, int64_t low, int64_t high, int64_t ns)
{
	switch (op) {
	case PFW_OP_EQ:
		return low <= ns && ns <= high;
	case PFW_OP_LT:
		return low < ns;
	case PFW_OP_LE:
		return low <= ns;
	case PFW_OP_GT:
		return high > ns;
	case PFW_OP_GE:
		return high >= ns;
	default:
		return true;
	}
}

static bool ns_may(const struct pfw_node *node, const struct pfw_expr_facts *facts)
{
	int64_t longest;

	if (!facts->times || node->op == PFW_OP_NE)
		return true;
	if (facts->least_ns > facts->greatest_ns)
		return false; /* no line has a time, and null is in no such relation */
	if (node->field == PFW_FIELD_TS)
		return range_may(node->op, facts->least_ns, facts->greatest_ns, node->ns);
	if (__builtin_sub_overflow(facts->greatest_ns, facts->least_ns, &longest))
		return true;
	return range_may(node->op, INT64_MIN, longest, node->ns);
}

/* ---- verdicts ---- */

static enum verdict certain(bool truth)
{
	return truth ? ALWAYS : NEVER;
}

static enum verdict judge_in(const struct pfw_expr *expr, const struct pfw_node *node,
			     const struct pfw_operand *value)
{
	for (uint32_t i = node->index; i < node->last; i++) {
		if (pfw_operand_compare(PFW_OP_EQ, value, &expr->constant[i]))
			return ALWAYS;
	}
	return NEVER;
}

/* What compares or tests values: certain where they are known. */
static enum verdict judge_values(const struct pfw_expr *expr, const struct pfw_node *node,
				 const struct pfw_expr_facts *facts)
{
	struct pfw_operand left, right;

	if (!know(expr, node->left, facts, &left))
		return MAYBE;
	switch (node->kind) {
	case PFW_NODE_COMPARE:
		if (!know(expr, node->right, facts, &right))
			return MAYBE;
		return certain(pfw_operand_compare(node->op, &left, &right));
	case PFW_NODE_IN:
		return judge_in(expr, node, &left);
	case PFW_NODE_MATCH:
		return certain(
			left.type == PFW_OPERAND_TEXT &&
			pfw_regex_find(&expr->regex[node->index], left.text.at, left.text.bytes));
	default: /* has() */
		return certain(left.type != PFW_OPERAND_NULL);
	}
}

static enum verdict judge(const struct pfw_expr *expr, uint32_t index,
			  const struct pfw_expr_facts *facts)
{
	const struct pfw_node *node = &expr->node[index];
	enum verdict left, right;

	switch (node->kind) {
	case PFW_NODE_CONSTANT:
		return certain(node->value.type == PFW_OPERAND_TRUTH && node->value.truth);
	case PFW_NODE_AND:
	case PFW_NODE_OR:
		left = judge(expr, node->left, facts);
		right = judge(expr, node->right, facts);
		if (left == right)
			return left;
		if (node->kind == PFW_NODE_AND)
			return left == NEVER || right == NEVER ? NEVER : MAYBE;
		return left == ALWAYS || right == ALWAYS ? ALWAYS : MAYBE;
	case PFW_NODE_NOT:
		left = judge(expr, node->left, facts);
		return left == MAYBE ? MAYBE : certain(left == NEVER);
	case PFW_NODE_NS:
		return ns_may(node, facts) ? MAYBE : NEVER;
	case PFW_NODE_COMPARE:
	case PFW_NODE_IN:
	case PFW_NODE_MATCH:
	case PFW_NODE_HAS:
		return judge_values(expr, node, facts);
	default: /* an argument alone: true where it is `true` */
		return MAYBE;
	}
}

bool pfw_expr_may(const struct pfw_expr *expr, const struct pfw_expr_facts *facts)
{
	return judge(expr, expr->top, facts) != NEVER;
}

static int64_t least_dur(const struct pfw_expr *expr, uint32_t index)
{
	const struct pfw_node *node = &expr->node[index];
	int64_t left, right;

	if (node->kind == PFW_NODE_NS && node->field == PFW_FIELD_DUR &&
	    (node->op == PFW_OP_GT || node->op == PFW_OP_GE || node->op == PFW_OP_EQ))
		return node->ns > 0 ? node->ns : 0;
	if (node->kind != PFW_NODE_AND && node->kind != PFW_NODE_OR)
		return 0;
	left = least_dur(expr, node->left);
	right = least_dur(expr, node->right);
	return (left < right) == (node->kind == PFW_NODE_AND) ? right : left;
}

int64_t pfw_expr_least_dur(const struct pfw_expr *expr)
{
	return least_dur(expr, expr->top);
}
