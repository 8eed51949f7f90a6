/* table_collect.c - one pass over the traces, which makes the rows of a table. */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "live_lines.h"
#include "progress.h"
#include "store/nesting.h"
#include "store/numbers.h"
#include "store/pass.h"
#include "store/problems.h"
#include "store/saturate.h"
#include "table.h"
#include "table_line.h"
#include "table_nest.h"

/* Rows of a worker with percentiles: each takes some KiB. */
#define SKETCHES_MAX 16384u

/* ---- what a block gives ---- */

struct block_span {
	uint64_t pid, tid;
	struct pfw_span span;
	struct pfw_span_extra extra;
};

struct block_launch {
	uint64_t pid;
	struct pfw_launch launch;
};

/* I/O calls of one thread, where none of them lies in another. */
struct block_thread {
	uint64_t pid, tid;
	int64_t first_ns, last_ns; /* begin of the first, end of the last */
};

struct block_result {
	struct block_span *span;
	struct block_launch *launch;
	struct block_thread *thread;
	size_t spans, launches, threads;
	bool nested; /* some I/O call lies in another, or lines are out of order */
};

struct worker {
	struct pfw_averages rows;
	struct table_key key;
	struct table_calls calls;
	struct pfw_select_state *reach, *wanted;
	bool too_many; /* rows for percentiles */
};

#define PROBLEMS_SHOWN 10

struct collect {
	const struct table_options *options;
	const struct pfw_traces *traces;
	struct live_lines *live;
	struct table *table;
	struct pfw_nesting *nesting;
	struct worker *worker;
	unsigned jobs;
	struct table_how how;
	bool targets; /* what copies write to is a row, too */
	bool nest_io; /* I/O calls are nested, too */
	bool io_nested;
	/* Of I/O, the threads of all files, and up to when their calls go. */
	struct pfw_numbers io_processes, io_threads;
	int64_t *io_end;
	size_t io_room;
};

/* Room for one more at the end of an array whose rooms are powers of two from 64 on. */
static void *more(void *array, size_t count, size_t size)
{
	if (count && (count < 64 || (count & (count - 1))))
		return array;
	return realloc(array, (count ? count * 2 : 64) * size);
}

/* Calls are nested by themselves: what a span does is I/O is no part of it that has a name. */
#define IO_THREAD (1ull << 63)

static int add_span(struct block_result *result, const struct pfw_entry *entry,
		    const struct table_line *line, uint32_t row)
{
	uint64_t io = line->section == TABLE_IO ? IO_THREAD : 0;
	struct block_span *span = more(result->span, result->spans, sizeof(*span));

	if (!span)
		return -ENOMEM;
	result->span = span;
	span[result->spans++] = (struct block_span){ .pid = entry->pid,
						     .tid = entry->tid ^ io,
						     .span = { .start_ns = line->start_ns,
							       .dur_ns = line->dur_ns,
							       .launcher = line->launcher,
							       .group = row,
							       .extra = line->has_extra },
						     .extra = line->extra };
	return 0;
}

static int add_launch(struct block_result *result, const struct pfw_entry *entry,
		      const struct table_line *line)
{
	struct block_launch *launch = more(result->launch, result->launches, sizeof(*launch));

	if (!launch)
		return -ENOMEM;
	result->launch = launch;
	launch[result->launches++] =
		(struct block_launch){ .pid = entry->pid,
				       .launch = { .launcher = line->launched_by,
						   .otherwise = line->otherwise,
						   .ns = line->dur_ns } };
	return 0;
}

/* Note a call in its thread's: as long as each begins when the one before is over, none is nested. */
static int add_call(struct block_result *result, const struct pfw_entry *entry,
		    const struct table_line *line)
{
	int64_t end = line->start_ns + line->dur_ns;
	struct block_thread *thread;

	for (size_t i = result->threads; i-- > 0;) {
		thread = &result->thread[i];
		if (thread->tid != entry->tid || thread->pid != entry->pid)
			continue;
		if (line->start_ns < thread->last_ns)
			result->nested = true;
		if (end > thread->last_ns)
			thread->last_ns = end;
		return 0;
	}
	thread = more(result->thread, result->threads, sizeof(*thread));
	if (!thread)
		return -ENOMEM;
	result->thread = thread;
	thread[result->threads++] = (struct block_thread){
		.pid = entry->pid, .tid = entry->tid, .first_ns = line->start_ns, .last_ns = end
	};
	return 0;
}

/* ---- lines ---- */

static int add_io(struct pfw_average *row, const struct table_line *line, bool self, bool sketch)
{
	struct pfw_sums *sums = &row->sums;

	if (line->summed) {
		sums->count += line->calls;
		sums->total_ns = pfw_saturate_add(sums->total_ns, line->dur_ns);
	} else {
		pfw_sums_begin(sums, line->start_ns, line->dur_ns, false);
		pfw_sums_time(sums, line->dur_ns);
		if (sketch && pfw_sketch_add(&row->durations, line->dur_ns))
			return -ENOMEM;
	}
	if (self || line->summed)
		sums->self_ns = pfw_saturate_add(sums->self_ns, line->dur_ns);
	if (line->transfers) {
		sums->transfers += line->transfers;
		sums->bytes = pfw_saturate_add(sums->bytes, line->bytes);
		sums->transfer_ns = pfw_saturate_add(sums->transfer_ns, line->dur_ns);
	}
	return 0;
}

