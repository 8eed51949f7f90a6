/* tools/overlap/collect.c - finds the activities of each rank: from indexes, else from one pass
 * over lines.
 */
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "overlap/overlap.h"
#include "share/select_args.h"
#include "share/unasked.h"
#include "store/index/index.h"
#include "store/overlap/in_index.h"
#include "store/overlap/kept.h"
#include "store/overlap/window.h"
#include "store/traces/ranks.h"

/* Whether times, and ranks, are all that lines are selected by. */
static bool is_window(const struct overlap_options *options)
{
	struct pfw_select reach = options->reach;

	reach.since.kind = reach.until.kind = PFW_TIME_NONE;
	return options->reach.times && !options->survey.no_index && !options->compute.name.count &&
	       !options->bin_ns && !select_args_but_rank(&reach);
}

/* With fewer blocks in the window, the index takes longer than they do. */
#define BLOCKS_LEAST 4u

static bool has_blocks(const struct pfw_blocks *blocks, const struct pfw_select_window *window)
{
	size_t inside = 0;

	for (size_t i = 0; i < blocks->count && inside < BLOCKS_LEAST; i++)
		inside += blocks->block[i].least_ns >= window->since_ns &&
			  blocks->block[i].greatest_ns < window->until_ns;
	return inside == BLOCKS_LEAST;
}

static int find_window(struct overlap_rank *rank, const struct pfw_select_window *window,
		       const struct pfw_trace_file *file)
{
	struct pfw_index *index;
	int error = has_blocks(&file->blocks, window) ? pfw_index_of(&index, file) : -ENOENT;

	if (error)
		return error;
	error = pfw_index_has_blocks(index, &file->blocks) ? 0 : -ENOENT;
	error = error ? error
		      : pfw_overlap_window_open(&rank->window, index, window->since_ns,
						window->until_ns);
	pfw_index_close(index);
	return error ?: pfw_overlap_use_window(&rank->overlap, rank->window);
}

/* Take the middle of each rank's window from its index.  0 or -ENOMEM. */
static int find_windows(struct overlap *overlap, const struct overlap_options *options,
			const struct survey_input *input)
{
	int error = 0;

	for (size_t i = 0; i < overlap->ranks && is_window(options) && !error; i++) {
		struct overlap_rank *rank = &overlap->rank[i];
		const struct pfw_trace_file *file = &input->traces.file[rank->last];

		if (rank->files != 1 || file->partial || input->live.live[rank->last])
			continue;
		if (find_window(rank, &options->reach.window[rank->last], file) == -ENOMEM)
			error = -ENOMEM;
	}
	return error;
}

/* Whether no line of a block is needed. */
static bool skips(const struct overlap *overlap, const struct survey_input *input, size_t file,
		  const struct pfw_block *block)
{
	const struct overlap_rank *rank = &overlap->rank[overlap->rank_of[file]];
	size_t number = (size_t)(block - input->traces.file[file].blocks.block);

	return (rank->window && rank->window->skip[number]) || overlap_series_skips(rank, number);
}

static void forget(struct overlap_rank *rank)
{
	pfw_overlap_window_close(rank->window);
	rank->window = NULL;
}

/* Whether what was taken does not fit the lines; then all ranks are as if nothing was read. */
static bool undo_windows(struct overlap *overlap)
{
	bool misfit = false;

	for (size_t i = 0; i < overlap->ranks; i++)
		misfit |= overlap->rank[i].overlap.misfit;
	for (size_t i = 0; i < overlap->ranks; i++) {
		forget(&overlap->rank[i]);
		if (misfit && !overlap->rank[i].indexed)
			pfw_overlap_release(&overlap->rank[i].overlap);
	}
	return misfit;
}

/* The result of a block; done() keeps it for later blocks. */
struct held {
	struct pfw_overlap_block *block;
	struct held *next;
};

struct collect {
	struct overlap *overlap;
	const struct overlap_options *options;
	const struct survey_input *input;
	pthread_mutex_t mutex; /* protects `spare` */
	struct held *spare;
};

/* ---- ranks ---- */

static bool same_rank(const struct overlap_rank *rank, const struct pfw_trace_file *file)
{
	return rank->rank == file->head.rank && strcmp(rank->run, file->head.run) == 0;
}

