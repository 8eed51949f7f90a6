/* tools/share/survey.c - opening traces, reading their lines, counting problems; see survey.h. */
#include "share/survey.h"

#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "common/base/order.h"
#include "common/format/clock.h"
#include "store/index/index.h"
#include "store/kit/grow.h"
#include "ui/fit.h"
#include "ui/host.h"
#include "ui/interrupt.h"
#include "ui/progress.h"

#define PROBLEMS_SHOWN 10

/* ---- the command ---- */

void survey_say(void *user, const char *path, const char *why)
{
	struct survey *survey = user;

	cli_error(survey->command->name, "%s: %s", cli_name(path), why);
	survey->problems++;
}

void survey_say_left_out(const struct cli_command *command, const struct pfw_traces *traces)
{
	if (traces->left_out)
		cli_error(
			command->name,
			"the newest run is taken, %s; %s file%s of older runs left out (--all-runs)",
			traces->count ? cli_name(traces->file[0].path) : "which has no file",
			cli_count(traces->left_out), cli_plural(traces->left_out));
}

void survey_say_doubles(const struct cli_command *command, const struct pfw_traces *traces,
			const char *left_out, pfw_traces_say *say, void *user)
{
	for (size_t i = 0; i < traces->doubles; i++) {
		const struct pfw_traces_double *twice = &traces->twice[i];
		char more[48] = "", used[PATH_MAX], why[PATH_MAX + 64];

		if (twice->partly) {
			snprintf(why, sizeof(why), "shares processes with %s: they count twice",
				 cli_name(twice->used));
			say(user, twice->left_out, why);
		}
		if (twice->partly || !left_out)
			continue;
		if (twice->count > 1)
			snprintf(more, sizeof(more), " and %s more", cli_count(twice->count - 1));
		snprintf(used, sizeof(used), "%s", cli_name(twice->used));
		cli_error(command->name, "%s%s %s: the same processes are in %s%s",
			  cli_name(twice->left_out), more, left_out, used,
			  twice->several ? " and others" : "");
	}
}

int survey_open(struct survey *survey, struct survey_input *input, char *const *path, size_t count)
{
	unsigned flags = survey->all_runs * PFW_TRACES_ALL_RUNS |
			 survey->partials * PFW_TRACES_PARTIALS |
			 (survey->heads	  ? PFW_TRACES_HEADS
			  : survey->whole ? 0
					  : PFW_TRACES_RANKS);
	bool indexed = survey->heads || survey->indexed;
	int error = pfw_traces_open_indexed(&input->traces, path, count, flags,
					    indexed ? pfw_index_process_lines : NULL, survey_say,
					    survey);

	if (error)
		return error;
	input->live = (struct pfw_live_lines){ .traces = &input->traces,
					       .say = survey_say,
					       .user = survey };
	if (!survey->quiet)
		survey_say_left_out(survey->command, &input->traces);
	survey_say_doubles(survey->command, &input->traces, survey->quiet ? NULL : "left out",
			   survey_say, survey);
	return 0;
}

void survey_close(struct survey_input *input)
{
	if (input->live.traces)
		pfw_live_lines_close(&input->live);
	pfw_traces_close(&input->traces);
}

/* Open the operands, call body() with them, and close them.  After SIGINT, SIGTERM or SIGHUP the
 * process ends by that signal. */
static int run_body(struct survey *survey, const struct cli_args *args)
{
	struct survey_input input = { .live = { .traces = NULL } };
	int status = CLI_USAGE;

	survey->stop = stop_watch();
	if (survey_open(survey, &input, args->argv, (size_t)args->operands) == 0) {
		status = survey->body(survey->user, &input);
		survey_close(&input);
	}
	stop_end();
	return status;
}

static int take(void *user, const struct cli_args *args, int option)
{
	const struct survey *survey = args->shared;

	return survey->select && option >= SELECT_ARGS
		       ? select_args_take(survey->select, args, option)
		       : survey->take(user, args, option);
}

int survey_main(struct survey *survey, int argc, char **argv)
{
	struct cli_args args;
	int status;

	cli_args_init(&args, survey->command, argc, argv);
	args.shared = survey;
	status = cli_take_options(&args, survey->user, take);
	if (survey->jobs_most && survey->jobs > survey->jobs_most)
		survey->jobs = survey->jobs_most;
	if (survey->row_limit == SURVEY_FEW_ROWS)
		survey->row_limit = cli_for_people(survey->format) ? survey->few_rows : -1;
	survey->width = survey->wide ? 0 : fit_width(stdout);
	if (status < 0 && survey->begin)
		status = survey->begin(survey->user, &args);
	status = status < 0 ? run_body(survey, &args) : status;
	if (survey->select)
		pfw_select_release(survey->select);
	return status;
}

bool survey_lacks(const struct survey *survey, const struct survey_input *input, const char *what)
{
	const struct pfw_trace_file *file = pfw_traces_partial(&input->traces);

	if (file)
		cli_error(survey->command->name, "%s: %s is in no partial: read the trace itself",
			  cli_name(file->partial), what);
	return file;
}

