/* tools/query/query.c - `pfw query`: prints lines that fulfil conditions, whole or as a table. */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "query/query.h"
#include "store/kit/grow.h"
#include "store/read/scan.h"
#include "ui/progress.h"

/* ---- options ---- */

static const struct cli_option query_options[] = {
	SELECT_ARGS_TIMES,
	SELECT_ARGS_FILTERS,
	{ "meta", 'm', NULL, "also the tracer's own lines (ph M); --cat pfw: only these",
	  CLI_INTO(struct query, select.meta) },
	{ "fields", 'F', "LIST", "print a table of these fields: ts,dur,name,args.fname",
	  .id = 256 },
	{ "format", 0, "ndjson|tsv|csv", "output format; with --fields: tsv",
	  CLI_INTO(struct query, lines.format) },
	{ "sort-by", 's', "ts|-ts|dur|-dur", "-dur: longest first; needs --limit",
	  CLI_INTO(struct query, sort) },
	{ "limit", 'l', "N", "print at most N lines", CLI_INTO(struct query, limit),
	  .most = INT64_MAX },
	{ "count", 0, NULL, "print only the number of lines", CLI_INTO(struct query, count) },
	{ "follow", 0, NULL, "continue while the trace is being written, until it ends",
	  CLI_INTO(struct query, follow) },
	{ "all-runs", 0, NULL, "not only the newest run", SURVEY_INTO(all_runs) },
	{ "output", 'o', "FILE", "write FILE; it appears when it is complete",
	  CLI_INTO(struct query, out_path) },
	{ "force", 0, NULL, "replace FILE", CLI_INTO(struct query, force) },
	SURVEY_OPTION_NO_INDEX,
	SURVEY_OPTION_JOBS,
	SURVEY_OPTION_QUIET,
	{ 0 },
};

/* Print a message and return CLI_USAGE. */
static int refuse(const struct query *query, const char *why)
{
	return cli_error(query->survey.command->name, "%s", why);
}

/* take() of --fields; `user` is a struct query. */
static int take_fields(void *user, const struct cli_args *args, int option)
{
	struct query *query = user;
	char why[1024] = "";

	(void)option;
	pfw_columns_free(&query->lines.columns);
	if (pfw_columns_parse(&query->lines.columns, args->value, why, sizeof(why)) == 0)
		return CLI_OK;
	return cli_error(query->survey.command->name, "--fields: %s",
			 *why ? why : strerror(ENOMEM));
}

/* begin() of the survey; `user` is a struct query. */
static int check_options(void *user, struct cli_args *args)
{
	struct query *query = user;

	if (query->lines.format == QUERY_FORMATS)
		query->lines.format = query->lines.columns.count ? QUERY_TSV : QUERY_NDJSON;
	/* An order does not change how many. */
	query->sorted = query->sort != QUERY_UNSORTED && !query->count;
	query->key = (struct query_key){ .dur = query->sort >= QUERY_BY_DUR,
					 .descending = query->sort % 2 };
	query->paths = args->argv;
	query->path_count = (size_t)args->operands;
	if (query->sorted && query->limit == QUERY_NO_LIMIT && !query->count)
		return refuse(query, "--sort-by keeps what it sorts in memory: give --limit N, too "
				     "(`pfw compact` sorts whole traces by ts)");
	if (query->lines.format != QUERY_NDJSON && !query->lines.columns.count && !query->count)
		return refuse(query, "--format tsv and csv print tables: give --fields "
				     "ts,dur,name");
	if (query->follow && (query->sorted || query->count))
		return refuse(query, "--follow gives lines as they come: no --sort-by, no --count");
	return output_check(args->command, query->out_path, query->force) == CLI_OK ? -1
										    : CLI_USAGE;
}

#define PROBLEMS_SHOWN 10 /* of a file; a broken writer makes as many problems as lines */

/* ---- what was wanted of one block ---- */

struct hits {
	struct pfw_buffer text;
	uint64_t count;
	struct query_mark *mark; /* of each line, if there is a limit or an order */
	size_t room;
};

static void free_hits(void *result)
{
	struct hits *hits = result;

	pfw_buffer_free(&hits->text);
	free(hits->mark);
	free(hits);
}

