/* compare_collect.c - a pass over the traces of one side, which adds to the rows of a comparison. */
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "compare.h"
#include "progress.h"
#include "store/call.h"
#include "store/more.h"
#include "store/pass.h"
#include "store/saturate.h"
#include "table_line.h"

#define PROBLEMS_SHOWN 10
/* Rows whose batches are kept: each takes 16 KiB at most. */
#define BATCHED_MAX 8192u

struct sample {
	uint32_t row; /* of the block's keys */
	bool summed, io;
	uint64_t calls;
	int64_t ts_ns, dur_ns;
	double log;
};

struct block_result {
	struct pfw_averages keys;
	struct sample *sample;
	size_t samples, room;
};

struct worker {
	struct table_key key;
	struct table_calls calls;
	struct pfw_select_state *state;
};

struct collect {
	struct compare *compare;
	struct compare_side *side;
	unsigned number; /* of the side */
	struct worker *worker;
	unsigned jobs;
	struct table_how how;
};

/* ---- lines ---- */

static int add_sample(struct block_result *result, const struct sample *sample)
{
	struct sample *more =
		pfw_more(result->sample, result->samples, &result->room, sizeof(*more));

	if (!more)
		return -ENOMEM;
	result->sample = more;
	more[result->samples++] = *sample;
	return 0;
}

static bool wanted(const struct collect *collect, struct worker *worker, size_t file,
		   const struct pfw_entry *entry, const struct table_line *line)
{
	struct pfw_entry call = *entry;

	if (line->summed) {
		/* As its calls would be: the line itself is metadata. */
		if (collect->side->select.has_min_dur)
			return false;
		call.ph = 'X';
		call.name = line->name;
		call.cat = line->cat;
	}
	return pfw_select_entry(&collect->side->select, worker->state, file, &call);
}

static int add_line(const struct collect *collect, struct worker *worker,
		    struct pfw_pass_block *block, const struct pfw_entry *entry,
		    struct table_line *line)
{
	const struct table_options *options = &collect->compare->table;
	struct block_result *result = block->result;
	int64_t row;

	/* Where it ran tells nothing apart here. */
	line->section = TABLE_IO;
	line->device = 0;
	line->annotation = false;
	if (table_key_make(&worker->key, options, line, entry,
			   collect->side->traces.file[block->file].head.rank))
		return -ENOMEM;
	row = pfw_averages_row(&result->keys, worker->key.text, worker->key.bytes);
	if (row < 0)
		return -ENOMEM;
	return add_sample(result,
			  &(struct sample){ .row = (uint32_t)row,
					    .summed = line->summed,
					    .io = pfw_call_is_io(&line->cat),
					    .calls = line->summed ? line->calls : 1,
					    .ts_ns = entry->ts_ns,
					    .dur_ns = line->dur_ns,
					    .log = line->dur_ns > 1 ? log((double)line->dur_ns)
								    : 0 });
}

static int work(void *user, unsigned number, struct pfw_pass_block *block)
{
	const struct collect *collect = user;
	struct worker *worker = &collect->worker[number];
	struct block_result *result = calloc(1, sizeof(*result));
	struct pfw_lines lines;
	struct table_line line;

	if (!result)
		return -ENOMEM;
	pfw_averages_init(&result->keys);
	block->result = result;
	pfw_lines_init(&lines, block);
	while (pfw_lines_next(&lines)) {
		int error;

		if (!table_line_read(&line, &lines.entry, &worker->calls, collect->how) ||
		    !wanted(collect, worker, block->file, &lines.entry, &line))
			continue;
		error = add_line(collect, worker, block, &lines.entry, &line);
		if (error)
			return error;
	}
	return 0;
}

/* ---- rows ---- */

static void drop(void *user, void *result)
{
	struct block_result *dropped = result;

	(void)user;
	pfw_averages_release(&dropped->keys);
	free(dropped->sample);
	free(dropped);
}

static int make_row(struct compare *compare)
{
	size_t runs = compare->side[0].runs + compare->side[1].runs;
	struct compare_row *more =
		pfw_more(compare->row, compare->rows, &compare->room, sizeof(*more));

	if (!more)
		return -ENOMEM;
	compare->row = more;
	more += compare->rows;
	*more = (struct compare_row){ .cell = calloc(runs, sizeof(struct compare_cell)) };
	if (!more->cell)
		return -ENOMEM;
	compare->rows++;
	return 0;
}

