/* tools/compare/compare.c - `pfw compare`: what changed between two runs or two groups of runs. */
#include "compare/compare.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "share/unasked.h"
#include "ui/interrupt.h"

#define GROUPS                                                                       \
	(1u << TABLE_NAME | 1u << TABLE_CAT | 1u << TABLE_FNAME | 1u << TABLE_RANK | \
	 1u << TABLE_STEP | 1u << TABLE_TID)

enum { GROUP_BY = 256, FAIL_ABOVE };

/* ---- options ---- */

static int parse_percent(struct compare *compare, const char *text)
{
	char *end;
	double percent = strtod(text, &end);

	if (end != text && (!*end || strcmp(end, "%") == 0) && percent >= 0 && percent < 1e6) {
		compare->fail_above = percent / 100;
		return 0;
	}
	cli_error(compare->survey.command->name, "--fail-above %s: takes a percentage, as 5%%",
		  cli_name(text));
	return -1;
}

static int take(void *user, const struct cli_args *args, int option)
{
	struct compare *compare = user;

	switch (option) {
	case GROUP_BY:
		return table_fields_parse(&compare->table, args->value, GROUPS,
					  "name, cat, fname, rank, step and tid");
	case FAIL_ABOVE:
		return parse_percent(compare, args->value);
	default:
		break;
	}
	/* Each side resolves times and ranks for its own traces. */
	return select_args_take(&compare->side[0].select, args, option) ||
			       select_args_take(&compare->side[1].select, args, option)
		       ? -1
		       : 0;
}

/* ---- sides ---- */

/* The names of a side's traces. */
struct words {
	char **word;
	size_t count;
};

/* Split an operand at its commas, unless it is the name of a file. */
static int split(struct words *words, char *operand)
{
	size_t room = 1;

	for (const char *at = operand; *at; at++)
		room += *at == ',';
	*words = (struct words){ calloc(room, sizeof(*words->word)), 0 };
	if (!words->word)
		return -ENOMEM;
	if (access(operand, F_OK) == 0) {
		words->word[words->count++] = operand;
		return 0;
	}
	while (operand) {
		char *next = strsep(&operand, ",");

		if (*next)
			words->word[words->count++] = next;
	}
	return 0;
}

/* Whether two files are of one run, as their first lines say.  Files of other tools are of one run,
 * unless they were named one by one. */
static bool same_run(const struct pfw_traces *traces, size_t a, size_t b, const struct words *words)
{
	if (strcmp(traces->file[a].head.run, traces->file[b].head.run) != 0)
		return false;
	for (size_t i = 0; i < words->count && !traces->file[a].head.run[0]; i++) {
		if (strcmp(traces->file[a].path, words->word[i]) == 0 ||
		    strcmp(traces->file[b].path, words->word[i]) == 0)
			return false;
	}
	return true;
}

static int number_runs(struct compare_side *side, const struct words *words)
{
	side->run = calloc(side->input.traces.count + 1, sizeof(*side->run));
	if (!side->run)
		return -ENOMEM;
	for (size_t i = 0; i < side->input.traces.count; i++) {
		size_t j = 0;

		while (j < i && !same_run(&side->input.traces, j, i, words))
			j++;
		side->run[i] = j < i ? side->run[j] : side->runs++;
	}
	side->least_ns = malloc((side->runs + 1) * sizeof(*side->least_ns));
	side->greatest_ns = malloc((side->runs + 1) * sizeof(*side->greatest_ns));
	return side->least_ns && side->greatest_ns ? 0 : -ENOMEM;
}

/* Whether `--` stands between the operands of A and B. */
static bool between(const struct cli_args *args)
{
	return args->literal && args->before > 0 && args->before < args->operands;
}

/* An index has the whole file: then ranks of one file matter only to --rank and rows by rank. */
static int settle_side(struct compare *compare, struct compare_side *side,
		       const struct words *words)
{
	struct survey *survey = &compare->survey;
	bool by_rank = side->select.rank.count ||
		       table_bits(&compare->table) & TABLE_BIT(TABLE_RANK);
	int error = 0;

	if (by_rank && survey->heads)
		error = pfw_ranks_part(&side->input.traces, survey_say, survey);
	return error ?: number_runs(side, words);
}