static int add_mark(const struct query *query, struct hits *hits, const struct pfw_pass_lines *line,
		    int64_t key)
{
	const struct query_place place = { .rank = query->select.window[line->file].rank,
					   .ts_ns = line->entry.ts_ns,
					   .process = pfw_processes_order(&line->entry),
					   .id = line->entry.id };

	if (PFW_ROOM(hits->mark, hits->count, hits->room))
		return -ENOMEM;
	hits->mark[hits->count] =
		(struct query_mark){ .key = key, .place = place, .end = hits->text.bytes };
	return 0;
}

static int add_hit(const struct query *query, struct query_worker *worker, struct hits *hits,
		   const struct pfw_pass_lines *line)
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
		error = add_mark(query, hits, line, key);
	hits->count += !error;
	return error;
}

/* The least key that a line of a block may have; INT64_MIN: unknown. */
static int64_t least_key(const struct query *query, size_t file, const struct pfw_block *block)
{
	const struct query_key *key = &query->key;
	int64_t longest_ns;

	if (!pfw_select_longest(&query->select, file, block, &longest_ns))
		return INT64_MIN;
	if (key->dur)
		return key->descending ? ~longest_ns : INT64_MIN;
	return key->descending ? ~block->greatest_ns : block->least_ns;
}

static bool want(void *user, size_t file, const struct pfw_block *block)
{
	const struct query *query = user;

	return pfw_select_block(&query->select, file, block) &&
	       (!query->sorted || query_top_wants(&query->top, least_key(query, file, block)));
}

static int work(void *user, unsigned number, struct pfw_pass_block *block)
{
	struct query *query = user;
	struct query_worker *worker = &query->worker[number];
	struct hits *hits = block->result;
	struct pfw_pass_lines line;
	int error = 0;

	pfw_pass_lines_init(&line, block);
	while (!error && pfw_pass_lines_next(&line)) {
		if (pfw_select_entry(&query->select, worker->state, line.file, &line.entry))
			error = add_hit(query, worker, hits, &line);
		/* A block keeps as many lines as the whole output. */
		if (hits->count >= query->limit && !query->sorted)
			break;
	}
	return error;
}

/* Add a block's lines to the first N. */
static int sort_in(struct query *query, const struct hits *hits)
{
	size_t begin = 0;
	int error = 0;

	for (uint64_t i = 0; i < hits->count && !error; i++) {
		error = query_top_add(&query->top, &hits->mark[i], hits->text.data + begin,
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
			error = -ECANCELED; /* the output is complete: stop reading */
	}
	return error;
}

/* ---- problems ---- */

static void tell_untold(struct query *query)
{
	if (query->untold)
		cli_error(query->survey.command->name, "%s: %s more problem%s",
			  cli_name(query->input->traces.file[query->told_file].path),
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
	cli_problem(query->survey.command->name, query->input->traces.file[file].path, what);
}

void query_say(struct query *query, const char *path, const char *why)
{
	survey_say(&query->survey, path, why);
	query->status = CLI_USAGE;
}

/* ---- the pass ---- */

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
	struct pfw_buffer text = { 0 };
	int error = 0;

	if (query->lines.format == QUERY_NDJSON || query->count)
		return 0;
	error = query_lines_head(&query->lines, &text);
	error = error ?: output_write(&query->output, text.data, text.bytes);
	pfw_buffer_free(&text);
	return error;
}

/* Write the output that needs all lines: the count, or the sorted lines. */
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

static int run_pass(struct query *query)
{
	struct pfw_pass pass = {
		.traces = &query->input->traces,
		.jobs = survey_jobs(&query->survey),
		.whole = true,
		.user = query,
		.result_bytes = sizeof(struct hits),
		.want = want,
		.work = work,
		.done = done,
		.drop = free_hits,
		.problem = problem,
		.progress = progress_of_pass,
		.stop = query->survey.stop,
	};
	int error = 0;

	progress_begin("query", query->survey.quiet, !query->output.path);
	query->worker = calloc(pass.jobs, sizeof(*query->worker));
	if (!query->worker)
		return -ENOMEM;
	for (unsigned i = 0; i < pass.jobs && !error; i++)
		error = query_worker_init(&query->worker[i], query);
	error = error ?: query_write_head(query);
	if (!error && query->limit)
		error = pfw_pass_run(&pass);
	progress_hide();
	if (!error && query->limit)
		error = pfw_live_lines_pass(&query->input->live, &pass);
	for (unsigned i = 0; i < pass.jobs; i++)
		query_worker_release(&query->worker[i]);
	free(query->worker);
	tell_untold(query);
	return error;
}

/* ---- the command ---- */

/* Read the traces and write the output.  The exit status. */
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
		return refuse(query, "--limit: so many lines take more than 256 MiB; sort fewer");
	if (error != -EIO && error != -EINTR)
		return refuse(query, strerror(-error));
	return error == -EINTR ? 130 : CLI_USAGE;
}

