/* table_collect.c - one pass over the traces, which makes the rows of a table. */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "live_lines.h"
#include "progress.h"
#include "store/problems.h"
#include "table_pass.h"

#define PROBLEMS_SHOWN 10

/* ---- blocks, in order ---- */

static int keep_spans(struct table_pass *collect, uint32_t file,
		      const struct table_block_result *result)
{
	int64_t process = -1, thread = -1;
	uint64_t pid = 0, tid = 0;

	for (size_t i = 0; i < result->spans; i++) {
		const struct table_block_span *at = &result->span[i];
		struct pfw_span span = at->span;
		int error = 0;

		if (process < 0 || at->pid != pid)
			process = pfw_nesting_process(collect->nesting, file, pid = at->pid);
		else if (at->tid == tid)
			goto known;
		if (process < 0)
			return (int)process;
		thread = pfw_nesting_thread(collect->nesting, (uint32_t)process, tid = at->tid);
		if (thread < 0)
			return (int)thread;
known:
		if (span.extra)
			error = pfw_nesting_extra(collect->nesting, &at->extra, &span.extra);
		if (!error)
			error = pfw_nesting_add(collect->nesting, (uint32_t)thread, &span);
		if (error)
			return error;
	}
	return 0;
}

static int keep_launches(struct table_pass *collect, uint32_t file,
			 const struct table_block_result *result)
{
	for (size_t i = 0; i < result->launches; i++) {
		struct pfw_launch launch = result->launch[i].launch;
		int64_t process =
			pfw_nesting_process(collect->nesting, file, result->launch[i].pid);
		int error;

		if (process < 0)
			return (int)process;
		launch.process = (uint32_t)process;
		error = pfw_nesting_launch(collect->nesting, &launch);
		if (error)
			return error;
	}
	return 0;
}

