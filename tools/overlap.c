/* overlap.c - `pfw overlap`: where I/O, compute and communication overlap, and what the GPU waits for.
 */
#include "overlap.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "live_lines.h"
#include "select_args.h"
#include "stop.h"

#define FORMATS (1u << CLI_TEXT | 1u << CLI_NDJSON | 1u << CLI_CSV | 1u << CLI_MD)
#define JOBS_MAX 64

enum { ALL_RUNS = 256, FORMAT };

/* ---- options ---- */

/* How many, or how long: 100, 50ms. */
static int parse_bins(struct overlap_options *options, const char *text)
{
	int64_t thousandths;
	bool unit;
	size_t bytes = strlen(text),
	       used = pfw_times_number(text, bytes, false, &thousandths, &unit);

	options->bins = 0;
	options->bin_ns = 0;
	if (used == bytes && used && thousandths > 0) {
		if (unit)
			options->bin_ns = thousandths; /* of a µs */
		else if (thousandths % 1000 == 0 && thousandths / 1000 <= OVERLAP_BINS_MAX)
			options->bins = (uint64_t)thousandths / 1000;
	}
	if (options->bins || options->bin_ns)
		return 0;
	cli_error(options->command->name,
		  "--bins %s: takes how many there are to be, 1 to %u, or how long each is: 50ms",
		  cli_name(text), OVERLAP_BINS_MAX);
	return -1;
}

static int add_compute(struct overlap_options *options, const char *glob)
{
	char why[256];

	if (pfw_select_add(&options->compute, PFW_SELECT_NAME, glob, why, sizeof(why)) == 0)
		return 0;
	cli_error(options->command->name, "--compute %s: %s", cli_name(glob), why);
	return -1;
}

static int take(void *user, const struct cli_args *args, int option)
{
	struct overlap_options *options = user;

	switch (option) {
	case 's':
		options->steps = true;
		return 0;
	case 'b':
		return parse_bins(options, args->value);
	case 'c':
		return add_compute(options, args->value);
	case ALL_RUNS:
		options->all_runs = true;
		return 0;
	case 'q':
		options->quiet = true;
		return 0;
	case 'j':
		return cli_jobs(options->command, args->value, JOBS_MAX, &options->jobs);
	case FORMAT:
		options->format = cli_format_of(options->command, args->value, FORMATS);
		return options->format < 0 ? -1 : 0;
	default:
		options->limited |= option != SELECT_ARGS + PFW_SELECT_RANK;
		return select_args_take(&options->reach, args, option) > 0 ? 0 : -1;
	}
}

/* ---- the command ---- */

static void say_trace(void *user, const char *path, const char *why)
{
	struct overlap *overlap = user;

	cli_error("overlap", "%s: %s", cli_name(path), why);
	overlap->problems++;
}

static int run(struct overlap_options *options, struct cli_args *args)
{
	struct overlap overlap = { 0 };
	const volatile bool *stop = stop_watch();
	struct pfw_traces traces;
	struct live_lines live = { .command = options->command, .traces = &traces };
	int status = CLI_USAGE;

	if (pfw_traces_open_ranks(&traces, args->argv, (size_t)args->operands, options->all_runs,
				  say_trace, &overlap))
		return CLI_USAGE;
	if (overlap_collect(&overlap, options, &live, stop) == 0) {
		if (overlap_print(&overlap, options))
			cli_error(options->command->name, "%s", strerror(ENOMEM));
		else
			status = overlap.problems ? CLI_PROBLEMS : CLI_OK;
		status = cli_finish(stdout, options->command, status);
	}
	overlap_release(&overlap);
	live_lines_close(&live);
	pfw_traces_close(&traces);
	stop_end();
	return status;
}

static int overlap_main(const struct cli_command *command, int argc, char **argv)
{
	struct overlap_options options = { .command = command };
	struct cli_args args;
	int status;

	cli_args_init(&args, command, argc, argv);
	status = cli_take_options(&args, &options, take);
	if (status < 0)
		status = run(&options, &args);
	pfw_select_release(&options.reach);
	pfw_select_release(&options.compute);
	return status;
}

static const struct cli_option overlap_options[] = {
	{ "steps", 's', NULL,
	  "each step, also where there are many; of csv and md instead of the ranks", 's' },
	{ "bins", 'b', "BINS",
	  "a series over time: so many bins, or bins of that length (50ms), with bandwidth, calls a "
	  "second, and how long I/O, operators, kernels and copies ran",
	  'b' },
	{ "compute", 'c', "GLOB",
	  "spans of your own, NVTX's and torch's annotations of that name or category are compute, too",
	  'c' },
	SELECT_ARGS_TIMES,
	{ "rank", 'r', "LIST", "ranks: 0,8-15", SELECT_ARGS + PFW_SELECT_RANK },
	{ "pid", 0, "LIST", "processes", SELECT_ARGS + PFW_SELECT_PID },
	{ "all-runs", 0, NULL, "not only the newest run of a directory", ALL_RUNS },
	{ "quiet", 'q', NULL, "problems only on standard error", 'q' },
	{ "jobs", 'j', "N", "threads; by default one for each CPU", 'j' },
	{ "format", 0, "FORMAT",
	  "text, md (a page to paste), ndjson or csv: times in µs, sizes in bytes", FORMAT },
	{ 0 },
};

const struct cli_command cli_overlap = {
	.name = "overlap",
	.operands = "[PATH...]",
	.summary = "Show where I/O, compute and communication overlap, and what the GPU waits for",
	.options = overlap_options,
	.details =
		"PATH: traces, directories, globs or base names; the newest run here where there is "
		"none.\nOf each rank with all its processes, of each step, and of all ranks together; "
		"exact,\nto the nanosecond. docs/analysis.rst defines the terms.\n",
	.main = overlap_main,
};
