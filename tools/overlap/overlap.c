/* tools/overlap/overlap.c - `pfw overlap`: overlap of I/O, compute and communication, and idle
 * GPUs.
 */
#include "overlap/overlap.h"

#include <string.h>

#include "common/base/units.h"
#include "share/select_args.h"

/* ---- options ---- */

/* A number of bins or their length: 100, 50ms. */
static int parse_bins(struct overlap_options *options, const char *text)
{
	int64_t thousandths;
	bool unit;
	size_t bytes = strlen(text),
	       used = pfw_units_read(text, bytes, PFW_UNITS_TIME, &thousandths, &unit);

	options->bins = 0;
	options->bin_ns = 0;
	if (used == bytes && used && thousandths > 0) {
		if (unit)
			options->bin_ns = thousandths; /* thousandths of 1 µs */
		else if (thousandths % 1000 == 0 && thousandths / 1000 <= OVERLAP_BINS_MAX)
			options->bins = (uint64_t)thousandths / 1000;
	}
	if (options->bins || options->bin_ns)
		return 0;
	cli_error(options->survey.command->name,
		  "--bins %s: takes how many there are to be, 1 to %u, or how long each is: 50ms",
		  cli_name(text), OVERLAP_BINS_MAX);
	return -1;
}

static int add_compute(struct overlap_options *options, const char *glob)
{
	char why[256];

	if (pfw_select_add(&options->compute, PFW_SELECT_NAME, glob, why, sizeof(why)) == 0)
		return 0;
	cli_error(options->survey.command->name, "--compute %s: %s", cli_name(glob), why);
	return -1;
}

enum { COMPUTE = 256 };

static int take(void *user, const struct cli_args *args, int option)
{
	struct overlap_options *options = user;

	return option == COMPUTE ? add_compute(options, args->value)
				 : parse_bins(options, args->value);
}

/* ---- the command ---- */

static int read_and_print(void *user, struct survey_input *input)
{
	struct overlap_options *options = user;
	struct overlap overlap = { 0 };
	int status = overlap_collect(&overlap, options, input);

	if (status == CLI_OK)
		status = survey_end(&options->survey, overlap_print(&overlap, options));
	overlap_release(&overlap);
	return status;
}

static int begin(void *user, struct cli_args *args)
{
	struct overlap_options *options = user;

	(void)args;
	options->survey.indexed = overlap_asks_indexes(options);
	return -1;
}

static int overlap_main(const struct cli_command *command, int argc, char **argv)
{
	struct overlap_options options = {
		.survey = { .command = command,
			    .jobs_most = 64,
			    .user = &options,
			    .take = take,
			    .select = &options.reach,
			    .begin = begin,
			    .body = read_and_print,
			    .partials = true },
	};
	int status = survey_main(&options.survey, argc, argv);

	pfw_select_release(&options.reach);
	pfw_select_release(&options.compute);
	return status;
}

static const struct cli_option overlap_options[] = {
	{ "steps", 0, NULL, "show each step, however many; csv and md: steps instead of ranks",
	  CLI_INTO(struct overlap_options, steps) },
	{ "bins", 'b', "BINS",
	  "a time series: a number of bins or their length (50ms), with bandwidth, calls per second, "
	  "and the time of I/O, operators, kernels and copies",
	  .id = 'b' },
	{ "compute", 0, "GLOB",
	  "count spans, NVTX ranges and torch annotations with this name or category as compute, too",
	  .id = COMPUTE },
	SELECT_ARGS_TIMES,
	SELECT_ARGS_PROCESSES,
	SURVEY_OPTION_ALL_RUNS,
	SURVEY_OPTION_ALL_RANKS,
	SURVEY_OPTION_WIDE,
	SURVEY_OPTIONS,
	{ "format", 0, "text|md|ndjson|csv",
	  "md: to paste; for programs times in µs, sizes in bytes", SURVEY_INTO(format) },
	{ 0 },
};

const struct cli_command cli_overlap = {
	.name = "overlap",
	.operands = "[PATH...]",
	.summary = "Show where I/O, compute and communication overlap, and what the GPU waits for",
	.options = overlap_options,
	.details = SURVEY_PATHS
	"Rows are for each rank with all its processes, each step, and all ranks\n"
	"together.  Times are exact to the nanosecond.  docs/analysis.rst defines the\n"
	"terms.  Traces of 1,000,000 events (PFW_INDEX_EVENTS) get an index,\n"
	"from which the next answer comes at once.\n",
	.main = overlap_main,
};