int survey_check_output(const struct survey *survey, const struct survey_input *input,
			const char *path)
{
	struct stat st;

	if (!path || stat(path, &st) < 0)
		return CLI_OK;
	for (size_t i = 0; i < input->traces.count; i++) {
		const struct pfw_trace_file *file = &input->traces.file[i];

		if (file->inode != st.st_ino || file->device != st.st_dev)
			continue;
		return cli_error(survey->command->name, "%s is one of the traces that are read",
				 cli_name(path));
	}
	return CLI_OK;
}

unsigned survey_jobs(struct survey *survey)
{
	if (!survey->jobs)
		survey->jobs = pfw_pass_jobs(0);
	return survey->jobs;
}

int survey_attach(struct survey *survey, struct survey_input *input, struct pfw_select *select)
{
	int error = pfw_live_lines_open(&input->live);

	if (!error && select && !survey->no_index)
		error = select_args_use_indexes(select, survey->command, &input->traces,
						survey->quiet);
	return error ? survey_end(survey, error) : CLI_OK;
}

static struct pfw_extent_options extent_options(struct survey *survey, struct survey_input *input)
{
	return (struct pfw_extent_options){ .jobs = survey->jobs,
					    .stop = survey->stop,
					    .more = pfw_live_lines_more,
					    .user = &input->live };
}

int survey_resolve(struct survey *survey, struct survey_input *input, struct pfw_select *select)
{
	const struct pfw_extent_options extent = extent_options(survey, input);

	/* No row is an answer to a program. */
	select->absent_ranks |= !cli_for_people(survey->format);
	return select_args_resolve(select, survey->command, &input->traces, &extent);
}

int survey_extent(struct survey *survey, struct survey_input *input, struct pfw_extent *extent)
{
	const struct pfw_extent_options options = extent_options(survey, input);

	return pfw_extent_find(extent, &input->traces, &options);
}

int survey_end(struct survey *survey, int error)
{
	if (error && error != -EINTR)
		cli_error(survey->command->name, "%s", strerror(-error));
	if (error)
		return CLI_USAGE;
	return cli_finish(stdout, survey->command, survey->problems ? CLI_PROBLEMS : CLI_OK);
}

/* ---- reading ---- */

/* A shorter reading needs no explanation. */
#define LONG_NS 1000000000

/* One pass of a fold. */
struct reading {
	struct survey *survey;
	const struct survey_input *input;
	const struct survey_fold *fold;
	struct survey_worker *worker;
	const struct host *host; /* of each thread of the pass, too */
	int64_t begun_ns;
	bool said; /* why it takes long */
};

static bool want(void *user, size_t file, const struct pfw_block *block)
{
	const struct survey_fold *fold = ((const struct reading *)user)->fold;

	return fold->want ? fold->want(fold->user, file, block)
			  : pfw_select_block(fold->select, file, block);
}

/* Say what is read, and why; how many lines only if all wanted blocks say it. */
static void say_why(struct reading *reading)
{
	const struct pfw_traces *traces = &reading->input->traces;
	uint64_t lines = 0;
	bool known = true;

	for (size_t i = 0; i < traces->count; i++) {
		const struct pfw_blocks *blocks = &traces->file[i].blocks;

		known &= blocks->layout != PFW_LAYOUT_STREAM;
		for (size_t j = 0; j < blocks->count; j++) {
			const struct pfw_block *block = &blocks->block[j];

			if (!want(reading, i, block))
				continue;
			known &= block->summed;
			lines += block->lines;
		}
	}
	cli_error(reading->survey->command->name, "reading %s lines: %s is in no index",
		  known ? cli_count(lines) : "the", reading->survey->lacks);
}

static void show_progress(void *user, uint64_t done, uint64_t all)
{
	struct reading *reading = user;
	const struct survey *survey = reading->survey;

	/* A second pass has already reported it. */
	if (survey->lacks && !survey->quiet && !reading->host && !reading->said &&
	    !reading->fold->again &&
	    (int64_t)pfw_clock_ns(CLOCK_MONOTONIC) - reading->begun_ns > LONG_NS) {
		reading->said = true;
		say_why(reading);
	}
	progress_show(done, all);
}

static int work(void *user, unsigned worker, struct pfw_pass_block *block)
{
	const struct reading *reading = user;
	const struct survey_fold *fold = reading->fold;

	cli_host = reading->host;
	return fold->work(fold->user, &reading->worker[worker], block);
}

static int done(void *user, struct pfw_pass_block *block)
{
	const struct reading *reading = user;

	cli_host = reading->host;
	return block->result ? reading->fold->done(reading->fold->user, block) : 0;
}

/* Print a problem, unless many are printed already; a host decides itself. */
static void tell_problem(struct survey *survey, const char *path,
			 const struct pfw_scan_problem *problem)
{
	if (survey->problems++ < PROBLEMS_SHOWN || cli_host)
		cli_problem(survey->command->name, path, problem);
}

