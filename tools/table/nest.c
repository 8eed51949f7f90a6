/* tools/table/nest.c - nests the spans and adds self times to the rows of a table; see pass.h. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "store/kit/saturate.h"
#include "table/pass.h"

/* Memory for the sums of several workers. */
#define NEST_MEMORY (32u << 20)

/* Each worker adds to its own sums: the first one to those of the rows. */
struct nest {
	struct table_pass *of;
	uint32_t rows;
	struct pfw_tally *sums; /* of the others: rows of each */
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
	uint32_t number = row_of(nest, nested->span->group);
	struct pfw_tally *sums = worker ? &nest->sums[(size_t)(worker - 1) * nest->rows + number]
					: &nest->of->table->rows.row[number].sums;

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

/* The row of a piece of GPU work: that of its group, with the name of the operator.  Or -ENOMEM. */
static int64_t row_of_work(const struct nest *nest, const struct table_work *work, uint32_t owner)
{
	struct pfw_table_key *key = &nest->of->worker[0].key;
	const struct table_options *options = nest->of->options;
	struct pfw_averages *rows = &nest->of->table->rows;
	const struct pfw_average *row = &rows->row[row_of(nest, work->group)];

	pfw_table_key_head(key, row->key);
	for (unsigned i = 0; i < options->fields + !options->by_name; i++) {
		const struct pfw_average *from = row;
		size_t bytes;
		const char *text = table_text(row, i, &bytes);

		if (i < options->fields && options->field[i] == TABLE_OPERATOR &&
		    owner != PFW_NO_GROUP) {
			from = &rows->row[row_of(nest, owner)];
			text = name_of(options, from, &bytes);
		}
		pfw_table_key_text(key, text, bytes);
	}
	return pfw_table_key_row(key, rows);
}

/* Add GPU work to the rows of its operators. */
static int add_works(const struct nest *nest)
{
	const struct table_work *work = nest->of->works.work.at;
	size_t count = nest->of->works.work.bytes / sizeof(*work);
	struct pfw_averages *rows = &nest->of->table->rows;
	struct pfw_launches_hint hint = { { 0 } };
	int64_t number = 0;

	for (size_t i = 0; i < count && number >= 0; i++) {
		const struct pfw_launch launch = { .launcher = work[i].launcher,
						   .otherwise = work[i].otherwise,
						   .process = work[i].process };

		if (table_section(&rows->row[row_of(nest, work[i].group)]) == PFW_TABLE_HIDDEN)
			continue;
		number = row_of_work(nest, &work[i],
				     pfw_nesting_taker(nest->of->nesting, &launch, &hint));
		if (number >= 0)
			pfw_tally_device(&rows->row[number].sums, work[i].start_ns, work[i].dur_ns);
	}
	return number < 0 ? (int)number : 0;
}

static int nest_spans(struct table_pass *of)
{
	struct nest nest = { .of = of, .rows = of->table->rows.count };
	struct pfw_nesting_user user = { .user = &nest, .span = add_nested, .same = same_name };
	unsigned jobs = of->jobs;
	uint64_t too_deep = 0;
	int error;

	/* With many rows, the sums of several workers would take too much memory. */
	if ((uint64_t)jobs * nest.rows * sizeof(*nest.sums) > NEST_MEMORY)
		jobs = 1;
	nest.sums = calloc((size_t)(jobs - 1) * nest.rows + 1, sizeof(*nest.sums));
	if (!nest.sums)
		return -ENOMEM;
	error = pfw_nesting_run(of->nesting, &user, jobs, &too_deep);
	for (size_t i = 0; i < (size_t)(jobs - 1) * nest.rows; i++)
		pfw_tally_merge(&of->table->rows.row[i % nest.rows].sums, &nest.sums[i]);
	free(nest.sums);
	if (!error)
		error = add_works(&nest);
	if (too_deep) {
		cli_error(of->options->survey->command->name,
			  "%s spans lie more than %u deep in others: they are counted as if they "
			  "were alone",
			  cli_count(too_deep), PFW_NESTING_DEPTH);
		of->options->survey->problems++;
	}
	return error;
}

/* The bytes of a row's key without the name, which only nesting needs. */
static size_t without_name(void *user, const struct pfw_average *row)
{
	size_t bytes;

	if (table_section(row) != PFW_TABLE_COMPUTE)
		return row->key_bytes;
	name_of(user, row, &bytes);
	return row->key_bytes - sizeof(uint32_t) - bytes;
}

int table_nest(struct table_pass *of)
{
	int error = nest_spans(of);

	if (!error && !of->options->by_name)
		error = pfw_averages_shorten(&of->table->rows, without_name, (void *)of->options);
	return error;
}

int table_works_add(struct table_works *works, const struct pfw_table_launch *launch,
		    struct pfw_nesting *nesting)
{
	int64_t process = pfw_nesting_process(nesting, launch->process);
	const struct table_work work = { .start_ns = launch->start_ns,
					 .dur_ns = launch->launch.ns,
					 .launcher = launch->launch.launcher,
					 .otherwise = launch->launch.otherwise,
					 .process = (uint32_t)process,
					 .group = launch->group };

	return process < 0 ? (int)process
			   : pfw_spill_add(&works->work, &work, sizeof(work), &works->budget);
}
