/* query.c - `pfw query`: the lines of traces that fulfil conditions, as they stand there or as a
 * table of some of their fields. */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "progress.h"
#include "query.h"
#include "select_args.h"
#include "stop.h"
#include "store/more.h"
#include "store/pass.h"
#include "store/scratch.h"

#define PROBLEMS_SHOWN 10 /* a file; one broken writer makes as many problems as lines */

/* ---- what was wanted of one block ---- */

/* A line among the texts of a block. */
struct mark {
	int64_t key;
	size_t end; /* of its text */
};

struct hits {
	struct pfw_text text;
	uint64_t count;
	struct mark *mark; /* of each line, where there is a limit or an order */
	size_t room;
};

static void free_hits(void *user, void *result)
{
	struct hits *hits = result;

	(void)user;
	if (!hits)
		return;
	pfw_text_free(&hits->text);
	free(hits->mark);
	free(hits);
}

static int add_mark(struct hits *hits, int64_t key)
{
	struct mark *more = pfw_more(hits->mark, hits->count, &hits->room, sizeof(*more));

	if (!more)
		return -ENOMEM;
	hits->mark = more;
	more[hits->count] = (struct mark){ key, hits->text.bytes };
	return 0;
}

static int add_hit(const struct query *query, struct query_worker *worker, struct hits *hits,
		   const struct pfw_lines *line)
{
	struct pfw_slice text = { .at = line->text, .bytes = line->bytes };
	int64_t key = query->sorted ? query_key_of(&query->key, &line->entry) : 0;
	int error = 0;

	if (query->sorted && !query_top_wants(&query->top, key))
		return 0;
	if (!query->count)
		error = query_lines_add(&query->lines, &hits->text, worker->scratch, &line->entry,
					text, query->select.window[line->file].rank);
	if (!error && query->limit != QUERY_NO_LIMIT && !query->count)
		error = add_mark(hits, key);
	hits->count += !error;
	return error;
}

static bool want(void *user, size_t file, const struct pfw_block *block)
{
	const struct query *query = user;

	return pfw_select_block(&query->select, file, block);
}

static int work(void *user, unsigned number, struct pfw_pass_block *block)
{
	struct query *query = user;
	struct query_worker *worker = &query->worker[number];
	struct hits *hits = calloc(1, sizeof(*hits));
	struct pfw_lines line;
	int error = hits ? 0 : -ENOMEM;

	block->result = hits;
	pfw_lines_init(&line, block);
	while (!error && pfw_lines_next(&line)) {
		if (pfw_select_entry(&query->select, worker->state, line.file, &line.entry))
			error = add_hit(query, worker, hits, &line);
		/* So many are more than will be given. */
		if (hits->count >= query->limit && !query->sorted)
			break;
	}
	return error;
}

/* Hand a block's lines to the order. */
static int sort_in(struct query *query, const struct hits *hits)
{
	size_t begin = 0;
	int error = 0;

	for (uint64_t i = 0; i < hits->count && !error; i++) {
		error = query_top_add(&query->top, hits->mark[i].key, hits->text.data + begin,
				      hits->mark[i].end - begin);
		begin = hits->mark[i].end;
	}
	return error;
}

static int done(void *user, struct pfw_pass_block *block)
{
	struct query *query = user;
	struct hits *hits = block->result;
	uint64_t count = hits->count, left = query->limit - query->given;
	size_t bytes = hits->text.bytes;
	int error = 0;

	if (query->sorted) {
		error = sort_in(query, hits);
	} else {
		if (count >= left) {
			count = left;
			bytes = !count ? 0 : query->count ? bytes : hits->mark[count - 1].end;
		}
		query->given += count;
		if (bytes)
			error = output_write(&query->output, hits->text.data, bytes);
		if (!error && query->given >= query->limit)
			error = -ECANCELED; /* that is all: no more need be read */
	}
	free_hits(NULL, hits);
	block->result = NULL;
	return error;
}

/* ---- problems ---- */

static void tell_untold(struct query *query)
{
	if (query->untold)
		cli_error(query->command->name, "%s: %s more problem%s",
			  cli_name(query->traces.file[query->told_file].path),
			  cli_count(query->untold), cli_plural(query->untold));
	query->untold = 0;
}

