/* tools/index.c - `pfw index`: builds or checks the index beside a trace. */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "partial.h"
#include "share/survey.h"
#include "store/index/build.h"
#include "store/index/index.h"
#include "store/json/print.h"
#include "store/sys/open.h"
#include "store/traces/traces.h"
#include "ui/cli.h"
#include "ui/interrupt.h"
#include "ui/progress.h"

#define PROBLEMS_SHOWN 10 /* per file */

enum state { BUILT, GROWN, FRESH, CHECKED, DIFFERS, LIVE, FAILED };

static const struct {
	const char *name, *text;
	int status;
} states[] = {
	[BUILT] = { "built", "indexed", CLI_OK },
	[GROWN] = { "grown", "its index was added to", CLI_OK },
	[FRESH] = { "fresh", "its index is fresh", CLI_OK },
	[CHECKED] = { "checked", "its index is right", CLI_OK },
	[DIFFERS] = { "differs", NULL, CLI_PROBLEMS },
	[LIVE] = { "live", NULL, CLI_PROBLEMS },
	[FAILED] = { "failed", NULL, CLI_USAGE },
};

struct indexing {
	const struct cli_command *command;
	int format;
	unsigned jobs;
	bool quiet, force, check, colours, all_runs;
	bool partial; /* make one: `out` as if the traces were in the directory `as` */
	const char *out, *as;
	int status;
	struct pfw_traces traces; /* all named traces */
	struct pfw_traces todo;	  /* those to index or check; the files belong to `traces` */
	struct pfw_traces kept;	  /* those whose index looks fresh: compare them first */
	uint64_t told;		  /* problems of the current file */
};

static const char *error_text(int error)
{
	if (error == -EBUSY)
		return "another pfw is making its index";
	return error == -ESTALE ? "it changed while it was read" : strerror(-error);
}

/* ---- results ---- */

struct result {
	enum state state;
	uint64_t events, lines, blocks, problems;
	int64_t ns; /* 0: the file was not read */
	const char *why;
	const char *cached; /* where the index is in the cache, or NULL */
};

static void print_json(const char *path, const struct result *result)
{
	struct pfw_printer json = { .out = stdout };

	pfw_print(&json, "{'file':%s,'state':%s", path, states[result->state].name);
	if (result->state != LIVE && result->state != FAILED)
		pfw_print(&json,
			  "'events':%" PRIu64 ",'lines':%" PRIu64 ",'blocks':%" PRIu64
			  ",'problems':%" PRIu64 ",'seconds':%.3f",
			  result->events, result->lines, result->blocks, result->problems,
			  (double)result->ns / 1e9);
	if (result->cached)
		pfw_print(&json, "'cached':%s", result->cached);
	if (result->why)
		pfw_print(&json, "'why':%s", result->why);
	pfw_print(&json, "}\n");
}

static void print_text(const struct indexing *indexing, const char *path,
		       const struct result *result)
{
	const char *plain = cli_style(indexing->colours, CLI_PLAIN);

	if (result->state == LIVE || result->state == FAILED)
		return; /* already reported on standard error */
	printf("%s: ", cli_name(path));
	if (result->state == DIFFERS)
		printf("%sthe index is wrong: %s%s, ", cli_style(indexing->colours, CLI_RED),
		       result->why, plain);
	else
		printf("%s%s%s, ", cli_style(indexing->colours, CLI_GREEN),
		       states[result->state].text, plain);
	printf("%s event%s in %s block%s", cli_count(result->events), cli_plural(result->events),
	       cli_count(result->blocks), cli_plural(result->blocks));
	if (result->problems)
		printf(", %s%s problem%s%s", cli_style(indexing->colours, CLI_YELLOW),
		       cli_count(result->problems), cli_plural(result->problems), plain);
	if (result->ns)
		printf(", %s", cli_seconds(result->ns));
	if (result->cached)
		printf(", in %s", cli_name(result->cached));
	putchar('\n');
}