/* Group the files by rank: the processes of a rank name it. */
static int find_ranks(struct overlap *overlap, const struct overlap_options *options,
		      const struct pfw_traces *traces)
{
	overlap->rank = calloc(traces->count + 1, sizeof(*overlap->rank));
	overlap->rank_of = calloc(traces->count + 1, sizeof(*overlap->rank_of));
	if (!overlap->rank || !overlap->rank_of)
		return -ENOMEM;
	for (size_t i = 0; i < traces->count; i++) {
		const struct pfw_trace_file *file = &traces->file[i];
		size_t at = overlap->ranks, whole = pfw_ranks_whole(traces, i);

		overlap->rank_of[i] = OVERLAP_NO_RANK;
		if (!pfw_select_rank(&options->reach, file->head.rank))
			continue;
		/* Files come in order of rank. */
		while (at && overlap->rank[at - 1].rank == file->head.rank &&
		       !same_rank(&overlap->rank[at - 1], file))
			at--;
		if (!at || !same_rank(&overlap->rank[at - 1], file)) {
			at = ++overlap->ranks;
			overlap->rank[at - 1].rank = file->head.rank;
			overlap->rank[at - 1].run = file->head.run;
			overlap->rank[at - 1].options = options;
			overlap->rank[at - 1].first = i;
			pfw_overlap_init(&overlap->rank[at - 1].overlap);
		}
		overlap->rank_of[i] = (uint32_t)(at - 1);
		/* 2: no index covers a part of a file */
		overlap->rank[at - 1].files += file->ranks ? 2 : 1;
		if (whole > overlap->rank[at - 1].last)
			overlap->rank[at - 1].last = whole;
	}
	return 0;
}

void overlap_release(struct overlap *overlap)
{
	for (size_t i = 0; i < overlap->ranks; i++) {
		pfw_overlap_release(&overlap->rank[i].overlap);
		overlap_series_release(&overlap->rank[i]);
	}
	pfw_overlaps_close(overlap->kept);
	free(overlap->directory);
	free(overlap->rank);
	free(overlap->rank_of);
	*overlap = (struct overlap){ 0 };
}

/* ---- from indexes ---- */

/* 1; 0 if the lines must be read; -ENOMEM. */
static int ask_index(struct overlap_rank *rank, const struct survey_input *input,
		     struct survey *survey, struct pfw_indexes_ahead *ahead)
{
	const struct pfw_trace_file *file = &input->traces.file[rank->last];
	struct pfw_index *index;
	int error = pfw_index_ahead(ahead, rank->last, &index);

	if (error)
		return error == -ENOMEM ? error : 0;
	error = survey_keep_problems(survey, file->path, index);
	pfw_index_close(index);
	if (!error) {
		survey_tell_problems(survey);
		return 1;
	}
	survey_forget_problems(survey);
	pfw_overlap_release(&rank->overlap);
	return error == -ENOMEM ? error : 0;
}

bool overlap_asks_indexes(const struct overlap_options *options)
{
	return !options->survey.no_index && !select_args_but_rank(&options->reach) &&
	       !options->compute.name.count && !options->bins && !options->bin_ns;
}

/* What is asked of indexes. */
struct asking {
	const struct overlap *overlap;
	const struct survey_input *input;
};

/* Whether the index of a file is asked: of a rank that is this file alone.  An index has no lines in
 * rings. */
static bool has_answer(void *user, size_t file)
{
	const struct asking *asking = user;
	uint32_t number = asking->overlap->rank_of[file];

	return number != OVERLAP_NO_RANK && asking->overlap->rank[number].files == 1 &&
	       !asking->overlap->rank[number].indexed && !asking->input->live.live[file];
}

/* Take a rank from the index of its file.  Thread: any. */
static int read_rank(void *user, size_t file, struct pfw_index *index)
{
	const struct asking *asking = user;
	struct pfw_overlap *of = &asking->overlap->rank[asking->overlap->rank_of[file]].overlap;
	int error = pfw_overlap_from_index(of, index);

	if (error)
		pfw_overlap_release(of);
	return error;
}

/* Ask the index of each rank that is one file, and what is kept of the others.  *all gets whether no
 * line must be read. */
static int ask_indexes(struct overlap *overlap, const struct survey_input *input,
		       struct overlap_options *options, bool *all)
{
	struct asking asking = { .overlap = overlap, .input = input };
	struct pfw_indexes_ahead *ahead;
	int error = 0;