static void problem(void *user, size_t file, const struct pfw_scan_problem *what)
{
	struct query *query = user;

	if (query->status == CLI_OK)
		query->status = CLI_PROBLEMS;
	if (file != query->told_file) {
		tell_untold(query);
		query->told_file = file;
		query->told = 0;
	}
	if (query->told == PROBLEMS_SHOWN) {
		query->untold += 1 + what->more;
		return;
	}
	query->told++;
	query->untold += what->more;
	cli_problem(query->command->name, query->traces.file[file].path, what);
}

void query_say(void *user, const char *path, const char *why)
{
	struct query *query = user;

	cli_error(query->command->name, "%s: %s", cli_name(path), why);
	query->status = CLI_USAGE;
}

/* ---- the pass ---- */

int query_take_text(struct query *query, size_t file, const char *text, size_t bytes)
{
	const struct pfw_pass pass = {
		.user = query, .work = work, .done = done, .drop = free_hits, .problem = problem
	};

	return pfw_pass_text(&pass, file, text, bytes);
}

int query_worker_init(struct query_worker *worker, const struct query *query)
{
	worker->state = pfw_select_state_create(&query->select);
	worker->scratch = pfw_scratch_new();
	return worker->state && worker->scratch ? 0 : -ENOMEM;
}

void query_worker_release(struct query_worker *worker)
{
	pfw_select_state_free(worker->state);
	pfw_scratch_free(worker->scratch);
}

int query_write_head(struct query *query)
{
	struct pfw_text text = { 0 };
	int error = 0;

	if (query->lines.format == QUERY_NDJSON || query->count)
		return 0;
	error = query_lines_head(&query->lines, &text);
	if (!error)
		error = output_write(&query->output, text.data, text.bytes);
	pfw_text_free(&text);
	return error;
}

/* What comes when all is read. */
static int write_tail(struct query *query)
{
	char text[48];
	int error = 0;

	if (query->count) {
		int bytes = snprintf(text, sizeof(text), "%" PRIu64 "\n", query->given);

		return output_write(&query->output, text, (size_t)bytes);
	}
	query_top_sort(&query->top);
	for (size_t i = 0; i < query->top.count && !error; i++)
		error = output_write(&query->output, query->top.item[i].text,
				     query->top.item[i].bytes);
	return error;
}

/* Lines that are in no file yet. */
static int take_live(void *user, size_t file, const char *text, size_t bytes)
{
	return query_take_text(user, file, text, bytes);
}

static int run_pass(struct query *query)
{
	struct pfw_pass pass = {
		.traces = &query->traces,
		.jobs = pfw_pass_jobs(query->jobs),
		.whole = true,
		.user = query,
		.want = want,
		.work = work,
		.done = done,
		.drop = free_hits,
		.problem = problem,
		.progress = progress_of_pass,
		.stop = query->stop,
	};
	int error = 0;

	progress_begin("query", query->quiet, !query->output.path);

	query->worker = calloc(pass.jobs, sizeof(*query->worker));
	if (!query->worker)
		return -ENOMEM;
	for (unsigned i = 0; i < pass.jobs && !error; i++)
		error = query_worker_init(&query->worker[i], query);
	if (!error)
		error = query_write_head(query);
	if (!error && query->limit)
		error = pfw_pass_run(&pass);
	progress_hide();
	if (!error && query->limit)
		error = live_lines_read(&query->live, query->stop, take_live, query);
	for (unsigned i = 0; i < pass.jobs; i++)
		query_worker_release(&query->worker[i]);
	free(query->worker);
	tell_untold(query);
	return error;
}

/* ---- the command ---- */

int query_refuse(const struct query *query, const char *why)
{
	cli_error(query->command->name, "%s", why);
	return CLI_USAGE;
}

/* -o must not be one of the traces, not even with --force. */
static int check_output(const struct query *query)
{
	struct stat st;

	if (!query->out_path || stat(query->out_path, &st) < 0)
		return CLI_OK;
	for (size_t i = 0; i < query->traces.count; i++) {
		const struct pfw_trace_file *file = &query->traces.file[i];

		if (file->inode == st.st_ino && file->device == st.st_dev) {
			cli_error(query->command->name, "%s is one of the traces that are read",
				  cli_name(query->out_path));
			return CLI_USAGE;
		}
	}
	return CLI_OK;
}

