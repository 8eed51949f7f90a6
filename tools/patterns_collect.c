/* patterns_collect.c - a pass over the traces, whose operations are taken in order. */
#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "cli.h"
#include "patterns.h"
#include "progress.h"
#include "store/index.h"
#include "store/pass.h"
#include "store/patterns_index.h"

#define PROBLEMS_SHOWN 10

struct collect {
	struct patterns *patterns;
	const struct pfw_traces *traces;
	struct pfw_select_state **state; /* of each worker */
	bool *indexed;			 /* files whose index has said all */
	unsigned jobs;
};

/* A `summed` line is metadata: conditions are on what it stands for. */
static bool wanted(const struct collect *collect, unsigned worker, size_t file,
		   const struct pfw_entry *entry)
{
	struct pfw_entry call = *entry;
	struct pfw_value name;

	if (entry->ph == 'M') {
		if (collect->patterns->select.has_min_dur || !pfw_entry_arg(entry, "name", &name) ||
		    name.type != PFW_VALUE_STRING)
			return false;
		call.ph = 'X';
		call.name = name.text;
		call.cat.at = pfw_call_cat(name.text.at, name.text.bytes);
		call.cat.bytes = strlen(call.cat.at);
	}
	return pfw_select_entry(&collect->patterns->select, collect->state[worker], file, &call);
}

static int work(void *user, unsigned worker, struct pfw_pass_block *block)
{
	const struct collect *collect = user;
	struct pfw_patterns_block *result = pfw_patterns_block_create();
	struct pfw_lines lines;
	int error = 0;

	block->result = result;
	if (!result)
		return -ENOMEM;
	pfw_lines_init(&lines, block);
	while (!error && pfw_lines_next(&lines))
		error = pfw_patterns_block_add(result, &lines.entry,
					       collect->patterns->select.fnames,
					       wanted(collect, worker, block->file, &lines.entry));
	return error;
}

static void drop(void *user, void *result)
{
	(void)user;
	pfw_patterns_block_free(result);
}

static int by_rank(const void *a, const void *b)
{
	int64_t x = ((const struct patterns_rank *)a)->rank;
	int64_t y = ((const struct patterns_rank *)b)->rank;

	return x < y ? -1 : x > y;
}

static struct patterns_rank *find_rank(struct patterns *patterns, int64_t rank)
{
	struct patterns_rank *more;

	for (size_t i = patterns->ranks; i-- > 0;) {
		if (patterns->rank[i].rank == rank)
			return &patterns->rank[i];
	}
	more = realloc(patterns->rank, (patterns->ranks + 1) * sizeof(*more));
	if (!more)
		return NULL;
	patterns->rank = more;
	more[patterns->ranks] = (struct patterns_rank){ .rank = rank };
	return &more[patterns->ranks++];
}

static int done(void *user, struct pfw_pass_block *block)
{
	struct collect *collect = user;
	struct pfw_patterns_block *result = block->result;
	int64_t rank = collect->traces->file[block->file].head.rank;
	struct patterns_rank *known = find_rank(collect->patterns, rank);
	int error = known ? 0 : -ENOMEM;

	if (!result)
		return error;
	if (!error)
		error = pfw_patterns_take(&collect->patterns->found, block->file, rank, result);
	for (unsigned i = 0; i < 2 && known; i++) {
		known->counters.io[i] += result->counters.io[i];
		known->counters.storage[i] += result->counters.storage[i];
		known->counters.any |= result->counters.any;
	}
	pfw_patterns_block_free(result);
	block->result = NULL;
	return error;
}

/* All blocks of a wanted file: those before tell where descriptors stand. */
static bool want(void *user, size_t file, const struct pfw_block *block)
{
	const struct collect *collect = user;

	(void)block;
	return !collect->indexed[file] && pfw_select_file(&collect->patterns->select, file);
}

/* ---- from indexes ---- */

/* All lines of the files that are wanted at all. */
static bool all_lines(const struct pfw_select *select)
{
	return !select->cat.count && !select->name.count && !select->fname.count &&
	       !select->pid.count && !select->tid.count && !select->step.count &&
	       !select->has_min_dur && !select->where_count && !select->times;
}

/* 1; 0 where the lines are to be read; -ENOMEM. */
static int ask_index(struct collect *collect, size_t file)
{
	const struct pfw_trace_file *trace = &collect->traces->file[file];
	struct patterns_rank *rank = find_rank(collect->patterns, trace->head.rank);
	struct pfw_index *index;
	char why[PATH_MAX];
	int error = rank ? 0 : -ENOMEM;

	/* An index adds up all of its file. */
	if (error || trace->ranks || pfw_index_open(&index, trace->path, why, sizeof(why)))
		return error;
	/* Problems of lines are to be told. */
	error = pfw_index_meta(index)->problems
			? -ENOENT
			: pfw_patterns_from_index(&collect->patterns->found, trace->head.rank,
						  &rank->counters, index);
	pfw_index_close(index);
	return !error ? 1 : error == -ENOMEM ? error : 0;
}

static int ask_indexes(struct collect *collect)
{
	collect->indexed = calloc(collect->traces->count + 1, sizeof(bool));
	if (!collect->indexed)
		return -ENOMEM;
	for (size_t i = 0; i < collect->traces->count; i++) {
		int asked = 0;

		if (all_lines(&collect->patterns->select) &&
		    pfw_select_file(&collect->patterns->select, i))
			asked = ask_index(collect, i);
		if (asked < 0)
			return asked;
		collect->indexed[i] = asked;
	}
	return 0;
}

static void say_problem(void *user, size_t file, const struct pfw_scan_problem *problem)
{
	struct collect *collect = user;

	if (collect->patterns->problems++ < PROBLEMS_SHOWN)
		cli_problem(collect->patterns->command->name, collect->traces->file[file].path,
			    problem);
}

static int run(struct collect *collect, struct live_lines *live, const volatile bool *stop)
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
	int error = ask_indexes(collect);

	if (error)
		return error;
	collect->state = calloc(collect->jobs, sizeof(struct pfw_select_state *));
	if (!collect->state)
		return -ENOMEM;
	for (unsigned i = 0; i < collect->jobs; i++) {
		collect->state[i] = pfw_select_state_create(&collect->patterns->select);
		if (!collect->state[i])
			return -ENOMEM;
	}
	progress_begin("patterns", collect->patterns->quiet, false);
	error = pfw_pass_run(&pass);
	/* A file that cannot be read on was said: what could be read is shown. */
	if (!error || error == -EIO)
		error = live_lines_pass(live, &pass);
	if (!error || error == -EIO) {
		int ended = pfw_patterns_end(&collect->patterns->found);

		error = ended ? ended : error;
	}
	progress_hide();
	return !error && *stop ? -EINTR : error;
}

int patterns_collect(struct patterns *patterns, struct live_lines *live, const volatile bool *stop)
{
	struct collect collect = { .patterns = patterns,
				   .traces = live->traces,
				   .jobs = pfw_pass_jobs(patterns->jobs) };
	int error = run(&collect, live, stop);

	for (unsigned i = 0; collect.state && i < collect.jobs; i++)
		pfw_select_state_free(collect.state[i]);
	free(collect.state);
	free(collect.indexed);
	if (patterns->ranks)
		qsort(patterns->rank, patterns->ranks, sizeof(*patterns->rank), by_rank);
	if (error && error != -EINTR)
		cli_error(patterns->command->name, "%s", strerror(-error));
	return error;
}
