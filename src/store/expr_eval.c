/* expr_eval.c - a compiled expression against a line. */
#include <stdlib.h>
#include <string.h>

#include "expr_nodes.h"
#include "scratch.h"

/* An argument of the line in hand, looked up at most once. */
struct slot {
	uint64_t line;
	struct pfw_operand value;
};

struct pfw_expr_state {
	const struct pfw_expr *expr;
	struct pfw_regex *regex;
	struct slot *slot; /* of each path */
	char *room[2];	   /* for texts without their escapes, of the two sides of a comparison */
	uint64_t line;	   /* counts them */
	const struct pfw_entry *entry;
	const struct pfw_fnames *fnames;
	int64_t rank;
};

/* ---- fields ---- */

static void set_value(struct pfw_operand *operand, const struct pfw_value *value)
{
	switch (value->type) {
	case PFW_VALUE_STRING:
		operand->type = PFW_OPERAND_TEXT;
		operand->text = value->text;
		break;
	case PFW_VALUE_NUMBER:
		operand->type = PFW_OPERAND_NUMBER;
		operand->number = pfw_number_read(&value->text);
		break;
	case PFW_VALUE_TRUE:
	case PFW_VALUE_FALSE:
		operand->type = PFW_OPERAND_TRUTH;
		operand->truth = value->type == PFW_VALUE_TRUE;
		break;
	case PFW_VALUE_NULL:
		operand->type = PFW_OPERAND_NULL;
		break;
	default:
		operand->type = PFW_OPERAND_OTHER;
	}
}

bool pfw_expr_path_find(const struct pfw_expr_path *path, const struct pfw_entry *entry,
			const struct pfw_fnames *fnames, struct pfw_value *value)
{
	const char *key = path->keys;

	if (!(strcmp(key, "fname") == 0 ? pfw_fnames_find(fnames, entry, value)
					: pfw_entry_arg(entry, key, value)))
		return false;
	for (key += strlen(key) + 1; *key; key += strlen(key) + 1) {
		struct pfw_slice object = value->text;

		if (value->type != PFW_VALUE_OBJECT || !pfw_object_find(&object, key, value))
			return false;
	}
	return true;
}

static void find_arg(const struct pfw_expr_state *state, const struct pfw_expr_path *path,
		     struct pfw_operand *operand)
{
	struct pfw_value value;

	operand->type = PFW_OPERAND_NULL;
	if (pfw_expr_path_find(path, state->entry, state->fnames, &value))
		set_value(operand, &value);
}

static const struct pfw_operand *arg(struct pfw_expr_state *state, uint32_t index)
{
	struct slot *slot = &state->slot[index];

	if (slot->line != state->line) {
		slot->line = state->line;
		find_arg(state, &state->expr->path[index], &slot->value);
	}
	return &slot->value;
}

static void set_number_field(struct pfw_operand *value, const struct pfw_entry *entry,
			     enum pfw_field field)
{
	struct pfw_value step;

	switch (field) {
	case PFW_FIELD_ID:
		pfw_operand_set_integer(value, entry->id);
		break;
	case PFW_FIELD_PID:
		pfw_operand_set_integer(value, entry->pid);
		break;
	case PFW_FIELD_TID:
		pfw_operand_set_integer(value, entry->tid);
		break;
	case PFW_FIELD_STEP:
		if (pfw_entry_arg(entry, "step", &step) && step.type == PFW_VALUE_NUMBER)
			set_value(value, &step);
		break;
	default:
		value->type = PFW_OPERAND_NUMBER;
		value->number.exact = true;
		value->number.thousandths = field == PFW_FIELD_TS ? entry->ts_ns : entry->dur_ns;
	}
}

static void set_field(struct pfw_expr_state *state, enum pfw_field field, struct pfw_operand *value)
{
	const struct pfw_entry *entry = state->entry;

	value->type = PFW_OPERAND_NULL;
	if (field == PFW_FIELD_RANK) {
		if (state->rank >= 0)
			pfw_operand_set_integer(value, state->rank);
		return;
	}
	if (!(entry->has & ~entry->wrong & pfw_field_key(field)))
		return;
	if (field == PFW_FIELD_NAME || field == PFW_FIELD_CAT) {
		value->type = PFW_OPERAND_TEXT;
		value->text = field == PFW_FIELD_NAME ? entry->name : entry->cat;
	} else if (field == PFW_FIELD_PH) {
		value->type = PFW_OPERAND_TEXT;
		value->text = (struct pfw_slice){ .at = &entry->ph, .bytes = 1 };
	} else {
		set_number_field(value, entry, field);
	}
}

/* ---- a line ---- */

static bool truth_of(struct pfw_expr_state *state, uint32_t index);