/* The block's rows among those of all. */
static int find_rows(struct compare *compare, struct pfw_averages *keys)
{
	for (uint32_t i = 0; i < keys->count; i++) {
		int64_t row =
			pfw_averages_row(&compare->keys, keys->row[i].key, keys->row[i].key_bytes);

		if (row < 0 || ((size_t)row == compare->rows && make_row(compare)))
			return -ENOMEM;
		keys->row[i].merged = (uint32_t)row;
	}
	return 0;
}

static void note_time(struct compare_row *row, unsigned side, int64_t ts_ns)
{
	bool first = !row->batch[side].count;

	if (first || ts_ns < row->first_ns[side])
		row->first_ns[side] = ts_ns;
	if (first || ts_ns > row->last_ns[side])
		row->last_ns[side] = ts_ns;
}

static int count_sample(struct collect *collect, size_t run, uint32_t row,
			const struct sample *sample)
{
	struct compare *compare = collect->compare;
	struct compare_cell *cell = &compare->row[row].cell[run];

	cell->count += sample->calls;
	cell->total_ns = pfw_saturate_add(cell->total_ns, sample->dur_ns);
	compare->row[row].io = sample->io;
	if (sample->summed)
		return 0;
	cell->samples++;
	cell->log_sum += sample->log;
	if (compare->side[0].runs != 1 || compare->side[1].runs != 1 || row >= BATCHED_MAX)
		return 0;
	note_time(&compare->row[row], collect->number, sample->ts_ns);
	return pfw_batches_add(&compare->row[row].batch[collect->number], sample->log);
}

static int done(void *user, struct pfw_pass_block *block)
{
	struct collect *collect = user;
	struct block_result *result = block->result;
	size_t run = collect->side->run[block->file];
	int error;

	if (!result)
		return 0;
	run += collect->number ? collect->compare->side[0].runs : 0;
	error = find_rows(collect->compare, &result->keys);
	for (size_t i = 0; i < result->samples && !error; i++)
		error = count_sample(collect, run, result->keys.row[result->sample[i].row].merged,
				     &result->sample[i]);
	drop(NULL, result);
	block->result = NULL;
	return error;
}

/* ---- the pass ---- */

static bool want(void *user, size_t file, const struct pfw_block *block)
{
	const struct collect *collect = user;

	return pfw_select_block(&collect->side->select, file, block);
}

static void say_problem(void *user, size_t file, const struct pfw_scan_problem *problem)
{
	struct collect *collect = user;

	if (collect->compare->problems++ < PROBLEMS_SHOWN)
		cli_problem(collect->compare->command->name, collect->side->traces.file[file].path,
			    problem);
}

static int init(struct collect *collect)
{
	collect->worker = calloc(collect->jobs, sizeof(*collect->worker));
	if (!collect->worker)
		return -ENOMEM;
	for (unsigned i = 0; i < collect->jobs; i++) {
		collect->worker[i].state = pfw_select_state_create(&collect->side->select);
		if (!collect->worker[i].state || table_key_init(&collect->worker[i].key))
			return -ENOMEM;
	}
	return 0;
}

static void release(struct collect *collect)
{
	for (unsigned i = 0; collect->worker && i < collect->jobs; i++) {
		table_key_release(&collect->worker[i].key);
		pfw_select_state_free(collect->worker[i].state);
	}
	free(collect->worker);
}

static int run(struct collect *collect, const volatile bool *stop)
{
	const struct pfw_pass pass = { .traces = &collect->side->traces,
				       .jobs = collect->jobs,
				       .user = collect,
				       .want = want,
				       .work = work,
				       .done = done,
				       .drop = drop,
				       .problem = say_problem,
				       .progress = progress_of_pass,
				       .stop = stop };
	int error = init(collect);

	if (!error) {
		progress_begin("compare", collect->compare->quiet, false);
		error = pfw_pass_run(&pass);
	}
	/* A file that cannot be read on was said: what could be read is compared. */
	if (!error || error == -EIO)
		error = live_lines_pass(&collect->side->live, &pass);
	progress_hide();
	return !error && *stop ? -EINTR : error;
}

int compare_collect(struct compare *compare, unsigned side, const volatile bool *stop)
{
	struct collect collect = { .compare = compare,
				   .side = &compare->side[side],
				   .number = side,
				   .jobs = pfw_pass_jobs(compare->jobs),
				   .how = { .plain = true,
					    .fnames = compare->side[side].select.fnames } };
	int error;

	for (unsigned i = 0; i < compare->table.fields; i++)
		collect.how.args |= compare->table.field[i] == TABLE_FNAME ||
				    compare->table.field[i] == TABLE_STEP;
	error = run(&collect, stop);
	release(&collect);
	if (error && error != -EINTR)
		cli_error(compare->command->name, "%s", strerror(-error));
	return error;
}