/* Whether the calls of each thread go on after those of the blocks before. */
static int join_threads(struct table_pass *collect, uint32_t file,
			const struct table_block_result *result)
{
	collect->io_nested |= result->nested;
	for (size_t i = 0; i < result->threads; i++) {
		const struct table_block_thread *thread = &result->thread[i];
		int64_t process = pfw_numbers_of(&collect->io_processes, file, thread->pid);
		int64_t number = process < 0 ? process
					     : pfw_numbers_of(&collect->io_threads,
							      (uint64_t)process, thread->tid);

		if (number < 0)
			return (int)number;
		if ((size_t)number >= collect->io_room) {
			size_t room = collect->io_room ? collect->io_room * 2 : 64;
			int64_t *end = realloc(collect->io_end, room * sizeof(*end));

			if (!end)
				return -ENOMEM;
			for (size_t j = collect->io_room; j < room; j++)
				end[j] = INT64_MIN;
			collect->io_end = end;
			collect->io_room = room;
		}
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
	uint32_t file = (uint32_t)block->file;
	int error = 0;

	if (!result)
		return 0;
	error = keep_spans(collect, file, result);
	if (!error)
		error = keep_launches(collect, file, result);
	if (!error)
		error = join_threads(collect, file, result);
	if (!error)
		error = table_steps_join(&collect->table->steps, &result->steps);
	collect->stepless |= result->stepless;
	table_pass_drop(NULL, result);
	block->result = NULL;
	return error;
}

static bool want(void *user, size_t file, const struct pfw_block *block)
{
	const struct table_pass *collect = user;

	return pfw_select_block(&collect->options->reach, file, block) &&
	       (!collect->how.plain || pfw_select_block(&collect->options->wanted, file, block));
}

/* ---- rows ---- */

static int nest_spans(struct table_pass *collect)
{
	struct table_nest nest = { .table = collect->table,
				   .options = collect->options,
				   .nesting = collect->nesting,
				   .jobs = collect->jobs };
	int error;

	nest.worker = calloc(collect->jobs, sizeof(*nest.worker));
	if (!nest.worker)
		return -ENOMEM;
	for (unsigned i = 0; i < collect->jobs; i++)
		nest.worker[i] = &collect->worker[i].rows;
	error = table_nest(&nest);
	free(nest.worker);
	return error;
}

/* All is read: the rows of all workers become those of the table. */
static int finish(struct table_pass *collect)
{
	int error = 0;

	for (unsigned i = 0; i < collect->jobs; i++)
		collect->table->too_many |= collect->worker[i].too_many;
	for (unsigned i = 0; i < collect->jobs && !error; i++) {
		struct pfw_averages *rows = &collect->worker[i].rows;

		for (uint32_t j = 0; j < rows->count && collect->table->too_many; j++)
			pfw_sketch_release(&rows->row[j].durations);
		error = pfw_averages_merge(&collect->table->rows, rows);
	}
	return error ? error : nest_spans(collect);
}

/* ---- the pass ---- */

static void say_problem(void *user, size_t file, const struct pfw_scan_problem *problem)
{
	struct table_pass *collect = user;

	if (collect->second)
		return; /* all was said in the first pass */
	if (collect->table->problems++ < PROBLEMS_SHOWN)
		cli_problem(collect->options->command->name, collect->traces->file[file].path,
			    problem);
}

static void release(struct table_pass *collect)
{
	for (unsigned i = 0; collect->worker && i < collect->jobs; i++) {
		struct table_worker *worker = &collect->worker[i];

		pfw_averages_release(&worker->rows);
		table_key_release(&worker->key);
		pfw_select_state_free(worker->reach);
		pfw_select_state_free(worker->wanted);
	}
	free(collect->worker);
	pfw_nesting_free(collect->nesting);
	pfw_numbers_release(&collect->io_processes);
	pfw_numbers_release(&collect->io_threads);
	free(collect->io_end);
}

static int init(struct table_pass *collect)
{
	collect->worker = calloc(collect->jobs, sizeof(*collect->worker));
	collect->nesting = pfw_nesting_create(TABLE_MEMORY);
	if (!collect->worker || !collect->nesting)
		return -ENOMEM;
	for (unsigned i = 0; i < collect->jobs; i++) {
		struct table_worker *worker = &collect->worker[i];

		pfw_averages_init(&worker->rows);
		worker->reach = pfw_select_state_create(&collect->options->reach);
		worker->wanted = pfw_select_state_create(&collect->options->wanted);
		if (table_key_init(&worker->key) || !worker->reach || !worker->wanted)
			return -ENOMEM;
	}
	return 0;
}

static int run(struct table_pass *collect, const volatile bool *stop)
{
	const struct pfw_pass pass = { .traces = collect->traces,
				       .jobs = collect->jobs,
				       .user = collect,
				       .want = want,
				       .work = table_pass_block,
				       .done = done,
				       .drop = table_pass_drop,
				       .problem = say_problem,
				       .progress = progress_of_pass,
				       .stop = stop };
	int error = collect->worker ? 0 : init(collect);

	if (!error) {
		progress_begin("table", collect->options->quiet, false);
		error = pfw_pass_run(&pass);
	}
	/* A file that cannot be read on was said: what could be read is shown. */
	if (!error || error == -EIO)
		error = live_lines_pass(collect->live, &pass);
	progress_hide();
	return !error && *stop ? -EINTR : error;
}

/* Whether all can be read twice. */
static bool again(const struct pfw_traces *traces)
{
	for (size_t i = 0; i < traces->count; i++) {
		if (strcmp(traces->file[i].path, "-") == 0)
			return false;
	}
	return true;
}

int table_collect(struct table *table, const struct table_options *options, struct live_lines *live,
		  const volatile bool *stop)
{
	const struct pfw_traces *traces = live->traces;
	struct table_pass collect = { .options = options,
				      .traces = traces,
				      .live = live,
				      .table = table,
				      .jobs = pfw_pass_jobs(options->jobs),
				      .how = { .plain = options->plain,
					       .fnames = options->reach.fnames },
				      .by_names = true,
				      .nest_io = !options->plain && (live->any || !again(traces)) };
	bool nest, late;
	int error;

	for (unsigned i = 0; i < options->fields; i++) {
		collect.by_names &= options->field[i] == TABLE_NAME ||
				    options->field[i] == TABLE_CAT ||
				    options->field[i] == TABLE_RANK;
		collect.how.args |= options->field[i] >= TABLE_SHAPE &&
				    options->field[i] != TABLE_RANK;
		collect.targets |= options->field[i] == TABLE_FNAME && !options->plain &&
				   !options->wanted.fname.count;
	}
	collect.by_steps = options->wanted.step.count;
	for (unsigned i = 0; i < options->fields; i++)
		collect.by_steps |= options->field[i] == TABLE_STEP;
	error = run(&collect, stop);
	table_steps_sort(&table->steps);
	/* Nearly always each call begins when the one before is over: its time is its own; and each event says
	 * its step: our recorder's do. */
	nest = collect.io_nested && !collect.nest_io;
	late = collect.stepless && table->steps.count && !live->any && again(traces);
	if (!error && (nest || late)) {
		release(&collect);
		collect = (struct table_pass){ .options = options,
					       .traces = traces,
					       .live = live,
					       .table = table,
					       .jobs = collect.jobs,
					       .how = collect.how,
					       .by_names = collect.by_names,
					       .targets = collect.targets,
					       .nest_io = nest || collect.nest_io,
					       .io_nested = nest,
					       .steps_known = late,
					       .second = true };
		error = run(&collect, stop);
	}
	if (!error)
		error = finish(&collect);
	release(&collect);
	if (error && error != -EINTR)
		cli_error(options->command->name, "%s", strerror(-error));
	return error;
}