static int run(void *user, struct survey_input *input)
{
	struct query *query = user;
	int status;

	query->input = input;
	query->status = query->survey.problems ? CLI_USAGE : CLI_OK;
	query->select.ask_fnames |= pfw_columns_ask_fname(&query->lines.columns);
	query->select.absent_ranks = true;
	query->select.ask_longest = query->sorted;

	if ((!query->survey.no_index &&
	     select_args_use_indexes(&query->select, query->survey.command, &query->input->traces,
				     query->survey.quiet)) ||
	    (!query->follow && pfw_live_lines_open(&query->input->live)))
		return refuse(query, strerror(ENOMEM));
	if (query->input->live.missing && query->status == CLI_OK)
		query->status = CLI_PROBLEMS;
	status = survey_resolve(&query->survey, input, &query->select);
	status = status ?: survey_check_output(&query->survey, input, query->out_path);
	if (status == CLI_OK)
		status = output_open(&query->output, query->survey.command, query->out_path,
				     query->force);
	if (status != CLI_OK)
		return status;
	output_set_mode(&query->output, pfw_traces_mode(&query->input->traces));
	query->lines.ranks = query->input->traces.ranks;
	query->lines.columns.fnames = query->select.fnames;
	status = query->follow ? query_follow(query) : give(query);
	/* Ctrl-C is the normal end of --follow; otherwise it leaves a partial output. */
	if (*query->survey.stop && !query->follow) {
		output_abandon(&query->output);
		return 130;
	}
	return output_finish(&query->output, status);
}

static int query_main(const struct cli_command *command, int argc, char **argv)
{
	struct query query = { .survey = { .command = command,
					   .jobs_most = 64,
					   .user = &query,
					   .take = take_fields,
					   .select = &query.select,
					   .begin = check_options,
					   .body = run },
			       .limit = QUERY_NO_LIMIT,
			       .sort = QUERY_UNSORTED,
			       .lines = { .format = QUERY_FORMATS } };
	int status = survey_main(&query.survey, argc, argv);

	pfw_columns_free(&query.lines.columns);
	return status;
}

const struct cli_command cli_query = {
	.name = "query",
	.operands = "[PATH...]",
	.summary = "Print the lines of traces that meet conditions",
	.options = query_options,
	.main = query_main,
	.details =
		"PATH is a file (.pfw or .pfw.gz, ours or DFTracer's), a directory, a glob, the\n"
		"base name of a run, or - for standard input; none: the newest run here.  All\n"
		"conditions must hold.  If an option is given several times, one of its values\n"
		"must match (for --where: all).  Lines are printed in the order of the files,\n"
		"by rank.  With several ranks, each line has \"rank\" as its first key.\n"
		"Blocks without a possible match are not read.\n"
		"\n"
		"EXPR: fields id name cat pid tid ts dur ph rank step args.X args.X.Y, null if a\n"
		"line has no such field; numbers with units (5ms, 4KiB; bare: µs), \"texts\", true\n"
		"false null; == != < <= > >= =~ !~ (regular expressions) in (1, 2), && || !, + -\n"
		"* /, has(args.X).\n"
		"\n"
		"  pfw query --cat POSIX --min-dur 1ms --since 50% t\n"
		"  pfw query --where 'name in (\"read\",\"pread\") && args.ret < 4KiB' --count t\n"
		"  pfw query --sort-by -dur --limit 10 --fields dur,name,args.fname t\n"
		"exit status: 0 ok, 1 something in the traces is damaged, 2 usage or input error\n",
};
