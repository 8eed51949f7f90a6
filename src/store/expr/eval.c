/* store/expr/eval.c - evaluates a compiled expression for a line. */
#include <stdlib.h>
#include <string.h>

#include "store/expr/internal.h"
#include "store/read/scan.h"

/* An argument of the current line, looked up at most once. */
struct slot {
	uint64_t line;
	struct pfw_operand value;
};

struct pfw_expr_state {
	const struct pfw_expr *expr;
	struct pfw_regex *regex;
	struct slot *slot; /* of each path */
	char *room[2];	   /* unescaped texts of the two sides of a comparison */
	uint64_t line;	   /* number of the current one */
	const struct pfw_entry *entry;
	const struct pfw_fname_hashes *fnames;
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
			const struct pfw_fname_hashes *fnames, struct pfw_value *value)
{
	const char *key = path->keys;

	if (!(strcmp(key, "fname") == 0 ? pfw_fname_hashes_find(fnames, entry, value)
					: pfw_entry_arg(entry, key, value)))
		return false;
	for (key += strlen(key) + 1; *key; key += strlen(key) + 1) {
		struct pfw_slice object = value->text;

		if (value->type != PFW_VALUE_OBJECT || !pfw_slice_find(&object, key, value))
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

const struct pfw_field_info pfw_fields[PFW_FIELDS] = {
	{ "id", PFW_ENTRY_ID, PFW_OPERAND_NUMBER, offsetof(struct pfw_entry, id) },
	{ "name", PFW_ENTRY_NAME, PFW_OPERAND_TEXT, offsetof(struct pfw_entry, name) },
	{ "cat", PFW_ENTRY_CAT, PFW_OPERAND_TEXT, offsetof(struct pfw_entry, cat) },
	{ "pid", PFW_ENTRY_PID, PFW_OPERAND_NUMBER, offsetof(struct pfw_entry, pid) },
	{ "tid", PFW_ENTRY_TID, PFW_OPERAND_NUMBER, offsetof(struct pfw_entry, tid) },
	{ "ts", PFW_ENTRY_TS, PFW_OPERAND_NUMBER, offsetof(struct pfw_entry, ts_ns) },
	{ "dur", PFW_ENTRY_DUR, PFW_OPERAND_NUMBER, offsetof(struct pfw_entry, dur_ns) },
	{ "ph", PFW_ENTRY_PH, PFW_OPERAND_TEXT, offsetof(struct pfw_entry, ph) },
	{ "rank", 0, PFW_OPERAND_NUMBER, 0 },
	{ "step", PFW_ENTRY_ARGS, PFW_OPERAND_NUMBER, 0 },
};

static void set_field(struct pfw_expr_state *state, enum pfw_field field, struct pfw_operand *value)
{
	const struct pfw_entry *entry = state->entry;
	const void *at = (const char *)entry + pfw_fields[field].at;
	struct pfw_value step;

	value->type = PFW_OPERAND_NULL;
	if (field == PFW_FIELD_RANK) {
		if (state->rank >= 0)
			pfw_operand_set_integer(value, state->rank);
	} else if (!pfw_field_in(field, entry)) {
		return;
	} else if (field == PFW_FIELD_STEP) {
		if (pfw_entry_arg(entry, "step", &step) && step.type == PFW_VALUE_NUMBER)
			set_value(value, &step);
	} else if (pfw_fields[field].type == PFW_OPERAND_TEXT) {
		value->type = PFW_OPERAND_TEXT;
		value->text = field == PFW_FIELD_PH ? (struct pfw_slice){ .at = at, .bytes = 1 }
						    : *(const struct pfw_slice *)at;
	} else if (field == PFW_FIELD_TS || field == PFW_FIELD_DUR) {
		value->type = PFW_OPERAND_NUMBER;
		value->number.exact = true;
		value->number.thousandths = *(const int64_t *)at;
	} else {
		pfw_operand_set_integer(value, *(const uint64_t *)at);
	}
}

/* ---- a line ---- */

static bool truth_of(struct pfw_expr_state *state, uint32_t index);

/* The value of a node; a text may still have escapes. */
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

/* Unescape a text into the buffer of its side. */
static void resolve(struct pfw_expr_state *state, int side, struct pfw_operand *value)
{
	if (value->type == PFW_OPERAND_TEXT)
		value->text = pfw_scratch_plain(value->text, state->room[side]);
}

static bool holds(struct pfw_expr_state *state, const struct pfw_node *node)
{
	struct pfw_operand left, right;

	value_of(state, node->left, &left);
	if (node->kind == PFW_NODE_COMPARE) {
		value_of(state, node->right, &right);
		resolve(state, 1, &right);
	}
	resolve(state, 0, &left);
	return pfw_expr_holds(state->expr, state->regex, node, &left, &right);
}

static bool compare_ns(const struct pfw_entry *entry, const struct pfw_node *node)
{
	int64_t ns = node->field == PFW_FIELD_TS ? entry->ts_ns : entry->dur_ns;

	if (!pfw_field_in(node->field, entry))
		return node->op == PFW_OP_NE; /* null */
	return pfw_op_holds(node->op, (ns > node->ns) - (ns < node->ns));
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
	case PFW_NODE_IN:
	case PFW_NODE_MATCH:
	case PFW_NODE_HAS:
		return holds(state, node);
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
					     const struct pfw_fname_hashes *fnames)
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