	*all = true;
	if (!overlap_asks_indexes(options)) {
		*all = !overlap->ranks;
		return 0;
	}
	if (pfw_indexes_ahead_open(&ahead, &input->traces, survey_jobs(&options->survey), &asking,
				   has_answer, read_rank))
		return -ENOMEM;
	for (size_t i = 0; i < overlap->ranks && !error; i++) {
		struct overlap_rank *rank = &overlap->rank[i];
		int asked = 0;

		if (rank->indexed)
			continue;
		if (has_answer(&asking, rank->last))
			asked = ask_index(rank, input, &options->survey, ahead);
		else if (rank->files != 1)
			asked = overlap_find_kept(overlap, i, &options->survey, input);
		error = asked < 0 ? asked : 0;
		rank->indexed = asked > 0;
		*all &= asked > 0;
	}
	pfw_indexes_ahead_close(ahead);
	return error;
}

/* ---- blocks; by several threads ---- */

static struct held *take_spare(struct collect *collect)
{
	struct held *held;

	pthread_mutex_lock(&collect->mutex);
	held = collect->spare;
	if (held)
		collect->spare = held->next;
	pthread_mutex_unlock(&collect->mutex);
	if (held)
		return held;
	held = calloc(1, sizeof(*held));
	if (held && !(held->block = pfw_overlap_block_create())) {
		free(held);
		held = NULL;
	}
	return held;
}

static void give_spare(struct collect *collect, struct held *held)
{
	pfw_overlap_block_clear(held->block);
	pthread_mutex_lock(&collect->mutex);
	held->next = collect->spare;
	collect->spare = held;
	pthread_mutex_unlock(&collect->mutex);
}

static void drop(void *result)
{
	struct held *held = result;

	pfw_overlap_block_free(held->block);
	free(held);
}

static int work(void *user, const struct survey_worker *worker, struct pfw_pass_block *block)
{
	struct collect *collect = user;
	const struct pfw_select *reach = &collect->options->reach;
	const bool some = select_args_but_rank(reach);
	struct pfw_pass_lines lines;
	struct held *held;
	int error = 0;

	if (collect->overlap->rank_of[block->file] == OVERLAP_NO_RANK)
		return 0; /* lines in rings: want() was not asked */
	held = take_spare(collect);
	if (!held)
		return -ENOMEM;
	block->result = held;
	if (reach->times) {
		held->block->since_ns = reach->window[block->file].since_ns;
		held->block->until_ns = reach->window[block->file].until_ns;
	}
	held->block->keep_calls = collect->options->bin_ns != 0;
	held->block->compute = &collect->options->compute.name;
	pfw_pass_lines_init(&lines, block);
	while (!error && pfw_pass_lines_next(&lines)) {
		if (!some || pfw_select_entry(reach, worker->state, block->file, &lines.entry))
			error = pfw_overlap_block_add(held->block, &lines.entry, NULL);
	}
	return error;
}

/* ---- in order ---- */

static int done(void *user, struct pfw_pass_block *block)
{
	struct collect *collect = user;
	struct overlap *overlap = collect->overlap;
	size_t number = overlap->rank_of[block->file];
	size_t at = pfw_ranks_whole(&collect->input->traces, block->file);
	struct held *held = block->result;
	struct overlap_rank *rank = &overlap->rank[number];
	int error = overlap_series_begin(rank);

	for (size_t i = 0; !error && i < held->block->calls; i++)
		overlap_series_call(rank, &held->block->call[i]);
	error = error ?: pfw_overlap_take(&rank->overlap, held->block);
	give_spare(collect, held);
	block->result = NULL;
	/* Free the memory of ranks that are complete. */
	while (!error && !collect->input->live.any && number--) {
		if (overlap->rank[number].indexed || overlap->rank[number].last >= at)
			continue;
		if (!overlap->rank[number].overlap.swept)
			error = pfw_overlap_end(&overlap->rank[number].overlap);
		else
			break;
	}
	return error;
}

static bool want(void *user, size_t file, const struct pfw_block *block)
{
	const struct collect *collect = user;
	uint32_t number = collect->overlap->rank_of[file];

	return number != OVERLAP_NO_RANK && !collect->overlap->rank[number].indexed &&
	       pfw_select_block(&collect->options->reach, file, block) &&
	       !skips(collect->overlap, collect->input, file, block);
}

static void release_spare(struct collect *collect)
{
	while (collect->spare) {
		struct held *held = collect->spare;

		collect->spare = held->next;
		drop(held);
	}
}

static int read_lines(struct overlap *overlap, struct overlap_options *options,
		      struct survey_input *input)
{
	struct collect collect = { .overlap = overlap,
				   .options = options,
				   .input = input,
				   .mutex = PTHREAD_MUTEX_INITIALIZER };
	const struct survey_fold fold = { .user = &collect,
					  .select = &options->reach,
					  .want = want,
					  .work = work,
					  .done = done,
					  .drop = drop };
	int error = survey_read(&options->survey, input, &fold, SURVEY_ALL);