static void print_result(struct indexing *indexing, const char *path, const struct result *result)
{
	int status = states[result->state].status;

	if (result->problems && status < CLI_PROBLEMS)
		status = CLI_PROBLEMS;
	if (status > indexing->status)
		indexing->status = status;
	if (result->state == LIVE || result->state == FAILED)
		cli_error(indexing->command->name, "%s: %s%s", cli_name(path),
			  result->state == FAILED ? "no index of it: " : "", result->why);
	if (indexing->quiet)
		return;
	progress_hide();
	if (indexing->format == CLI_NDJSON)
		print_json(path, result);
	else
		print_text(indexing, path, result);
}

/* An index that was compared with its trace: one that is wrong is made again. */
static void compared(void *user, size_t file, const struct pfw_index_built *one)
{
	struct indexing *indexing = user;
	const struct pfw_trace_file *trace = &indexing->kept.file[file];
	struct result result = { .state = one->error ? FAILED : FRESH,
				 .events = one->total ? one->total->events : 0,
				 .lines = one->lines,
				 .blocks = one->blocks,
				 .problems = one->problems,
				 .ns = one->ns,
				 .why = one->error ? error_text(one->error) : NULL };

	if (one->error || !one->differs) {
		print_result(indexing, trace->path, &result);
		return;
	}
	cli_error(indexing->command->name, "%s: its index is wrong (%s): making it again",
		  cli_name(trace->path), one->difference);
	indexing->todo.file[indexing->todo.count++] = *trace;
}

static void built(void *user, size_t file, const struct pfw_index_built *one)
{
	struct indexing *indexing = user;
	const char *path = indexing->todo.file[file].path;
	struct result result = { .state = indexing->check ? CHECKED
					  : one->grown	  ? GROWN
							  : BUILT,
				 .lines = one->lines,
				 .blocks = one->blocks,
				 .problems = one->problems,
				 .ns = one->ns,
				 .cached = one->cached };

	if (indexing->told > PROBLEMS_SHOWN)
		cli_error(indexing->command->name, "%s: %s more problems", cli_name(path),
			  cli_count(indexing->told - PROBLEMS_SHOWN));
	indexing->told = 0;
	if (one->total)
		result.events = one->total->events;
	if (one->error) {
		result.state = FAILED;
		result.why = error_text(one->error);
	} else if (one->differs) {
		result.state = DIFFERS;
		result.why = one->difference;
	}
	print_result(indexing, path, &result);
}

static void problem(void *user, size_t file, const struct pfw_scan_problem *problem)
{
	struct indexing *indexing = user;

	indexing->told += 1 + problem->more;
	if (indexing->told <= PROBLEMS_SHOWN)
		cli_problem(indexing->command->name, indexing->todo.file[file].path, problem);
}

/* ---- which traces need an index ---- */

static void choose(struct indexing *indexing)
{
	for (size_t i = 0; i < indexing->traces.count; i++) {
		const struct pfw_trace_file *file = &indexing->traces.file[i];
		struct result result = { .state = LIVE };

		if (file->once) {
			result.state = FAILED;
			result.why = "a pipe: only a file can have an index beside it";
		} else if (pfw_writing_of(file->path) == PFW_WRITING_ACTIVE) {
			result.why = "still being written: index it when its program has ended";
		} else {
			struct pfw_traces *list = indexing->force || indexing->check ||
								  !pfw_index_exists(file->path)
							  ? &indexing->todo
							  : &indexing->kept;

			list->file[list->count++] = *file;
			continue;
		}
		print_result(indexing, file->path, &result);
	}
}

static void say(void *user, const char *path, const char *why)
{
	struct indexing *indexing = user;

	cli_error(indexing->command->name, "%s: %s", cli_name(path), why);
	indexing->status = CLI_USAGE;
}