static void add_device(struct pfw_sums *sums, const struct table_line *line)
{
	int64_t total = sums->total_ns;

	pfw_sums_begin(sums, line->start_ns, line->dur_ns, false);
	pfw_sums_time(sums, line->dur_ns);
	sums->total_ns = total; /* of the CPU */
	sums->device_ns = pfw_saturate_add(sums->device_ns, line->dur_ns);
	sums->self_device_ns = pfw_saturate_add(sums->self_device_ns, line->dur_ns);
}

/* What a copy wrote to: its time counts where it read from. */
static int add_target(const struct collect *collect, unsigned number,
		      const struct pfw_pass_block *block, const struct pfw_entry *entry,
		      const struct table_line *line)
{
	const struct pfw_sums call = { .count = 1, .transfers = 1, .bytes = line->bytes };
	struct worker *worker = &collect->worker[number];
	struct table_line target = *line;
	int64_t row;

	target.fname = line->target;
	if (table_key_make(&worker->key, collect->options, &target, entry,
			   collect->traces->file[block->file].head.rank))
		return -ENOMEM;
	row = pfw_averages_row(&worker->rows, worker->key.text, worker->key.bytes);
	if (row < 0)
		return -ENOMEM;
	pfw_sums_merge(&worker->rows.row[row].sums, &call);
	return 0;
}

static int add_line(const struct collect *collect, unsigned number, struct pfw_pass_block *block,
		    const struct pfw_entry *entry, const struct table_line *line)
{
	struct worker *worker = &collect->worker[number];
	struct block_result *result = block->result;
	uint32_t group;
	int64_t row;
	int error = table_key_make(&worker->key, collect->options, line, entry,
				   collect->traces->file[block->file].head.rank);

	if (error)
		return error;
	row = pfw_averages_row(&worker->rows, worker->key.text, worker->key.bytes);
	if (row < 0 || row >> TABLE_ROW_BITS)
		return -ENOMEM;
	group = (uint32_t)number << TABLE_ROW_BITS | (uint32_t)row;
	if (line->section == TABLE_IO) {
		worker->too_many |= collect->options->percentiles && row >= SKETCHES_MAX;
		error = add_io(&worker->rows.row[row], line, !collect->nest_io,
			       collect->options->percentiles && !worker->too_many);
		if (!error && !line->summed && !collect->how.plain)
			error = collect->nest_io ? add_span(result, entry, line, group)
						 : add_call(result, entry, line);
		if (!error && collect->targets && line->target.at)
			error = add_target(collect, number, block, entry, line);
		return error;
	}
	if (!line->device)
		return add_span(result, entry, line, group);
	if (line->section != TABLE_HIDDEN)
		add_device(&worker->rows.row[row].sums, line);
	return line->launched_by ? add_launch(result, entry, line) : 0;
}

/* The line as its calls would be, for conditions: a `summed` line is of cat pfw. */
static bool wanted(const struct collect *collect, struct worker *worker, size_t file,
		   const struct pfw_entry *entry, const struct table_line *line)
{
	struct pfw_entry call;

	if (!collect->options->filtered)
		return true;
	if (!line->summed)
		return pfw_select_entry(&collect->options->wanted, worker->wanted, file, entry);
	call = *entry;
	call.ph = 'X';
	call.name = line->name;
	call.cat = line->cat;
	return !collect->options->wanted.has_min_dur &&
	       pfw_select_entry(&collect->options->wanted, worker->wanted, file, &call);
}

static bool reached(const struct collect *collect, struct worker *worker, size_t file,
		    const struct pfw_entry *entry)
{
	struct pfw_entry line;

	if (!collect->options->limited)
		return true;
	line = *entry;
	line.ph = 'X'; /* `summed` lines are metadata, which nobody asks for by themselves */
	return pfw_select_entry(&collect->options->reach, worker->reach, file, &line);
}

static int work(void *user, unsigned number, struct pfw_pass_block *block)
{
	const struct collect *collect = user;
	struct worker *worker = &collect->worker[number];
	struct pfw_lines lines;
	struct table_line line;

	block->result = calloc(1, sizeof(struct block_result));
	if (!block->result)
		return -ENOMEM;
	pfw_lines_init(&lines, block);
	while (pfw_lines_next(&lines)) {
		int error;

		if (!table_line_read(&line, &lines.entry, &worker->calls, collect->how) ||
		    (collect->options->by_file && line.section != TABLE_IO) ||
		    !reached(collect, worker, block->file, &lines.entry))
			continue;
		if (!wanted(collect, worker, block->file, &lines.entry, &line)) {
			if (line.section == TABLE_IO)
				continue;
			line.section = TABLE_HIDDEN;
		}
		error = add_line(collect, number, block, &lines.entry, &line);
		if (error)
			return error;
	}
	return 0;
}