/* The value of a node; a text may still have its escapes. */
static void value_of(struct pfw_expr_state *state, uint32_t index, struct pfw_operand *value)
{
	const struct pfw_node *node = &state->expr->node[index];
	struct pfw_operand left, right;

	switch (node->kind) {
	case PFW_NODE_CONSTANT:
		*value = node->value;
		break;
	case PFW_NODE_FIELD:
		set_field(state, node->field, value);
		break;
	case PFW_NODE_ARG:
		*value = *arg(state, node->index);
		break;
	case PFW_NODE_CALCULATE:
		value_of(state, node->left, &left);
		value_of(state, node->right, &right);
		*value = pfw_operand_calculate(node->op, &left, &right);
		break;
	default:
		value->type = PFW_OPERAND_TRUTH;
		value->truth = truth_of(state, index);
	}
}

/* Resolve the escapes of a text, in the room of its side. */
static void resolve(struct pfw_expr_state *state, int side, struct pfw_operand *value)
{
	if (value->type == PFW_OPERAND_TEXT)
		value->text = pfw_scratch_plain(value->text, state->room[side]);
}

static bool compare(struct pfw_expr_state *state, const struct pfw_node *node)
{
	struct pfw_operand left, right;

	value_of(state, node->left, &left);
	value_of(state, node->right, &right);
	resolve(state, 0, &left);
	resolve(state, 1, &right);
	return pfw_operand_compare(node->op, &left, &right);
}

static bool compare_ns(const struct pfw_entry *entry, const struct pfw_node *node)
{
	int64_t ns = node->field == PFW_FIELD_TS ? entry->ts_ns : entry->dur_ns;

	if (!(entry->has & ~entry->wrong & pfw_field_key(node->field)))
		return node->op == PFW_OP_NE; /* null */
	switch (node->op) {
	case PFW_OP_EQ:
		return ns == node->ns;
	case PFW_OP_NE:
		return ns != node->ns;
	case PFW_OP_LT:
		return ns < node->ns;
	case PFW_OP_LE:
		return ns <= node->ns;
	case PFW_OP_GT:
		return ns > node->ns;
	default:
		return ns >= node->ns;
	}
}

static bool is_in(struct pfw_expr_state *state, const struct pfw_node *node)
{
	struct pfw_operand value;

	value_of(state, node->left, &value);
	resolve(state, 0, &value);
	for (uint32_t i = node->index; i < node->last; i++) {
		if (pfw_operand_compare(PFW_OP_EQ, &value, &state->expr->constant[i]))
			return true;
	}
	return false;
}

static bool matches(struct pfw_expr_state *state, const struct pfw_node *node)
{
	struct pfw_operand value;

	value_of(state, node->left, &value);
	resolve(state, 0, &value);
	return value.type == PFW_OPERAND_TEXT &&
	       pfw_regex_find(&state->regex[node->index], value.text.at, value.text.bytes);
}

static bool truth_of(struct pfw_expr_state *state, uint32_t index)
{
	const struct pfw_node *node = &state->expr->node[index];
	struct pfw_operand value;

	switch (node->kind) {
	case PFW_NODE_AND:
		return truth_of(state, node->left) && truth_of(state, node->right);
	case PFW_NODE_OR:
		return truth_of(state, node->left) || truth_of(state, node->right);
	case PFW_NODE_NOT:
		return !truth_of(state, node->left);
	case PFW_NODE_NS:
		return compare_ns(state->entry, node);
	case PFW_NODE_COMPARE:
		return compare(state, node);
	case PFW_NODE_IN:
		return is_in(state, node);
	case PFW_NODE_MATCH:
		return matches(state, node);
	case PFW_NODE_HAS:
		value_of(state, node->left, &value);
		return value.type != PFW_OPERAND_NULL;
	default:
		value_of(state, index, &value);
		return value.type == PFW_OPERAND_TRUTH && value.truth;
	}
}

bool pfw_expr_test(struct pfw_expr_state *state, const struct pfw_entry *entry, int64_t rank)
{
	state->line++;
	state->entry = entry;
	state->rank = rank;
	return truth_of(state, state->expr->top);
}

struct pfw_expr_state *pfw_expr_state_create(const struct pfw_expr *expr,
					     const struct pfw_fnames *fnames)
{
	struct pfw_expr_state *state = calloc(1, sizeof(*state));

	if (!state)
		return NULL;
	state->expr = expr;
	state->fnames = fnames;
	state->regex = calloc(expr->regex_count + 1, sizeof(*state->regex));
	state->slot = calloc(expr->path_count + 1, sizeof(*state->slot));
	state->room[0] = pfw_scratch_new();
	state->room[1] = pfw_scratch_new();
	if (!state->regex || !state->slot || !state->room[0] || !state->room[1])
		goto fail;
	for (uint32_t i = 0; i < expr->regex_count; i++) {
		if (pfw_regex_copy(&state->regex[i], &expr->regex[i]))
			goto fail;
	}
	return state;
fail:
	pfw_expr_state_free(state);
	return NULL;
}

void pfw_expr_state_free(struct pfw_expr_state *state)
{
	if (!state)
		return;
	for (uint32_t i = 0; state->regex && i < state->expr->regex_count; i++)
		pfw_regex_release(&state->regex[i]);
	free(state->regex);
	free(state->slot);
	pfw_scratch_free(state->room[0]);
	pfw_scratch_free(state->room[1]);
	free(state);
}
