/* index.c - `pfw index`: the index beside a trace, from which the other commands answer at once. */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cli.h"
#include "progress.h"
#include "stop.h"
#include "store/index.h"
#include "store/index_build.h"
#include "store/json_print.h"
#include "store/traces.h"

#define PROBLEMS_SHOWN 10 /* a file */

enum state { BUILT, FRESH, CHECKED, DIFFERS, LIVE, FAILED };

struct indexing {
	const struct cli_command *command;
	int format;
	bool quiet, force, check, colours;
	int status;
	struct pfw_traces traces; /* all that were named */
	struct pfw_traces todo;	  /* those to be read: their files are those of `traces` */
	uint64_t told;		  /* problems of the file in hand */
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
	int64_t ns; /* 0: nothing was read */
	const char *why;
};

static void print_json(const char *path, const struct result *result)
{
	static const char *const states[] = { "built",	 "fresh", "checked",
					      "differs", "live",  "failed" };

	fputs("{\"file\":", stdout);
	pfw_json_print_string(stdout, path);
	printf(",\"state\":\"%s\"", states[result->state]);
	if (result->state != LIVE && result->state != FAILED)
		printf(",\"events\":%" PRIu64 ",\"lines\":%" PRIu64 ",\"blocks\":%" PRIu64
		       ",\"problems\":%" PRIu64 ",\"seconds\":%.3f",
		       result->events, result->lines, result->blocks, result->problems,
		       (double)result->ns / 1e9);
	if (result->why) {
		fputs(",\"why\":", stdout);
		pfw_json_print_string(stdout, result->why);
	}
	puts("}");
}

static void print_text(const struct indexing *indexing, const char *path,
		       const struct result *result)
{
	const char *plain = cli_style(indexing->colours, CLI_PLAIN);

	if (result->state == LIVE || result->state == FAILED)
		return; /* said on standard error */
	printf("%s: ", cli_name(path));
	if (result->state == DIFFERS)
		printf("%sthe index is wrong: %s%s, ", cli_style(indexing->colours, CLI_RED),
		       result->why, plain);
	else
		printf("%s%s%s, ", cli_style(indexing->colours, CLI_GREEN),
		       result->state == BUILT	? "indexed"
		       : result->state == FRESH ? "its index is fresh"
						: "its index is right",
		       plain);
	printf("%s event%s in %s block%s", cli_count(result->events), cli_plural(result->events),
	       cli_count(result->blocks), cli_plural(result->blocks));
	if (result->problems)
		printf(", %s%s problem%s%s", cli_style(indexing->colours, CLI_YELLOW),
		       cli_count(result->problems), cli_plural(result->problems), plain);
	if (result->ns)
		printf(", %s", cli_seconds(result->ns));
	putchar('\n');
}