static void run(struct indexing *indexing)
{
	const struct pfw_index_build build = {
		.traces = &indexing->todo,
		.jobs = indexing->jobs,
		.check = indexing->check,
		.anew = indexing->force,
		.user = indexing,
		.built = built,
		.problem = problem,
		.progress = progress_of_pass,
		.stop = stop_watch(),
	};
	struct pfw_index_build compare = build;
	int error = -ENOMEM;

	compare.traces = &indexing->kept;
	compare.check = true;
	compare.built = compared;
	compare.problem = NULL; /* told when the index was made */
	indexing->todo.file = calloc(indexing->traces.count + 1, sizeof(*indexing->todo.file));
	indexing->kept.file = calloc(indexing->traces.count + 1, sizeof(*indexing->kept.file));
	if (indexing->todo.file && indexing->kept.file) {
		choose(indexing);
		progress_begin("index", indexing->quiet, false);
		error = pfw_index_build(&compare) ?: pfw_index_build(&build);
		progress_hide();
	}
	if (error && error != -EINTR) {
		cli_error(indexing->command->name, "%s", strerror(-error));
		indexing->status = CLI_USAGE;
	}
	free(indexing->todo.file);
	free(indexing->kept.file);
}

/* ---- the command ---- */

static const struct cli_option options[] = {
	{ "force", 0, NULL, "make the index again even if it is up to date",
	  CLI_INTO(struct indexing, force) },
	{ "check", 0, NULL, "write nothing; check whether the index is up to date and correct",
	  CLI_INTO(struct indexing, check) },
	{ "partial", 0, NULL,
	  "write one file with the indexes of all PATHs: table, overlap, patterns, memory and "
	  "compare read it in place of the traces; PATH may be a partial, too",
	  CLI_INTO(struct indexing, partial) },
	{ "output", 'o', "FILE", "--partial: the file, whose name ends in .partial",
	  CLI_INTO(struct indexing, out) },
	{ "as", 0, "DIR", "--partial: record the traces' names as if they were in DIR",
	  CLI_INTO(struct indexing, as) },
	{ "all-runs", 0, NULL, "all runs of a directory, not only the newest",
	  CLI_INTO(struct indexing, all_runs) },
	{ "jobs", 'j', "N", "threads (default: one per CPU)", CLI_INTO(struct indexing, jobs) },
	{ "quiet", 'q', NULL, "print problems only", CLI_INTO(struct indexing, quiet) },
	{ "format", 0, "text|ndjson", "text, or one JSON object per file",
	  CLI_INTO(struct indexing, format) },
	{ 0 },
};

static int index_main(const struct cli_command *command, int argc, char **argv)
{
	struct indexing indexing = { .command = command, .colours = cli_colours(stdout) };
	struct cli_args args;
	int status = cli_read(&args, command, argc, argv, &indexing, NULL);

	if (status >= 0)
		return status;
	if (!indexing.partial && (indexing.out || indexing.as))
		return cli_error(
			command->name,
			"--output and --as need --partial: an index is written beside its trace");
	if (indexing.partial)
		return partial_make(&(struct partial_options){ .command = command,
							       .out = indexing.out,
							       .as = indexing.as,
							       .quiet = indexing.quiet,
							       .all_runs = indexing.all_runs,
							       .jobs = indexing.jobs,
							       .format = indexing.format },
				    argv, args.operands);
	if (pfw_traces_open(&indexing.traces, argv, (size_t)args.operands,
			    indexing.all_runs * PFW_TRACES_ALL_RUNS | PFW_TRACES_EACH, say,
			    &indexing) == 0) {
		if (!indexing.quiet)
			survey_say_left_out(command, &indexing.traces);
		run(&indexing);
	}
	pfw_traces_close(&indexing.traces);
	stop_end();
	return cli_finish(stdout, command, indexing.status);
}

const struct cli_command cli_index = {
	.name = "index",
	.operands = "[PATH...]",
	.summary = "Make indexes of traces, so that other commands answer at once",
	.options = options,
	.main = index_main,
	.details =
		"PATH is a file (.pfw or .pfw.gz, ours or DFTracer's), a directory, a glob, or\n"
		"the base name of a run; none: the newest run here.  The index of FILE is\n"
		"FILE.idx, a SQLite database (docs/index_format.rst), or in ~/.cache/pfw if its\n"
		"directory is not writable.  If FILE has grown, its index is extended.  If FILE\n"
		"has changed otherwise, or an index does not agree with FILE, the index is made\n"
		"again.\n"
		"exit status: 0 ok, 1 damage was skipped, the index is wrong (--check), or the\n"
		"trace is still being written; 2 usage error, or a file that cannot be read or\n"
		"indexed\n",
};