static void say_problem(void *user, size_t file, const struct pfw_scan_problem *problem)
{
	struct reading *reading = user;

	cli_host = reading->host;
	if (!reading->fold->again)
		tell_problem(reading->survey, reading->input->traces.file[file].path, problem);
}

/* ---- problems that indexes know ---- */

struct survey_kept {
	const char *path;
	struct pfw_scan_problem problem;
};

struct keeping {
	struct survey *survey;
	const char *path;
};

static int keep_problem(void *user, const struct pfw_scan_problem *problem)
{
	const struct keeping *keeping = user;
	const struct survey_kept kept = { .path = keeping->path, .problem = *problem };

	return PFW_APPEND(keeping->survey->kept, keeping->survey->kept_count, kept);
}

int survey_keep_problems(struct survey *survey, const char *path, struct pfw_index *index)
{
	return pfw_index_problems(index, &(struct keeping){ .survey = survey, .path = path },
				  keep_problem);
}

void survey_tell_problems(struct survey *survey)
{
	for (size_t i = 0; i < survey->kept_count; i++)
		tell_problem(survey, survey->kept[i].path, &survey->kept[i].problem);
	survey_forget_problems(survey);
}

void survey_forget_problems(struct survey *survey)
{
	free(survey->kept);
	survey->kept = NULL;
	survey->kept_count = 0;
}

/* ---- passes ---- */

static int make_workers(struct reading *reading)
{
	unsigned jobs = survey_jobs(reading->survey);

	reading->worker = calloc(jobs, sizeof(*reading->worker));
	if (!reading->worker)
		return -ENOMEM;
	for (unsigned i = 0; i < jobs; i++) {
		reading->worker[i].number = i;
		reading->worker[i].state = pfw_select_state_create(reading->fold->select);
		if (!reading->worker[i].state)
			return -ENOMEM;
	}
	return 0;
}

static void free_workers(struct reading *reading)
{
	for (unsigned i = 0; reading->worker && i < reading->survey->jobs; i++)
		pfw_select_state_free(reading->worker[i].state);
	free(reading->worker);
}

static int run(const struct pfw_pass *pass, struct survey_input *input, unsigned sources)
{
	int error = sources & SURVEY_FILES ? pfw_pass_run(pass) : 0;

	/* The problem of a file that cannot be read to its end is printed: the rest counts. */
	if ((!error || error == -EIO) && sources & SURVEY_RINGS)
		return pfw_live_lines_pass(&input->live, pass);
	return error == -EIO ? 0 : error;
}

int survey_read(struct survey *survey, struct survey_input *input, const struct survey_fold *fold,
		unsigned sources)
{
	struct reading reading = { .survey = survey,
				   .input = input,
				   .fold = fold,
				   .host = cli_host,
				   .begun_ns = (int64_t)pfw_clock_ns(CLOCK_MONOTONIC) };
	const struct pfw_pass pass = { .traces = &input->traces,
				       .jobs = survey_jobs(survey),
				       .user = &reading,
				       .want = want,
				       .work = work,
				       .done = done,
				       .drop = fold->drop,
				       .result_bytes = fold->result_bytes,
				       .problem = say_problem,
				       .progress = show_progress,
				       .stop = survey->stop };
	int error = make_workers(&reading);

	progress_begin(survey->command->name, survey->quiet, false);
	error = error ?: run(&pass, input, sources);
	progress_hide();
	free_workers(&reading);
	return !error && *survey->stop ? -EINTR : error;
}

bool survey_wants(const struct pfw_select *select, struct pfw_select_state *state, size_t file,
		  const struct pfw_entry *entry, bool summed, struct pfw_slice name,
		  struct pfw_slice cat)
{
	struct pfw_entry call;

	if (!summed)
		return pfw_select_entry(select, state, file, entry);
	if (select->has_min_dur) /* the calls have no single durations */
		return false;
	call = *entry;
	call.ph = 'X';
	call.name = name;
	call.cat = cat;
	return pfw_select_entry(select, state, file, &call);
}

struct scored {
	int64_t score;
	size_t number;
};

bool slowest_only(const struct survey *survey, size_t count)
{
	return count > SLOWEST_RANKS_MAX && cli_for_people(survey->format) && !survey->all_ranks;
}

static int by_score(const void *a, const void *b)
{
	const struct scored *x = a, *y = b;

	return PFW_ORDER(y->score, x->score) ?: PFW_ORDER(x->number, y->number);
}

bool *slowest_ranks(const struct survey *survey, const int64_t *score, size_t count)
{
	bool few = slowest_only(survey, count);
	bool *shown = calloc(count + 1, sizeof(*shown));
	struct scored *scored = few && shown ? calloc(count, sizeof(*scored)) : NULL;

	if (few && !scored) {
		free(shown);
		return NULL;
	}
	for (size_t i = 0; i < count && shown; i++) {
		shown[i] = !few;
		if (few)
			scored[i] = (struct scored){ score[i], i };
	}
	if (few) {
		qsort(scored, count, sizeof(*scored), by_score);
		for (size_t i = 0; i < SLOWEST_SHOWN; i++)
			shown[scored[i].number] = true;
	}
	free(scored);
	return shown;
}