	release_spare(&collect);
	return error;
}

static int end_ranks(struct overlap *overlap)
{
	int error = 0;

	for (size_t i = 0; !error && i < overlap->ranks; i++) {
		struct overlap_rank *rank = &overlap->rank[i];

		error = rank->indexed ? 0 : overlap_series_begin(rank);
		if (!error && !rank->indexed)
			error = pfw_overlap_end(&rank->overlap);
		error = error ?: overlap_series_end(rank);
	}
	return error;
}

static int read_and_end(struct overlap *overlap, struct overlap_options *options,
			struct survey_input *input)
{
	return read_lines(overlap, options, input) ?: end_ranks(overlap);
}

/* Read the lines of ranks without an index.  The exit status. */
static int collect_lines(struct overlap *overlap, struct overlap_options *options,
			 struct survey_input *input)
{
	struct survey *survey = &options->survey;
	int status, error;

	if (pfw_traces_lay_out(&input->traces, survey_say, survey))
		return CLI_USAGE;
	if (overlap_series_asks(options))
		unasked_of_survey(survey, &input->traces);
	error = survey->no_index ? 0
				 : select_args_use_indexes(&options->reach, survey->command,
							   &input->traces, survey->quiet);

	if (error)
		return survey_end(survey, error);
	status = survey_resolve(survey, input, &options->reach);
	if (status != CLI_OK)
		return status;
	if (options->bins || options->bin_ns)
		error = overlap_series_lay_out(options, input);
	if (error == -E2BIG) {
		cli_error(survey->command->name,
			  "--bins: that makes more than %u of them: take longer ones, or fewer",
			  OVERLAP_BINS_MAX);
		return CLI_USAGE;
	}
	if (!error)
		error = find_windows(overlap, options, input);
	if (!error)
		error = overlap_find_series(overlap, options, input);
	error = error ?: read_and_end(overlap, options, input);
	if (!error && undo_windows(overlap))
		error = read_and_end(overlap, options, input);
	return error ? survey_end(survey, error) : CLI_OK;
}

/* What no index knows: an option, or the overlap of a rank in several files. */
static const char *needs_lines(const struct overlap_options *options)
{
	if (options->survey.no_index)
		return "--no-index";
	if (select_args_but_rank(&options->reach))
		return select_args_but_rank(&options->reach);
	if (options->compute.name.count)
		return "--compute";
	if (options->bins || options->bin_ns)
		return "--bins";
	return "the overlap of a rank whose files were reduced apart, or of several ranks in one "
	       "file,";
}

int overlap_collect(struct overlap *overlap, struct overlap_options *options,
		    struct survey_input *input)
{
	struct survey *survey = &options->survey;
	bool all = true;
	int error = find_ranks(overlap, options, &input->traces), status;

	/* No trace is of a wanted rank: that is said there. */
	if (!error && !overlap->ranks)
		return survey_resolve(survey, input, &options->reach);
	error = error ?: pfw_live_lines_open(&input->live);
	error = error ?: ask_indexes(overlap, input, options, &all);
	if (!error && !all && overlap_asks_indexes(options) &&
	    unasked_of_survey(survey, &input->traces))
		error = ask_indexes(overlap, input, options, &all);
	if (!error && !all && survey_lacks(survey, input, needs_lines(options)))
		return CLI_USAGE;
	if (!survey->no_index && !overlap_asks_indexes(options))
		survey->lacks = needs_lines(options);
	if (!error && !all) {
		status = collect_lines(overlap, options, input);
		if (status != CLI_OK)
			return status;
	}
	for (size_t i = 0; i < overlap->ranks; i++) {
		overlap->rank[i].known = overlap_known(&overlap->rank[i].overlap);
		overlap->rank[i].unknown = overlap_unknown(overlap->rank[i].known);
	}
	if (error)
		return survey_end(survey, error);
	if (!all && overlap_asks_indexes(options))
		overlap_keep(overlap, survey, input);
	for (size_t i = 0; i < overlap->ranks && !survey->quiet; i++) {
		if (overlap->rank[i].overlap.owner.several)
			cli_error(survey->command->name,
				  "%s: several ranks in one file are counted as one; "
				  "`pfw compact --split-by process` takes it apart",
				  cli_name(input->traces.file[overlap->rank[i].last].path));
	}
	return CLI_OK;
}
