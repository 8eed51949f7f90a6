/* tools/table/by_arg.c - rows by args and by operator from indexes: args.kind, and how kernels were launched. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "store/expr/expr.h"
#include "store/select/select.h"
#include "table/answer.h"
#include "table/columns.h"

/* ---- what is asked for ---- */

static bool is_kind(const struct pfw_slice *key)
{
	return key->bytes == 4 && memcmp(key->at, "kind", 4) == 0;
}

static bool is_known(const struct pfw_slice *key)
{
	return is_kind(key) || pfw_table_launch_key(key);
}

static bool is_none(const struct pfw_slice *key)
{
	(void)key;
	return false;
}

/* Whether a glob may match the name of a step: by what it has before its first wildcard. */
static bool may_be_step(const struct pfw_select_glob *glob)
{
	static const char step[] = "ProfilerStep#";
	size_t bytes = strcspn(glob->text, "*?[\\");

	return strncmp(glob->text, step, bytes < strlen(step) ? bytes : strlen(step)) == 0;
}

bool table_asks_names(const struct table_options *options)
{
	bool asks = false;

	for (size_t i = 0; i < options->wanted.name.count; i++)
		asks |= may_be_step(&options->wanted.name.glob[i]);
	for (size_t i = 0; i < options->wanted.where_count; i++)
		asks |= pfw_expr_asks_name(options->wanted.where[i]);
	return asks;
}

bool table_where_of_names(const struct table_options *options)
{
	size_t i = 0;

	while (i < options->wanted.where_count &&
	       pfw_expr_asks_only(options->wanted.where[i], is_none))
		i++;
	return i == options->wanted.where_count;
}

static struct pfw_slice key_of(const struct table_options *options, unsigned arg)
{
	const char *key = options->arg[arg] + strlen("args.");

	return (struct pfw_slice){ .at = key, .bytes = strlen(key) };
}

bool table_asks_args(const struct table_options *options)
{
	return !options->plain && (options->by_operator || options->wanted.where_count ||
				   table_bits(options) & TABLE_BITS_ARGS);
}

const char *table_args_need_lines(const struct table_options *options)
{
	for (unsigned i = 0; i < options->args; i++) {
		const struct pfw_slice key = key_of(options, i);

		if (!is_known(&key))
			return "--group-by args.KEY";
	}
	if (table_bits(options) & ~(TABLE_BITS_NAMES | TABLE_BITS_ARGS | TABLE_BIT(TABLE_OPERATOR)))
		return "--group-by args.KEY or operator with another field";
	for (size_t i = 0; i < options->wanted.where_count; i++) {
		if (!pfw_expr_asks_only(options->wanted.where[i], is_known))
			return "--where";
	}
	return NULL;
}

/* The columns that kinds have in steps. */
static bool has_columns(const struct table_options *options)
{
	static const char *const key[] = { "count", "self_cpu_time_total",
					   "self_device_time_total" };

	for (unsigned i = 0; i <= options->columns; i++) {
		const char *asked = i < options->columns ? options->column[i]->key
							 : options->sort_by;
		bool found = i == options->columns && !options->sort_by;

		for (unsigned j = 0; j < CLI_ARRAY_LEN(key) && !found; j++)
			found = strcmp(asked, key[j]) == 0;
		if (!found)
			return false;
	}
	return options->columns && !options->percentiles && !options->peak_flops;
}

bool table_asks_step_kinds(const struct table_options *options)
{
	const struct pfw_slice key = key_of(options, 0);

	return options->args == 1 && is_kind(&key) && has_columns(options);
}

/* ---- the answer ---- */

#define KIND_BYTES 256u

/* An event of this kind.  False: its text would need escapes, or is too long. */
static bool set_kind(struct pfw_entry *entry, const struct pfw_slice *kind, char args[KIND_BYTES])
{
	for (size_t i = 0; i < kind->bytes; i++) {
		if ((unsigned char)kind->at[i] < ' ' || kind->at[i] == '"' || kind->at[i] == '\\')
			return false;
	}
	if (kind->bytes > KIND_BYTES - 16)
		return false;
	entry->args_more = true;
	entry->args.at = args;
	entry->args.bytes = (size_t)snprintf(args, KIND_BYTES,
					     kind->bytes ? "{\"kind\":\"%.*s\"}" : "{}",
					     (int)kind->bytes, kind->at);
	return true;
}

static int add_row(void *user, const struct pfw_table_work_row *row)
{
	struct answer *answer = user;
	const struct pfw_table_line line = { .section = PFW_TABLE_COMPUTE,
					     .device = row->row.device,
					     .annotation = row->row.annotation,
					     .name = row->row.name,
					     .cat = row->row.cat,
					     .owner = row->owner,
					     .step = -1 };
	struct pfw_entry entry = table_event_named(row->row.name, row->row.cat);
	char args[KIND_BYTES];
	int64_t number;

	if (row->args.at) {
		entry.args = row->args;
		entry.args_more = true;
	} else if (!set_kind(&entry, &row->row.kind, args)) {
		return -ENOENT;
	}
	number = table_answer_row(answer, &line, &entry);
	if (number >= 0)
		pfw_tally_merge(&answer->table->rows.row[number].sums, &row->row.sums);
	return number == -ENOMEM ? -ENOMEM : 0;
}

int table_add_works(struct answer *answer, struct pfw_index *index)
{
	struct pfw_table_work_rows rows = { .user = answer, .row = add_row };
	int error = pfw_table_works_from_index(index, &rows);

	answer->table->says |= rows.says;
	if (!error && !(rows.says & PFW_TABLE_SAYS_ARGS))
		return 1;
	return error == -ENOMEM ? error : table_lacks(answer, "a table of so many args");
}

int table_add_kind(void *user, const struct pfw_table_kind_row *row)
{
	struct answer *answer = user;
	struct pfw_entry entry = { .kind = PFW_ENTRY_EVENT };
	char args[KIND_BYTES];
	int64_t number;

	if (!set_kind(&entry, &row->kind, args))
		return -ENOENT;
	answer->step.section = PFW_TABLE_COMPUTE;
	answer->step.device = row->device;
	answer->step.name.at = "";
	answer->step.step = row->step;
	table_key_fields(&answer->key, answer->options, &answer->step, &entry, answer->rank);
	number = pfw_table_key_row(&answer->key, &answer->table->rows);
	if (number < 0)
		return -ENOMEM;
	pfw_tally_merge(&answer->table->rows.row[number].sums, &row->sums);
	return 0;
}