static void print_result(struct indexing *indexing, const char *path, const struct result *result)
{
	static const int statuses[] = { CLI_OK,	      CLI_OK,	    CLI_OK,
					CLI_PROBLEMS, CLI_PROBLEMS, CLI_USAGE };
	int status = result->problems ? CLI_PROBLEMS : CLI_OK;

	if (statuses[result->state] > status)
		status = statuses[result->state];
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

static void built(void *user, size_t file, const struct pfw_index_built *one)
{
	struct indexing *indexing = user;
	const char *path = indexing->todo.file[file].path;
	struct result result = { .state = indexing->check ? CHECKED : BUILT,
				 .lines = one->lines,
				 .blocks = one->blocks,
				 .problems = one->problems,
				 .ns = one->ns };

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

/* ---- which of them ---- */

/* Whether its writer has it open: it holds the lock as long as it lives. */
static bool is_written(const char *path)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
	bool locked = fd >= 0 && flock(fd, LOCK_SH | LOCK_NB) < 0 && errno == EWOULDBLOCK;

	if (fd >= 0)
		close(fd);
	return locked;
}

/* Whether it can have an index beside it. */
static bool is_file(const char *path)
{
	struct stat st;

	return strcmp(path, "-") != 0 && stat(path, &st) == 0 && S_ISREG(st.st_mode);
}

/* Whether the index that is there will do; then that is said. */
static bool is_fresh(struct indexing *indexing, const char *path)
{
	struct result result = { .state = FRESH };
	struct pfw_index *index;
	char why[128];

	if (pfw_index_open(&index, path, why, sizeof(why)))
		return false;
	result.events = pfw_index_meta(index)->events;
	result.lines = pfw_index_meta(index)->lines;
	result.blocks = pfw_index_meta(index)->blocks;
	result.problems = pfw_index_meta(index)->problems;
	pfw_index_close(index);
	print_result(indexing, path, &result);
	return true;
}

static void choose(struct indexing *indexing)
{
	for (size_t i = 0; i < indexing->traces.count; i++) {
		const struct pfw_trace_file *file = &indexing->traces.file[i];
		struct result result = { .state = LIVE };

		if (!is_file(file->path)) {
			result.state = FAILED;
			result.why = "a pipe: only a file can have an index beside it";
		} else if (is_written(file->path)) {
			result.why = "still being written: index it when its program has ended";
		} else {
			if (indexing->force || indexing->check || !is_fresh(indexing, file->path))
				indexing->todo.file[indexing->todo.count++] = *file;
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

static void run(struct indexing *indexing, unsigned jobs)
{
	struct pfw_index_build build = {
		.traces = &indexing->todo,
		.jobs = jobs,
		.check = indexing->check,
		.user = indexing,
		.built = built,
		.problem = problem,
		.progress = progress_of_pass,
		.stop = stop_watch(),
	};
	int error = -ENOMEM;

	indexing->todo.file = calloc(indexing->traces.count + 1, sizeof(*indexing->todo.file));
	if (indexing->todo.file) {
		choose(indexing);
		progress_begin("index", indexing->quiet, false);
		error = pfw_index_build(&build);
		progress_hide();
	}
	if (error && error != -EINTR) {
		cli_error(indexing->command->name, "%s", strerror(-error));
		indexing->status = CLI_USAGE;
	}
	free(indexing->todo.file);
}

/* ---- the command ---- */

enum { FORCE = 256, CHECK, ALL_RUNS, FORMAT };

static const struct cli_option options[] = {
	{ "force", 0, NULL, "make it anew where it is fresh, too", FORCE },
	{ "check", 0, NULL, "write nothing: is the index that is there fresh and right?", CHECK },
	{ "all-runs", 0, NULL, "of a directory: all runs, not only the newest", ALL_RUNS },
	{ "jobs", 'j', "N", "threads (default: as many as there are CPUs)", 'j' },
	{ "quiet", 'q', NULL, "print problems only", 'q' },
	{ "format", 0, "text|ndjson", "one JSON object a file instead of text", FORMAT },
	{ 0 },
};

static int index_main(const struct cli_command *command, int argc, char **argv)
{
	struct indexing indexing = { .command = command, .colours = cli_colours(stdout) };
	bool all_runs = false;
	unsigned jobs = 0;
	struct cli_args args;
	int option;

	cli_args_init(&args, command, argc, argv);
	while ((option = cli_next(&args)) >= 0) {
		if (option == FORCE)
			indexing.force = true;
		else if (option == CHECK)
			indexing.check = true;
		else if (option == ALL_RUNS)
			all_runs = true;
		else if (option == 'q')
			indexing.quiet = true;
		else if (option == 'j' && cli_jobs(command, args.value, 1024, &jobs))
			return CLI_USAGE;
		else if (option == FORMAT &&
			 (indexing.format = cli_format(command, args.value, 2)) < 0)
			return CLI_USAGE;
	}
	if (option != CLI_DONE)
		return cli_ended(&args, option);
	if (pfw_traces_open(&indexing.traces, argv, (size_t)args.operands, all_runs, say,
			    &indexing) == 0)
		run(&indexing, jobs);
	pfw_traces_close(&indexing.traces);
	stop_end();
	return cli_finish(stdout, command, indexing.status);
}

const struct cli_command cli_index = {
	.name = "index",
	.operands = "[PATH...]",
	.summary = "Make the index of traces, from which other commands answer at once",
	.options = options,
	.failure = CLI_USAGE,
	.main = index_main,
	.details =
		"PATH is a file (.pfw or .pfw.gz, ours or DFTracer's), a directory, a glob, or the base\n"
		"name of a run; without one, the newest run here.  The index of FILE is FILE.idx, a\n"
		"SQLite database (docs/index.rst).  It is made anew where FILE has changed.\n"
		"exit status: 0 ok, 1 damage was passed over, the index is wrong (--check), or the\n"
		"trace is still being written; 2 usage error, or a file that cannot be read or indexed\n",
};