/* The sides are A and B, split at commas, or the operands before and after `--`. */
static int open_sides(struct compare *compare, const struct cli_args *args)
{
	struct compare_side *side = compare->side;
	struct words words[2] = { { 0 } };
	int error = 0;

	for (unsigned i = 0; i < 2 && !error; i++) {
		int first = i ? args->before : 0;
		int end = i ? args->operands : args->before;

		if (between(args))
			words[i] = (struct words){ args->argv + first, (size_t)(end - first) };
		else
			error = split(&words[i], args->argv[i]);
		if (!error)
			error = survey_open(&compare->survey, &side[i].input, words[i].word,
					    words[i].count);
	}
	if (!error && !pfw_traces_leave_to(&side[0].input.traces, &side[1].input.traces))
		pfw_traces_leave_to(&side[1].input.traces, &side[0].input.traces);
	for (unsigned i = 0; i < 2 && !error; i++)
		error = settle_side(compare, &side[i], &words[i]);
	for (unsigned i = 0; i < 2 && !between(args); i++)
		free(words[i].word);
	return error;
}

/* Resolve both sides; for lines also attach those in rings.  CLI_OK, or the exit status. */
static int resolve_sides(struct compare *compare, bool lines)
{
	int status = CLI_OK;

	for (unsigned i = 0; i < 2 && status == CLI_OK; i++) {
		struct compare_side *side = &compare->side[i];

		if (lines)
			status = survey_attach(&compare->survey, &side->input, &side->select);
		status = status ?: survey_resolve(&compare->survey, &side->input, &side->select);
	}
	return status;
}

/* As compare_from_index(); indexes that are missing are made. */
static int ask_indexes(struct compare *compare)
{
	int answered = compare_from_index(compare);
	size_t made = 0;

	for (unsigned i = 0; i < 2 && !answered; i++)
		made += unasked_of_survey(&compare->survey, &compare->side[i].input.traces);
	return made ? compare_from_index(compare) : answered;
}

/* After indexes could not answer: find the blocks of the traces, and the lines in rings. */
static int lay_out_sides(struct compare *compare)
{
	for (unsigned i = 0; i < 2; i++) {
		struct survey_input *input = &compare->side[i].input;

		if (pfw_traces_lay_out(&input->traces, survey_say, &compare->survey))
			return CLI_USAGE;
		if (survey_attach(&compare->survey, input, NULL))
			return CLI_USAGE;
	}
	return CLI_OK;
}

static int read_lines(struct compare *compare, const char *lacks)
{
	int status = CLI_OK, error = 0;

	for (unsigned i = 0; i < 2; i++) {
		if (survey_lacks(&compare->survey, &compare->side[i].input,
				 lacks ? lacks : compare->lacks))
			return CLI_USAGE;
	}
	if (!compare->survey.no_index)
		compare->survey.lacks = lacks;
	status = lacks ? resolve_sides(compare, true) : lay_out_sides(compare);
	for (unsigned i = 0; i < 2 && status == CLI_OK && !error; i++)
		error = compare_collect(compare, i);
	return error ? survey_end(&compare->survey, error) : status;
}

static int read_sides(struct compare *compare, const struct cli_args *args)
{
	const char *lacks = compare_needs_lines(compare);
	int error, status;

	compare->survey.heads = !lacks;
	error = open_sides(compare, args);
	if (error == -ENOMEM)
		return survey_end(&compare->survey, error);
	if (error)
		return CLI_USAGE;
	compare->several = compare->side[0].runs > 1 || compare->side[1].runs > 1;
	compare_clear(compare);
	if (lacks)
		return read_lines(compare, lacks);
	status = resolve_sides(compare, false);
	error = status == CLI_OK ? ask_indexes(compare) : 0;
	if (status != CLI_OK || error > 0)
		return status;
	return error ? survey_end(&compare->survey, error) : read_lines(compare, NULL);
}

static void release(struct compare *compare)
{
	compare_clear(compare);
	for (unsigned i = 0; i < 2; i++) {
		survey_close(&compare->side[i].input);
		free(compare->side[i].run);
		free(compare->side[i].least_ns);
		free(compare->side[i].greatest_ns);
	}
}

