/* overlap_collect.c - what was going on in each rank: from indexes, else from one pass over lines. */
#include <errno.h>
#include <limits.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "live_lines.h"
#include "overlap.h"
#include "progress.h"
#include "select_args.h"
#include "store/index.h"
#include "store/overlap_index.h"
#include "store/pass.h"
#include "store/ranks.h"

#define PROBLEMS_SHOWN 10

/* A block's lines on their way from work() to done(); kept for other blocks behind it. */
struct held {
	struct pfw_overlap_block *block;
	struct held *next;
};

struct collect {
	struct overlap *overlap;
	const struct overlap_options *options;
	struct live_lines *live;
	struct pfw_select_state **state; /* of each thread */
	unsigned jobs;
	pthread_mutex_t mutex; /* over `spare` */
	struct held *spare;
};

/* ---- ranks ---- */

static bool same_rank(const struct overlap_rank *rank, const struct pfw_trace_file *file)
{
	return rank->rank == file->head.rank && strcmp(rank->run, file->head.run) == 0;
}

static bool is_wanted(const struct pfw_select *reach, int64_t rank)
{
	return !reach->rank.count ||
	       (rank >= 0 && pfw_select_in_ranges(&reach->rank, (uint64_t)rank));
}

/* Tell which files are whose: a rank's processes name their rank. */
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
		if (!is_wanted(&options->reach, file->head.rank))
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
			pfw_overlap_init(&overlap->rank[at - 1].overlap);
		}
		overlap->rank_of[i] = (uint32_t)(at - 1);
		overlap->rank[at - 1].files += file->ranks ? 2 : 1; /* no index is of it alone */
		if (whole > overlap->rank[at - 1].last)
			overlap->rank[at - 1].last = whole;
	}
	return 0;
}

void overlap_release(struct overlap *overlap)
{
	for (size_t i = 0; i < overlap->ranks; i++) {
		pfw_overlap_release(&overlap->rank[i].overlap);
		free(overlap->rank[i].bin);
	}
	free(overlap->rank);
	free(overlap->rank_of);
	*overlap = (struct overlap){ 0 };
}

/* ---- from indexes ---- */

/* 1; 0 where the lines are to be read; -ENOMEM. */
static int ask_index(struct overlap_rank *rank, const char *path)
{
	struct pfw_index *index;
	char why[PATH_MAX];
	int error;

	if (pfw_index_open(&index, path, why, sizeof(why)))
		return 0;
	/* Problems of lines are to be told. */
	error = pfw_index_meta(index)->problems ? -ENOENT
						: pfw_overlap_from_index(&rank->overlap, index);
	pfw_index_close(index);
	if (!error)
		return 1;
	pfw_overlap_release(&rank->overlap);
	return error == -ENOMEM ? error : 0;
}

