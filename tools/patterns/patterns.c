/* tools/patterns/patterns.c - `pfw patterns`: sizes, order, alignment, sharing, metadata of file
 * accesses.
 */
#include "patterns/patterns.h"

#include <errno.h>
#include <stdlib.h>

/* ---- the command ---- */

static int read_and_print(void *user, struct survey_input *input)
{
	struct patterns *patterns = user;
	struct survey *survey = &patterns->survey;
	int status = survey_attach(survey, input, NULL), error;

	patterns->select.ask_fnames = true;
	if (status == CLI_OK)
		status = survey_resolve(survey, input, &patterns->select);
	if (status != CLI_OK)
		return status;
	error = patterns_collect(patterns, input);
	if (error == -ENOENT)
		return CLI_USAGE;
	return survey_end(survey, error ?: patterns_print(patterns));
}

static int patterns_main(const struct cli_command *command, int argc, char **argv)
{
	struct patterns patterns = { .survey = { .command = command,
						 .jobs_most = 1024,
						 .user = &patterns,
						 .select = &patterns.select,
						 .body = read_and_print,
						 .partials = true,
						 .row_limit = SURVEY_FEW_ROWS,
						 .few_rows = 50 } };
	int status;

	pfw_patterns_init(&patterns.found);
	status = survey_main(&patterns.survey, argc, argv);
	pfw_select_release(&patterns.select);
	pfw_patterns_release(&patterns.found);
	patterns_free_few(&patterns.few);
	free(patterns.rank);
	return status;
}

static const struct cli_option patterns_options[] = {
	{ "alignment", 0, "BYTES",
	  "alignment that reads and writes are checked for (default: 4KiB)",
	  CLI_INTO(struct patterns, found.alignment), .least = 1, .most = INT64_MAX },
	{ "small", 0, "BYTES", "calls below BYTES are small (default: 1MiB)",
	  CLI_INTO(struct patterns, found.small), .least = 1, .most = INT64_MAX },
	{ "row-limit", 0, "N", "files shown (default in text and md: 50); -1: all",
	  SURVEY_ROW_LIMIT },
	SELECT_ARGS_TIMES,
	SELECT_ARGS_FILTERS,
	SURVEY_OPTION_ALL_RUNS,
	SURVEY_OPTION_ALL_RANKS,
	SURVEY_OPTION_WIDE,
	SURVEY_OPTIONS,
	{ "format", 0, SURVEY_FORMAT_NAMES,
	  "md: to paste; for programs times in µs, sizes in bytes", SURVEY_INTO(format) },
	{ 0 },
};

const struct cli_command cli_patterns = {
	.name = "patterns",
	.operands = "[PATH...]",
	.summary = "Show how files are used: sizes, order, alignment, sharing, metadata",
	.options = patterns_options,
	.details = "PATH: traces, directories, globs or base names; default: the newest run here.\n"
		   "Rows are for all files, each rank and each file; files with most bytes come\n"
		   "first.  The counters are Darshan's, counted from every single call.\n"
		   "docs/analysis.rst defines the terms.\n",
	.main = patterns_main,
};
