/* tools/table/nest.c - nests the spans and adds self times to the rows of a table; see pass.h. */
#include "table/pass.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "store/kit/saturate.h"

/* Each worker adds to its own sums. */
struct nest {
	const struct table_pass *of;
	uint32_t rows;
	struct pfw_tally *sums; /* jobs times rows */
};

static uint32_t row_of(const struct nest *nest, uint32_t group)
{
	const struct pfw_averages *rows = &nest->of->worker[group >> TABLE_ROW_BITS].rows;
	uint32_t number = group & ((1u << TABLE_ROW_BITS) - 1);

	/* Rows that were moved have kept their numbers. */
	return rows->count ? rows->row[number].merged : number;
}

static void add_nested(void *user, unsigned worker, const struct pfw_nested *nested)
{
	const struct nest *nest = user;
	uint32_t number = row_of(nest, nested->span.group);
	struct pfw_tally *sums = &nest->sums[(size_t)worker * nest->rows + number];

	if (table_section(&nest->of->table->rows.row[number]) == PFW_TABLE_IO)
		sums->self_ns = pfw_saturate_add(sums->self_ns, nested->self_ns);
	else
		pfw_tally_nested(sums, nested);
}

/* The name in a span's key: its field, or after all fields if the name is no field. */
static const char *name_of(const struct table_options *options, const struct pfw_average *row,
			   size_t *bytes)
{
	unsigned n = 0;

	if (table_section(row) != PFW_TABLE_HIDDEN)
		while (n < options->fields && options->field[n] != TABLE_NAME)
			n++;
	return table_text(row, n, bytes);
}

static bool same_name(void *user, uint32_t a, uint32_t b)
{
	const struct nest *nest = user;
	const struct pfw_averages *rows = &nest->of->table->rows;
	const struct pfw_average *one = &rows->row[row_of(nest, a)];
	const struct pfw_average *other = &rows->row[row_of(nest, b)];
	const char *name, *other_name;
	size_t bytes, other_bytes;

	/* I/O calls lie only in each other. */
	if (table_section(one) == PFW_TABLE_IO || table_section(one) == PFW_TABLE_HIDDEN_IO)
		return false;
	name = name_of(nest->of->options, one, &bytes);
	other_name = name_of(nest->of->options, other, &other_bytes);
	return bytes == other_bytes && memcmp(name, other_name, bytes) == 0;
}

static int nest_spans(const struct table_pass *of)
{
	struct nest nest = { .of = of, .rows = of->table->rows.count };
	struct pfw_nesting_user user = { .user = &nest, .span = add_nested, .same = same_name };
	unsigned jobs = of->jobs;
	uint64_t too_deep = 0;
	int error;

	/* With many rows, the sums of several workers would take too much memory. */
	if ((uint64_t)jobs * nest.rows * sizeof(*nest.sums) > TABLE_MEMORY)
		jobs = 1;
	nest.sums = calloc((size_t)jobs * nest.rows + 1, sizeof(*nest.sums));
	if (!nest.sums)
		return -ENOMEM;
	error = pfw_nesting_run(of->nesting, &user, jobs, &too_deep);
	for (size_t i = 0; i < (size_t)jobs * nest.rows; i++)
		pfw_tally_merge(&of->table->rows.row[i % nest.rows].sums, &nest.sums[i]);
	free(nest.sums);
	if (too_deep) {
		cli_error(of->options->survey->command->name,
			  "%s spans lie more than %u deep in others: they are counted as if they "
			  "were alone",
			  cli_count(too_deep), PFW_NESTING_DEPTH);
		of->options->survey->problems++;
	}
	return error;
}

int table_drop_names(struct table *table, const struct table_options *options)
{
	struct pfw_averages all = table->rows;

	table->rows = (struct pfw_averages){ .row = NULL };
	for (uint32_t i = 0; i < all.count; i++) {
		struct pfw_average *row = &all.row[i];
		size_t bytes = row->key_bytes, name_bytes;
		int64_t number;

		if (table_section(row) == PFW_TABLE_COMPUTE) {
			name_of(options, row, &name_bytes);
			bytes -= sizeof(uint32_t) + name_bytes;
		}
		number = pfw_averages_row(&table->rows, row->key, bytes);
		if (number < 0 ||
		    pfw_sketch_merge(&table->rows.row[number].durations, &row->durations, true)) {
			pfw_averages_release(&all);
			return -ENOMEM;
		}
		pfw_tally_merge(&table->rows.row[number].sums, &row->sums);
	}
	pfw_averages_release(&all);
	return 0;
}

int table_nest(const struct table_pass *of)
{
	int error = nest_spans(of);

	if (!error && !of->options->by_name)
		error = table_drop_names(of->table, of->options);
	return error;
}