/* Ask the index of each rank that is one file; *all: nothing is left to be read. */
static int ask_indexes(struct overlap *overlap, const struct pfw_traces *traces,
		       const struct overlap_options *options, bool *all)
{
	*all = true;
	for (size_t i = 0; i < overlap->ranks; i++) {
		struct overlap_rank *rank = &overlap->rank[i];
		int asked = 0;

		if (rank->files == 1 && !options->limited && !options->compute.name.count &&
		    !options->bins && !options->bin_ns)
			asked = ask_index(rank, traces->file[rank->last].path);
		if (asked < 0)
			return asked;
		rank->indexed = asked;
		*all &= asked;
	}
	return 0;
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

static void drop(void *user, void *result)
{
	struct held *held = result;

	(void)user;
	pfw_overlap_block_free(held->block);
	free(held);
}

static int work(void *user, unsigned worker, struct pfw_pass_block *block)
{
	struct collect *collect = user;
	const struct pfw_select *reach = &collect->options->reach;
	struct held *held = take_spare(collect);
	struct pfw_lines lines;
	int error = 0;

	if (!held)
		return -ENOMEM;
	block->result = held;
	if (reach->times) {
		held->block->since_ns = reach->window[block->file].since_ns;
		held->block->until_ns = reach->window[block->file].until_ns;
	}
	held->block->keep_calls = collect->options->bin_ns != 0;
	held->block->compute = &collect->options->compute.name;
	pfw_lines_init(&lines, block);
	while (!error && pfw_lines_next(&lines)) {
		if (!collect->options->limited ||
		    pfw_select_entry(reach, collect->state[worker], block->file, &lines.entry))
			error = pfw_overlap_block_add(held->block, &lines.entry);
	}
	return error;
}

/* ---- series ---- */

/* The bin of a time; one that is in none (of lines behind what the files had) is in the last. */
static uint64_t bin_of(const struct overlap_options *options, int64_t ns)
{
	uint64_t bin = ns < options->first_ns
			       ? 0
			       : (uint64_t)(ns - options->first_ns) / (uint64_t)options->bin_ns;

	return bin < options->bins ? bin : options->bins - 1;
}

/* Where a bin ends; the last one never. */
static int64_t bin_end(const struct overlap_options *options, uint64_t bin)
{
	return bin + 1 == options->bins ? INT64_MAX
					: options->first_ns + (int64_t)(bin + 1) * options->bin_ns;
}

static void tell(void *user, int64_t begin, int64_t end, unsigned set)
{
	struct overlap_rank *rank = user;

	for (uint64_t i = bin_of(rank->options, begin); begin < end; i++) {
		int64_t until = bin_end(rank->options, i), ns;
		struct overlap_bin *bin = &rank->bin[i];

		until = until < end ? until : end;
		ns = until - begin;
		bin->io_ns += set & 1u << PFW_ACTIVITY_IO ? ns : 0;
		bin->cpu_ns += set & 1u << PFW_ACTIVITY_CPU ? ns : 0;
		bin->gpu_ns += set & (1u << PFW_ACTIVITY_GPU | 1u << PFW_ACTIVITY_COMM) ? ns : 0;
		bin->copy_ns += set & 1u << PFW_ACTIVITY_COPY ? ns : 0;
		begin = until;
	}
}

/* The bytes that a call has moved by that time, spread evenly. */
static uint64_t moved_by(const struct pfw_overlap_call *call, int64_t ns)
{
	return ns >= call->end
		       ? call->bytes
		       : (uint64_t)((unsigned __int128)call->bytes * (uint64_t)(ns - call->begin) /
				    (uint64_t)(call->end - call->begin));
}

static void add_call(struct overlap_rank *rank, const struct pfw_overlap_call *call)
{
	uint64_t bin = bin_of(rank->options, call->begin), before = 0;

	rank->bin[bin].io_calls++;
	for (; before < call->bytes; bin++) {
		uint64_t moved = moved_by(call, bin_end(rank->options, bin));

		rank->bin[bin].io_bytes += moved - before;
		before = moved;
	}
}

static int begin_series(struct overlap_rank *rank)
{
	if (!rank->options->bin_ns || rank->bin)
		return 0;
	rank->bin = calloc(rank->options->bins, sizeof(*rank->bin));
	rank->overlap.tell = tell;
	rank->overlap.user = rank;
	return rank->bin ? 0 : -ENOMEM;
}

/* ---- in order ---- */

static int done(void *user, struct pfw_pass_block *block)
{
	struct collect *collect = user;
	struct overlap *overlap = collect->overlap;
	size_t number = overlap->rank_of[block->file];
	struct overlap_rank *rank = &overlap->rank[number];
	struct held *held = block->result;
	size_t at = pfw_ranks_whole(collect->live->traces, block->file);
	int error = begin_series(rank);

	for (size_t i = 0; !error && i < held->block->calls; i++)
		add_call(rank, &held->block->call[i]);
	error = error ? error : pfw_overlap_take(&rank->overlap, held->block);
	give_spare(collect, held);
	block->result = NULL;
	/* Ranks that are whole give back their memory. */
	while (!error && !collect->live->any && number--) {
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
	       pfw_select_block(&collect->options->reach, file, block);
}

static void say_problem(void *user, size_t file, const struct pfw_scan_problem *problem)
{
	struct collect *collect = user;

	if (collect->overlap->problems++ < PROBLEMS_SHOWN)
		cli_problem(collect->options->command->name, collect->live->traces->file[file].path,
			    problem);
}

/* Lines that are in no file yet; want() is asked of blocks only. */
static int take_text(void *user, size_t file, const char *text, size_t bytes)
{
	const struct pfw_pass *const *pass = user;
	const struct collect *collect = (*pass)->user;

	return collect->overlap->rank_of[file] == OVERLAP_NO_RANK
		       ? 0
		       : pfw_pass_text(*pass, file, text, bytes);
}

/* ---- the pass ---- */

static int read_lines(struct collect *collect, const volatile bool *stop)
{
	const struct pfw_pass pass = { .traces = collect->live->traces,
				       .jobs = collect->jobs,
				       .user = collect,
				       .want = want,
				       .work = work,
				       .done = done,
				       .drop = drop,
				       .problem = say_problem,
				       .progress = progress_of_pass,
				       .stop = stop };
	const struct pfw_pass *all = &pass;
	int error = 0;

	collect->state = calloc(collect->jobs, sizeof(*collect->state));
	for (unsigned i = 0; collect->state && i < collect->jobs; i++) {
		collect->state[i] = pfw_select_state_create(&collect->options->reach);
		error = collect->state[i] ? error : -ENOMEM;
	}
	if (!collect->state || error)
		return -ENOMEM;
	progress_begin("overlap", collect->options->quiet, false);
	error = pfw_pass_run(&pass);
	/* A file that cannot be read on was said: what could be read is shown. */
	if (!error || error == -EIO)
		error = live_lines_read(collect->live, stop, take_text, &all);
	progress_hide();
	return !error && *stop ? -EINTR : error;
}

static void release(struct collect *collect)
{
	for (unsigned i = 0; collect->state && i < collect->jobs; i++)
		pfw_select_state_free(collect->state[i]);
	free(collect->state);
	while (collect->spare) {
		struct held *held = collect->spare;

		collect->spare = held->next;
		drop(NULL, held);
	}
}

/* How long bins are, or how many there are: from when to when the traces go. */
static int lay_out_bins(struct overlap_options *options, const struct pfw_traces *traces,
			const struct pfw_extent_options *how)
{
	struct pfw_extent extent;
	int64_t since = INT64_MAX, until = INT64_MIN;
	int error = pfw_extent_find(&extent, traces, how);

	if (error)
		return error;
	for (size_t i = 0; options->reach.times && i < traces->count; i++) {
		const struct pfw_select_window *window = &options->reach.window[i];

		since = window->wanted && window->since_ns < since ? window->since_ns : since;
		until = window->wanted && window->until_ns > until ? window->until_ns : until;
	}
	if (options->reach.times && since > extent.least_ns)
		extent.least_ns = since;
	if (options->reach.times && until < extent.greatest_ns)
		extent.greatest_ns = until;
	if (extent.least_ns > extent.greatest_ns)
		extent.least_ns = extent.greatest_ns = 0;
	options->first_ns = extent.least_ns;
	/* The last instant is in a bin, too. */
	extent.greatest_ns++;
	if (!options->bin_ns)
		options->bin_ns =
			(extent.greatest_ns - extent.least_ns - 1) / (int64_t)options->bins + 1;
	options->bins =
		(uint64_t)(extent.greatest_ns - extent.least_ns - 1) / (uint64_t)options->bin_ns +
		1;
	pfw_extent_free(&extent);
	return options->bins > OVERLAP_BINS_MAX ? -E2BIG : 0;
}

static int collect_lines(struct collect *collect, struct overlap_options *options,
			 const volatile bool *stop)
{
	struct pfw_traces *traces = collect->live->traces;
	const struct pfw_extent_options extent = {
		.jobs = options->jobs, .stop = stop, .more = live_lines_more, .user = collect->live
	};
	int error = live_lines_open(collect->live);

	collect->overlap->problems += collect->live->missing;
	if (!error)
		error = select_args_use_indexes(&options->reach, options->command, traces,
						options->quiet);
	if (!error && select_args_resolve(&options->reach, options->command, traces, &extent))
		return *stop ? -EINTR : -ECANCELED;
	if (!error && (options->bins || options->bin_ns))
		error = lay_out_bins(options, traces, &extent);
	return error ? error : read_lines(collect, stop);
}

int overlap_collect(struct overlap *overlap, struct overlap_options *options,
		    struct live_lines *live, const volatile bool *stop)
{
	struct collect collect = { .overlap = overlap,
				   .options = options,
				   .live = live,
				   .jobs = pfw_pass_jobs(options->jobs),
				   .mutex = PTHREAD_MUTEX_INITIALIZER };
	bool all;
	int error = find_ranks(overlap, options, live->traces);

	error = error ? error : ask_indexes(overlap, live->traces, options, &all);
	if (!error && !all)
		error = collect_lines(&collect, options, stop);
	for (size_t i = 0; !error && i < overlap->ranks; i++) {
		struct overlap_rank *rank = &overlap->rank[i];

		error = rank->indexed ? 0 : begin_series(rank);
		if (!error && !rank->indexed)
			error = pfw_overlap_end(&rank->overlap);
	}
	for (size_t i = 0; !error && i < overlap->ranks && !options->quiet; i++) {
		if (overlap->rank[i].overlap.owner.several)
			cli_error(options->command->name,
				  "%s: several ranks in one file are counted as one; "
				  "`pfw compact --split-by process` takes it apart",
				  cli_name(live->traces->file[overlap->rank[i].last].path));
	}
	release(&collect);
	if (error == -E2BIG)
		cli_error(options->command->name,
			  "--bins: that makes more than %u of them: take longer ones, or fewer",
			  OVERLAP_BINS_MAX);
	else if (error && error != -EINTR && error != -ECANCELED)
		cli_error(options->command->name, "%s", strerror(-error));
	return error;
}
