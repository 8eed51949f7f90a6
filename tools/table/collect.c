/* tools/table/collect.c - reads the traces in one or two passes and makes the rows of a table. */
#include <errno.h>
#include <stdlib.h>

#include "store/kit/grow.h"
#include "store/kit/saturate.h"
#include "table/pass.h"

/* ---- blocks, in order ---- */

/* Note the end of each thread's I/O calls, and whether a call begins before an earlier block's
 * calls of its thread have ended. */
static int join_threads(struct table_pass *collect, const struct table_block_result *result)
{
	collect->io_nested |= result->nested;
	for (size_t i = 0; i < result->threads; i++) {
		const struct table_block_thread *thread = &result->thread[i];
		int64_t number =
			pfw_pair_ids_of(&collect->io_threads, thread->process, thread->tid);

		if (number < 0)
			return (int)number;
		if ((size_t)number == collect->io_ends &&
		    PFW_PUSH(collect->io_end, collect->io_ends, collect->io_room, INT64_MIN))
			return -ENOMEM;
		collect->io_nested |= thread->first_ns < collect->io_end[number];
		if (thread->last_ns > collect->io_end[number])
			collect->io_end[number] = thread->last_ns;
	}
	return 0;
}

static int done(void *user, struct pfw_pass_block *block)
{
	struct table_pass *collect = user;
	struct table_block_result *result = block->result;
	int error = pfw_table_spans_keep(&result->spans, collect->nesting);

	for (size_t i = 0; collect->options->by_operator && i < result->spans.launches && !error;
	     i++)
		error = table_works_add(&collect->works, &result->spans.launch[i],
					collect->nesting);
	if (!error)
		error = join_threads(collect, result);
	table_extent_add(&collect->table->extent, result->extent.least_ns,
			 result->extent.greatest_ns);
	return error;
}

static bool want(void *user, size_t file, const struct pfw_block *block)
{
	const struct table_pass *collect = user;
	const uint8_t *whole = collect->table->whole ? collect->table->whole[file] : NULL;

	if (whole && whole[block - collect->traces->file[file].blocks.block])
		return false;
	return pfw_select_block(&collect->options->reach, file, block) &&
	       (!collect->plan.how.plain ||
		pfw_select_block(&collect->options->wanted, file, block));
}

/* ---- rows ---- */

void table_limit_sketches(struct table *table, const struct table_options *options)
{
	uint32_t calls = 0;

	for (uint32_t i = 0; i < table->rows.count; i++)
		calls += table_section(&table->rows.row[i]) == PFW_TABLE_IO;
	table->too_many = options->percentiles && calls > TABLE_SKETCHES_MAX;
	table->late &= !table->too_many;
	for (uint32_t i = 0; i < table->rows.count && table->too_many; i++)
		pfw_sketch_release(&table->rows.row[i].durations);
}

/* All is read: the rows of all workers become those of the table.  The first ones are moved, not
 * copied: there may be a million. */
static int finish(struct table_pass *collect)
{
	struct pfw_averages *rows = &collect->table->rows;
	int error = 0;

	for (unsigned i = 0; i < collect->jobs && !error; i++) {
		struct table_worker *worker = &collect->worker[i];

		for (unsigned k = 0; k < TABLE_UNMOVED; k++)
			collect->table->memory[k] += worker->memory[k];
		for (unsigned k = 0; k < TABLE_APART; k++)
			pfw_saturate_sum(&collect->table->apart_ns[k], worker->apart_ns[k]);
		collect->table->says |= worker->says;
		if (rows->count) {
			error = pfw_averages_merge(rows, &worker->rows);
			continue;
		}
		pfw_averages_release(rows);
		*rows = worker->rows;
		worker->rows = (struct pfw_averages){ .row = NULL };
	}
	table_limit_sketches(collect->table, collect->options);
	return error ?: table_nest(collect);
}

/* ---- passes ---- */

static void release(struct table_pass *collect)
{
	for (unsigned i = 0; collect->worker && i < collect->jobs; i++) {
		struct table_worker *worker = &collect->worker[i];

		pfw_averages_release(&worker->rows);
		pfw_table_key_release(&worker->key);
		pfw_select_state_free(worker->wanted);
	}
	free(collect->worker);
	pfw_nesting_free(collect->nesting);
	pfw_spill_free(&collect->works.work, &collect->works.budget);
	pfw_pair_ids_release(&collect->io_threads);
	free(collect->io_end);
}

static int init(struct table_pass *collect)
{
	collect->worker = calloc(collect->jobs, sizeof(*collect->worker));
	collect->nesting = pfw_nesting_create(pfw_spill_memory(TABLE_MEMORY));
	if (!collect->worker || !collect->nesting)
		return -ENOMEM;
	for (unsigned i = 0; i < collect->jobs; i++) {
		struct table_worker *worker = &collect->worker[i];

		worker->wanted = pfw_select_state_create(&collect->options->wanted);
		if (!worker->wanted)
			return -ENOMEM;
	}
	return 0;
}

/* Read the lines as planned; call release() in any case. */
static int run(struct table_pass *collect, const struct table_options *options, struct table *table,
	       struct survey_input *input, const struct table_plan *plan)
{
	struct survey_fold fold = { .user = collect,
				    .select = &options->reach,
				    .result_bytes = sizeof(struct table_block_result),
				    .want = want,
				    .work = table_pass_block,
				    .done = done,
				    .drop = table_pass_drop,
				    .again = plan->again };

	*collect = (struct table_pass){ .options = options,
					.traces = &input->traces,
					.plan = *plan,
					.table = table,
					.works = TABLE_WORKS_EMPTY,
					.jobs = survey_jobs(options->survey) };
	return init(collect) ?: survey_read(options->survey, input, &fold, SURVEY_ALL);
}

/* The plan of the first pass.  It assumes that I/O calls of a thread do not overlap, so that self
 * time is duration.  For input that can be read only `once`, I/O calls are always nested. */
static struct table_plan plan_first(const struct table_options *options, bool once)
{
	unsigned bits = table_bits(options);
	struct table_plan plan = { .how = { .plain = options->plain,
					    .fnames = options->reach.fnames },
				   .by_names = !(bits & ~TABLE_BITS_NAMES),
				   .targets = bits & TABLE_BIT(TABLE_FNAME) && !options->plain,
				   .nest_io = !options->plain && once };

	plan.how.args = bits & (TABLE_BIT(TABLE_SHAPE) | TABLE_BIT(TABLE_STACK) |
				TABLE_BIT(TABLE_LINE) | TABLE_BIT(TABLE_FNAME));
	return plan;
}

/* Change the plan if the first pass has found an expectation wrong.  Whether a second pass is
 * needed. */
static bool plan_second(struct table_plan *plan, const struct table_pass *first)
{
	plan->nest_io = first->io_nested;
	plan->again = true;
	return plan->nest_io;
}

int table_collect(struct table *table, const struct table_options *options,
		  struct survey_input *input)
{
	bool once = input->live.any || pfw_traces_once(&input->traces);
	struct table_plan plan = plan_first(options, once);
	struct table_pass collect;
	int error = run(&collect, options, table, input, &plan);

	if (!error && !once && plan_second(&plan, &collect)) {
		release(&collect);
		error = run(&collect, options, table, input, &plan);
	}
	if (!error)
		error = finish(&collect);
	release(&collect);
	return error;
}
