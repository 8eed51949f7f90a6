/* store/expr/may.c - three-valued evaluation for lines of which only some facts are known. */
#include <string.h>

#include "store/expr/internal.h"

enum verdict {
	NEVER,	/* false for every line */
	ALWAYS, /* true for every line */
	MAYBE,
};

/* ---- facts ---- */

static bool know_text(struct pfw_operand *value, const struct pfw_slice *text)
{
	/* An index stores null as "", too. */
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
		/* Readers set '?' for an unknown or missing ph. */
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
		/* 0 may stand for null. */
		if (!facts->thread || !(field == PFW_FIELD_PID ? facts->pid : facts->tid))
			return false;
		pfw_operand_set_integer(value, field == PFW_FIELD_PID ? facts->pid : facts->tid);
		return true;
	default:
		return false;
	}
}

/* The value of a node if it is the same for all lines. */
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
		/* A key below a text or null is null. */
		if (facts->no_fname || (facts->fname.at && expr->path[node->index].bytes > 7))
			return true;
		return know_text(value, &facts->fname);
	default:
		return false;
	}
}

/* ---- times ---- */

/* Whether some x, low <= x <= high, may satisfy `x op ns`; op is not !=. */
static bool range_may(enum pfw_op op, int64_t low, int64_t high, int64_t ns)
{
	int64_t bound = op == PFW_OP_LT || op == PFW_OP_LE ? low : high;

	if (op == PFW_OP_EQ)
		return low <= ns && ns <= high;
	return pfw_op_holds(op, (bound > ns) - (bound < ns));
}

static bool ns_may(const struct pfw_node *node, const struct pfw_expr_facts *facts)
{
	int64_t longest;

	if (!facts->times || node->op == PFW_OP_NE)
		return true;
	if (facts->least_ns > facts->greatest_ns)
		return false; /* no line has a time, and null satisfies no such comparison */
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

/* Comparisons and tests: certain if the values are known. */
static enum verdict judge_values(const struct pfw_expr *expr, const struct pfw_node *node,
				 const struct pfw_expr_facts *facts)
{
	struct pfw_operand left, right;

	if (!know(expr, node->left, facts, &left) ||
	    (node->kind == PFW_NODE_COMPARE && !know(expr, node->right, facts, &right)))
		return MAYBE;
	return certain(pfw_expr_holds(expr, expr->regex, node, &left, &right));
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
	default: /* an argument or a field as a condition */
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