/* Read, and write what is wanted.  The exit status. */
static int give(struct query *query)
{
	int error;

	query->top = (struct query_top){ .limit = query->limit, .worst = INT64_MAX };
	error = run_pass(query);
	if (error == 0 || error == -ECANCELED || error == -EIO)
		error = query->output.gone ? 0 : write_tail(query) ? -EIO : error;
	query_top_free(&query->top);
	if (query->output.gone)
		return query->status;
	if (error == 0 || error == -ECANCELED)
		return query->status;
	if (error == -E2BIG)
		return query_refuse(query,
				    "--limit: so many lines take more than 256 MiB; sort fewer");
	if (error != -EIO && error != -EINTR)
		return query_refuse(query, strerror(-error));
	return error == -EINTR ? 130 : CLI_USAGE;
}

static int run(struct query *query)
{
	struct pfw_extent_options options = { .jobs = query->jobs,
					      .stop = query->stop,
					      .more = live_lines_more,
					      .user = &query->live };
	int status;

	query->select.ask_fnames |= pfw_columns_ask_fname(&query->lines.columns);

	if (select_args_use_indexes(&query->select, query->command, &query->traces, query->quiet) ||
	    (!query->follow && live_lines_open(&query->live)))
		return query_refuse(query, strerror(ENOMEM));
	if (query->live.missing && query->status == CLI_OK)
		query->status = CLI_PROBLEMS;
	status = select_args_resolve(&query->select, query->command, &query->traces, &options);
	if (status == CLI_OK)
		status = check_output(query);
	if (status == CLI_OK)
		status = output_open(&query->output, query->command, query->out_path, query->force);
	if (status != CLI_OK)
		return status;
	query->lines.ranks = query->traces.ranks;
	query->lines.columns.fnames = query->select.fnames;
	status = query->follow ? query_follow(query) : give(query);
	/* What was followed until Ctrl-C is all there is; else it is the half of something. */
	if (*query->stop && !query->follow) {
		output_abandon(&query->output);
		return 130;
	}
	return output_finish(&query->output, status);
}

static int query_main(const struct cli_command *command, int argc, char **argv)
{
	struct query query = { .command = command, .limit = QUERY_NO_LIMIT };
	struct cli_args args;
	bool ended;
	int status;

	cli_args_init(&args, command, argc, argv);
	status = query_read_options(&query, &args, &ended);
	if (!ended) {
		query.stop = stop_watch();
		query.live = (struct live_lines){ .command = command, .traces = &query.traces };
		if (pfw_traces_open_ranks(&query.traces, query.paths, query.path_count,
					  query.all_runs, query_say, &query) == 0) {
			if (query.traces.left_out && !query.quiet)
				cli_error(command->name,
					  "%s file%s of older runs left out (--all-runs)",
					  cli_count(query.traces.left_out),
					  cli_plural(query.traces.left_out));
			status = run(&query);
		} else {
			status = CLI_USAGE;
		}
		live_lines_close(&query.live);
		pfw_traces_close(&query.traces);
		stop_end();
	}
	pfw_columns_free(&query.lines.columns);
	pfw_select_release(&query.select);
	return status;
}

const struct cli_command cli_query = {
	.name = "query",
	.operands = "[PATH...]",
	.summary = "Print the lines of traces that fulfil conditions",
	.options = query_options,
	.failure = CLI_USAGE,
	.main = query_main,
	.details =
		"PATH is a file (.pfw or .pfw.gz, ours or DFTracer's), a directory, a glob, the\n"
		"base name of a run, or - for standard input; none: the newest run here.\n"
		"Every condition must hold; of one given more than once, any (--where: all).\n"
		"Lines stand in the order of the files, ranks first; where there are several ranks,\n"
		"each has \"rank\" as its first key.  Blocks that can hold nothing wanted are not read.\n"
		"\n"
		"EXPR: fields id name cat pid tid ts dur ph rank step args.X args.X.Y, null where a\n"
		"line has none; numbers with units (5ms, 4KiB; bare: µs), \"texts\", true false null;\n"
		"== != < <= > >= =~ !~ (regular expressions) in (1, 2), && || !, + - * /, has(args.X).\n"
		"\n"
		"  pfw query --cat POSIX --min-dur 1ms --since 50% t\n"
		"  pfw query --where 'name in (\"read\",\"pread\") && args.ret < 4KiB' --count t\n"
		"  pfw query --sort -dur --limit 10 --fields dur,name,args.fname t\n"
		"exit status: 0 ok, 1 something in the traces is damaged, 2 usage or input error\n",
};