/* ---- blocks, in order ---- */

static void drop(void *user, void *result)
{
	struct block_result *dropped = result;

	(void)user;
	free(dropped->span);
	free(dropped->launch);
	free(dropped->thread);
	free(dropped);
}

static int keep_spans(struct collect *collect, uint32_t file, const struct block_result *result)
{
	int64_t process = -1, thread = -1;
	uint64_t pid = 0, tid = 0;

	for (size_t i = 0; i < result->spans; i++) {
		const struct block_span *at = &result->span[i];
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

static int keep_launches(struct collect *collect, uint32_t file, const struct block_result *result)
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
static int join_threads(struct collect *collect, uint32_t file, const struct block_result *result)
{
	collect->io_nested |= result->nested;
	for (size_t i = 0; i < result->threads; i++) {
		const struct block_thread *thread = &result->thread[i];
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
	struct collect *collect = user;
	struct block_result *result = block->result;
	uint32_t file = (uint32_t)block->file;
	int error = 0;

	if (!result)
		return 0;
	error = keep_spans(collect, file, result);
	if (!error)
		error = keep_launches(collect, file, result);
	if (!error)
		error = join_threads(collect, file, result);
	drop(NULL, result);
	block->result = NULL;
	return error;
}

static bool want(void *user, size_t file, const struct pfw_block *block)
{
	const struct collect *collect = user;

	return pfw_select_block(&collect->options->reach, file, block) &&
	       (!collect->how.plain || pfw_select_block(&collect->options->wanted, file, block));
}

/* ---- rows ---- */

static int nest_spans(struct collect *collect)
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
static int finish(struct collect *collect)
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
	struct collect *collect = user;

	if (collect->nest_io && collect->io_nested)
		return; /* the second pass: all was said in the first */
	if (collect->table->problems++ < PROBLEMS_SHOWN)
		cli_problem(collect->options->command->name, collect->traces->file[file].path,
			    problem);
}

static void release(struct collect *collect)
{
	for (unsigned i = 0; collect->worker && i < collect->jobs; i++) {
		struct worker *worker = &collect->worker[i];

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

static int init(struct collect *collect)
{
	collect->worker = calloc(collect->jobs, sizeof(*collect->worker));
	collect->nesting = pfw_nesting_create(TABLE_MEMORY);
	if (!collect->worker || !collect->nesting)
		return -ENOMEM;
	for (unsigned i = 0; i < collect->jobs; i++) {
		struct worker *worker = &collect->worker[i];

		pfw_averages_init(&worker->rows);
		worker->reach = pfw_select_state_create(&collect->options->reach);
		worker->wanted = pfw_select_state_create(&collect->options->wanted);
		if (table_key_init(&worker->key) || !worker->reach || !worker->wanted)
			return -ENOMEM;
	}
	return 0;
}

/* Lines that are in no file yet. */
static int take_text(void *user, size_t file, const char *text, size_t bytes)
{
	static const struct pfw_block nowhere;
	struct collect *collect = user;
	struct pfw_problems problems = { 0 };
	struct pfw_pass_block block = {
		.file = file, .block = &nowhere, .text = text, .bytes = bytes, .problems = &problems
	};
	int error = work(collect, 0, &block);

	for (size_t i = 0; i < problems.count; i++)
		say_problem(collect, file, &problems.problem[i]);
	pfw_problems_free(&problems);
	if (!error)
		return done(collect, &block);
	if (block.result)
		drop(NULL, block.result);
	return error;
}

static int run(struct collect *collect, const volatile bool *stop)
{
	const struct pfw_pass pass = { .traces = collect->traces,
				       .jobs = collect->jobs,
				       .user = collect,
				       .want = want,
				       .work = work,
				       .done = done,
				       .drop = drop,
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
		error = live_lines_read(collect->live, stop, take_text, collect);
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
	struct collect collect = { .options = options,
				   .traces = traces,
				   .live = live,
				   .table = table,
				   .jobs = pfw_pass_jobs(options->jobs),
				   .how = { .plain = options->plain,
					    .fnames = options->reach.fnames },
				   .nest_io = !options->plain && (live->any || !again(traces)) };
	int error;

	for (unsigned i = 0; i < options->fields; i++) {
		collect.how.args |= options->field[i] >= TABLE_SHAPE &&
				    options->field[i] != TABLE_RANK;
		collect.targets |= options->field[i] == TABLE_FNAME && !options->plain &&
				   !options->wanted.fname.count;
	}
	error = run(&collect, stop);
	/* Nearly always each call begins when the one before is over: its time is its own. */
	if (!error && collect.io_nested && !collect.nest_io) {
		release(&collect);
		collect = (struct collect){ .options = options,
					    .traces = traces,
					    .live = live,
					    .table = table,
					    .jobs = collect.jobs,
					    .how = collect.how,
					    .targets = collect.targets,
					    .nest_io = true,
					    .io_nested = true };
		error = run(&collect, stop);
	}
	if (!error)
		error = finish(&collect);
	release(&collect);
	if (error && error != -EINTR)
		cli_error(options->command->name, "%s", strerror(-error));
	return error;
}