/* ---- the command ---- */

static int judge(struct compare *compare)
{
	int error = compare_sort_rows(compare) ?: compare_judge(compare) ?: compare_print(compare);
	int failed = 0;

	if (error)
		return survey_end(&compare->survey, error);
	for (size_t i = 0; i < compare->rows; i++)
		failed += compare_fails(compare, &compare->row[i]);
	if (failed && !compare->survey.quiet)
		cli_error(compare->survey.command->name,
			  "%d row%s significantly slower by more than %g %%", failed,
			  failed == 1 ? " is" : "s are", 100 * compare->fail_above);
	return failed ? cli_finish(stdout, compare->survey.command, CLI_PROBLEMS)
		      : survey_end(&compare->survey, 0);
}

static void settle(struct compare *compare)
{
	unsigned bits = table_bits(&compare->table);

	compare->table.by_step = bits & TABLE_BIT(TABLE_STEP);
	for (unsigned side = 0; side < 2; side++) {
		compare->side[side].select.ask_fnames |= (bits & TABLE_BIT(TABLE_FNAME)) != 0;
		compare->side[side].select.ask_steps |= compare->table.by_step;
	}
}

static int run(void *user, struct cli_args *args)
{
	struct compare *compare = user;
	int status;

	if (args->operands != 2 && !between(args))
		return cli_error(
			compare->survey.command->name,
			"takes two sides, A and B; several runs of a side with `--` between the "
			"sides, with commas, or as a directory or a quoted glob");
	settle(compare);
	compare->survey.stop = stop_watch();
	status = read_sides(compare, args) ?: judge(compare);
	release(compare);
	stop_end();
	return status;
}

static int compare_main(const struct cli_command *command, int argc, char **argv)
{
	struct compare compare = {
		.survey = { .command = command,
			    .user = &compare,
			    .take = take,
			    .begin = run,
			    .all_runs = true,
			    .partials = true,
			    .row_limit = SURVEY_FEW_ROWS,
			    .few_rows = 50 },
		.table = { .survey = &compare.survey,
			   .field = { TABLE_CAT, TABLE_NAME },
			   .fields = 2 },
		.fail_above = -1,
		.side = { { .mutex = PTHREAD_MUTEX_INITIALIZER },
			  { .mutex = PTHREAD_MUTEX_INITIALIZER } },
	};
	int status = survey_main(&compare.survey, argc, argv);

	pfw_select_release(&compare.side[0].select);
	pfw_select_release(&compare.side[1].select);
	return status;
}

static const struct cli_option compare_options[] = {
	{ "group-by", 'g', "LIST",
	  "one row per: name, cat, fname, rank, step, tid (default: cat,name)", .id = GROUP_BY },
	{ "fail-above", 0, "PERCENT",
	  "exit with status 1 if a row got significantly slower by more than this",
	  .id = FAIL_ABOVE },
	{ "row-limit", 0, "N", "rows shown (default in text and md: 50); -1: all",
	  SURVEY_ROW_LIMIT },
	SELECT_ARGS_TIMES,
	SELECT_ARGS_FILTERS,
	SURVEY_OPTION_WIDE,
	SURVEY_OPTIONS,
	{ "format", 0, SURVEY_FORMAT_NAMES, "md: to paste; for programs times in µs",
	  SURVEY_INTO(format) },
	{ 0 },
};

const struct cli_command cli_compare = {
	.name = "compare",
	.operands = "A B | A... -- B...",
	.summary = "Show what changed between two runs, or two groups of runs",
	.options = compare_options,
	.details =
		"A and B: traces, directories, globs or base names; several with `--` between\n"
		"the sides, or with commas.  The first line of a trace names its run.  If a side\n"
		"has several runs, each run is one value, and the variation between runs is\n"
		"known.  With one run per side, this variation is estimated from how calls vary\n"
		"within each run, and a change that all rows share is taken for a slow machine.\n"
		"docs/analysis.rst has the method.  Rows are sorted by their share of the\n"
		"difference of the totals.  Traces of 1,000,000 events (PFW_INDEX_EVENTS) get an\n"
		"index, from which the next answer comes at once.\n"
		"A and B may be partials (pfw index --partial).\n",
	.main = compare_main,
};
