/* patterns.c - `pfw patterns`: how files are used: sizes, order, alignment, sharing, metadata. */
#include "patterns.h"

#include <stdlib.h>
#include <string.h>

#include "select_args.h"
#include "stop.h"

#define ROW_LIMIT 50
#define FORMATS (1u << CLI_TEXT | 1u << CLI_NDJSON | 1u << CLI_CSV | 1u << CLI_TSV | 1u << CLI_MD)

enum { ALL_RUNS = 256, ALIGNMENT, SMALL, ROW_LIMIT_OPTION, FORMAT };

/* ---- options ---- */

static int take(void *user, const struct cli_args *args, int option)
{
	struct patterns *patterns = user;
	int64_t number;

	switch (option) {
	case ALIGNMENT:
		if (cli_whole(patterns->command, "alignment", args->value, 1, INT64_MAX, &number))
			return -1;
		patterns->found.alignment = (uint64_t)number;
		return 0;
	case SMALL:
		if (cli_whole(patterns->command, "small", args->value, 1, INT64_MAX, &number))
			return -1;
		patterns->found.small = (uint64_t)number;
		return 0;
	case ROW_LIMIT_OPTION:
		return cli_whole(patterns->command, "row-limit", args->value, -1, INT32_MAX,
				 &patterns->row_limit);
	case ALL_RUNS:
		patterns->all_runs = true;
		return 0;
	case 'q':
		patterns->quiet = true;
		return 0;
	case 'j':
		return cli_jobs(patterns->command, args->value, 1024, &patterns->jobs);
	case FORMAT:
		patterns->format = cli_format_of(patterns->command, args->value, FORMATS);
		return patterns->format < 0 ? -1 : 0;
	default:
		return select_args_take(&patterns->select, args, option) > 0 ? 0 : -1;
	}
}

/* ---- the command ---- */

static void say_trace(void *user, const char *path, const char *why)
{
	struct patterns *patterns = user;
	cli_error(patterns->command->name, "%s: %s", cli_name(path), why);
	patterns->problems++;
}

static int read_and_print(struct patterns *patterns, struct live_lines *live,
			  const volatile bool *stop)
{
	const struct pfw_extent_options extent = { .jobs = patterns->jobs, .stop = stop };
	int error = live_lines_open(live), status;

	patterns->problems += live->missing;
	if (error) {
		cli_error(patterns->command->name, "%s", strerror(-error));
		return CLI_USAGE;
	}
	patterns->select.ask_fnames = true;
	status = select_args_resolve(&patterns->select, patterns->command, live->traces, &extent);
	if (status != CLI_OK)
		return status;
	if (patterns_collect(patterns, live, stop))
		return CLI_USAGE;
	error = patterns_print(patterns);
	if (error) {
		cli_error(patterns->command->name, "%s", strerror(-error));
		return CLI_USAGE;
	}
	return cli_finish(stdout, patterns->command, patterns->problems ? CLI_PROBLEMS : CLI_OK);
}

static int run(struct patterns *patterns, struct cli_args *args)
{
	const volatile bool *stop = stop_watch();
	struct pfw_traces traces;
	struct live_lines live = { .command = patterns->command, .traces = &traces };
	int status;

	if (patterns->row_limit < -1)
		patterns->row_limit =
			patterns->format == CLI_TEXT || patterns->format == CLI_MD ? ROW_LIMIT : -1;
	if (pfw_traces_open_ranks(&traces, args->argv, (size_t)args->operands, patterns->all_runs,
				  say_trace, patterns))
		return CLI_USAGE;
	status = read_and_print(patterns, &live, stop);
	live_lines_close(&live);
	pfw_traces_close(&traces);
	stop_end();
	return status;
}

static int patterns_main(const struct cli_command *command, int argc, char **argv)
{
	struct patterns patterns = { .command = command, .row_limit = -2 };
	struct cli_args args;
	int status;

	pfw_patterns_init(&patterns.found);
	cli_args_init(&args, command, argc, argv);
	status = cli_take_options(&args, &patterns, take);
	if (status < 0)
		status = run(&patterns, &args);
	pfw_select_release(&patterns.select);
	pfw_patterns_release(&patterns.found);
	free(patterns.rank);
	return status;
}

static const struct cli_option patterns_options[] = {
	{ "alignment", 0, "BYTES", "what begins of reads and writes are measured by; 4096",
	  ALIGNMENT },
	{ "small", 0, "BYTES", "what is less is small; 1048576", SMALL },
	{ "row-limit", 0, "N", "files shown, 50 by default in text and md; -1: all",
	  ROW_LIMIT_OPTION },
	SELECT_ARGS_TIMES,
	SELECT_ARGS_FILTERS,
	{ "all-runs", 0, NULL, "not only the newest run of a directory", ALL_RUNS },
	{ "quiet", 'q', NULL, "problems only on standard error", 'q' },
	{ "jobs", 'j', "N", "threads; by default one for each CPU", 'j' },
	{ "format", 0, "FORMAT", "text, ndjson, csv, tsv or md: times in µs, sizes in bytes",
	  FORMAT },
	{ 0 },
};

const struct cli_command cli_patterns = {
	.name = "patterns",
	.operands = "[PATH...]",
	.summary = "Show how files are used: sizes, order, alignment, sharing, metadata",
	.options = patterns_options,
	.details =
		"PATH: traces, directories, globs or base names; the newest run here where there is "
		"none.\nOf all files, of each rank, of each file with most bytes first; what Darshan's "
		"counters\nsay, from every single call. docs/analysis.rst defines the terms.\n",
	.main = patterns_main,
};
