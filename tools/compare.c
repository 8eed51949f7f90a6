/* compare.c - `pfw compare`: what changed between two runs, or between several runs and others. */
#include "compare.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "select_args.h"
#include "stop.h"
#include "table_output.h"

#define ROW_LIMIT 50
#define FORMATS (1u << CLI_TEXT | 1u << CLI_NDJSON | 1u << CLI_CSV | 1u << CLI_TSV | 1u << CLI_MD)

enum { GROUP_BY = 256, FAIL_ABOVE, ROW_LIMIT_OPTION, FORMAT };

/* ---- options ---- */

static int parse_fields(struct compare *compare, const char *list)
{
	static const enum table_field fields[] = { TABLE_NAME, TABLE_CAT,  TABLE_FNAME,
						   TABLE_RANK, TABLE_STEP, TABLE_TID };
	struct table_options *table = &compare->table;
	char *copy = strdup(list), *rest = copy, *word;
	bool bad = !copy;

	table->fields = 0;
	while (!bad && (word = strsep(&rest, ","))) {
		size_t i = 0;

		while (i < CLI_ARRAY_LEN(fields) && strcmp(word, table_field_name(fields[i])) != 0)
			i++;
		bad = i == CLI_ARRAY_LEN(fields) || table->fields == TABLE_FIELDS;
		if (!bad)
			table->field[table->fields++] = fields[i];
	}
	if (bad)
		cli_error(compare->command->name,
			  "--group-by %s: takes name, cat, fname, rank, step and tid, with commas "
			  "between them",
			  cli_name(list));
	free(copy);
	return bad ? -1 : 0;
}

static int parse_percent(struct compare *compare, const char *text)
{
	char *end;
	double percent = strtod(text, &end);

	if (end != text && (!*end || strcmp(end, "%") == 0) && percent >= 0 && percent < 1e6) {
		compare->fail_above = percent / 100;
		return 0;
	}
	cli_error(compare->command->name, "--fail-above %s: takes a percentage, as 5%%",
		  cli_name(text));
	return -1;
}

static int take(void *user, const struct cli_args *args, int option)
{
	struct compare *compare = user;

	switch (option) {
	case GROUP_BY:
		return parse_fields(compare, args->value);
	case FAIL_ABOVE:
		return parse_percent(compare, args->value);
	case ROW_LIMIT_OPTION:
		return cli_whole(compare->command, "row-limit", args->value, -1, INT32_MAX,
				 &compare->row_limit);
	case 'q':
		compare->quiet = true;
		return 0;
	case 'j':
		return cli_jobs(compare->command, args->value, 1024, &compare->jobs);
	case FORMAT:
		compare->format = cli_format_of(compare->command, args->value, FORMATS);
		return compare->format < 0 ? -1 : 0;
	default:
		break;
	}
	/* Each side has times and ranks of its own. */
	if (select_args_take(&compare->side[0].select, args, option) < 0)
		return -1;
	return select_args_take(&compare->side[1].select, args, option) < 0 ? -1 : 0;
}

/* ---- sides ---- */

static void say_trace(void *user, const char *path, const char *why)
{
	struct compare *compare = user;
	cli_error(compare->command->name, "%s: %s", cli_name(path), why);
	compare->problems++;
}

/* What a side's traces are called. */
struct words {
	char **word;
	size_t count;
	char *copy; /* that they lie in */
};

static void release_words(struct words *words)
{
	free(words->word);
	free(words->copy);
}

/* Take an operand apart at its commas, unless it names a file as it is. */
static int split(struct words *words, const char *operand)
{
	size_t room = 2;
	char *rest;

	for (const char *at = operand; *at; at++)
		room += *at == ',';
	*words = (struct words){ calloc(room, sizeof(*words->word)), 0, strdup(operand) };
	rest = words->copy;
	if (!words->word || !rest)
		return -ENOMEM;
	if (access(operand, F_OK) == 0) {
		words->word[words->count++] = rest;
		return 0;
	}
	while (rest) {
		char *next = strsep(&rest, ",");

		if (*next)
			words->word[words->count++] = next;
	}
	return 0;
}

/* Of one run: their first lines say so.  Those of other tools, which say none, are one, but for what
 * was named itself. */
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
	side->run = calloc(side->traces.count + 1, sizeof(*side->run));
	if (!side->run)
		return -ENOMEM;
	for (size_t i = 0; i < side->traces.count; i++) {
		size_t j = 0;

		while (j < i && !same_run(&side->traces, j, i, words))
			j++;
		side->run[i] = j < i ? side->run[j] : side->runs++;
	}
	return 0;
}

/* `--` stands between operands, so that it parts the sides. */
static bool between(const struct cli_args *args)
{
	return args->literal && args->before > 0 && args->before < args->operands;
}

static int open_side(struct compare *compare, struct compare_side *side, const struct words *words)
{
	int error = pfw_traces_open_ranks(&side->traces, words->word, words->count, true, say_trace,
					  compare);

	if (error)
		return error;
	side->live = (struct live_lines){ .command = compare->command, .traces = &side->traces };
	error = number_runs(side, words);
	if (!error)
		error = live_lines_open(&side->live);
	compare->problems += side->live.missing;
	return error;
}

/* A and B, each with commas in it, or the operands in front of `--` and those behind it. */
static int open_sides(struct compare *compare, const struct cli_args *args)
{
	int error = 0;

	for (unsigned i = 0; i < 2 && !error; i++) {
		int first = i ? args->before : 0;
		int end = i ? args->operands : args->before;
		struct words words = { args->argv + first, (size_t)(end - first), NULL };

		if (!between(args))
			error = split(&words, args->argv[i]);
		error = error ? error : open_side(compare, &compare->side[i], &words);
		if (!between(args))
			release_words(&words);
	}
	return error;
}

static int resolve_side(struct compare *compare, struct compare_side *side,
			const volatile bool *stop)
{
	const struct pfw_extent_options extent = { .jobs = compare->jobs, .stop = stop };
	int error;

	for (unsigned i = 0; i < compare->table.fields; i++)
		side->select.ask_fnames |= compare->table.field[i] == TABLE_FNAME;
	error = select_args_use_indexes(&side->select, compare->command, &side->traces,
					compare->quiet);
	if (error) {
		cli_error(compare->command->name, "%s", strerror(-error));
		return CLI_USAGE;
	}
	return select_args_resolve(&side->select, compare->command, &side->traces, &extent);
}

static int read_sides(struct compare *compare, const struct cli_args *args,
		      const volatile bool *stop)
{
	int error = open_sides(compare, args);

	if (error == -ENOMEM)
		cli_error(compare->command->name, "%s", strerror(-error));
	if (error)
		return CLI_USAGE;
	for (unsigned i = 0; i < 2; i++) {
		int status = resolve_side(compare, &compare->side[i], stop);

		if (status != CLI_OK)
			return status;
		if (compare_collect(compare, i, stop))
			return CLI_USAGE;
	}
	return CLI_OK;
}

static void release(struct compare *compare)
{
	for (size_t i = 0; i < compare->rows; i++) {
		free(compare->row[i].cell);
		pfw_batches_release(&compare->row[i].batch[0]);
		pfw_batches_release(&compare->row[i].batch[1]);
	}
	free(compare->row);
	pfw_averages_release(&compare->keys);
	for (unsigned i = 0; i < 2; i++) {
		struct compare_side *side = &compare->side[i];

		if (side->live.traces)
			live_lines_close(&side->live);
		pfw_traces_close(&side->traces);
		free(side->run);
	}
}

/* ---- the command ---- */

static int judge(struct compare *compare)
{
	int error = compare_judge(compare), failed = 0;

	if (!error)
		error = compare_print(compare);
	if (error) {
		cli_error(compare->command->name, "%s", strerror(-error));
		return CLI_USAGE;
	}
	for (size_t i = 0; i < compare->rows; i++)
		failed += compare_fails(compare, &compare->row[i]);
	if (failed && !compare->quiet)
		cli_error(compare->command->name,
			  "%d row%s slower by more than %g %%, which is no chance", failed,
			  failed == 1 ? " is" : "s are", 100 * compare->fail_above);
	return cli_finish(stdout, compare->command,
			  failed || compare->problems ? CLI_PROBLEMS : CLI_OK);
}

static int run(struct compare *compare, struct cli_args *args)
{
	const volatile bool *stop;
	int status;

	if (args->operands != 2 && !between(args)) {
		cli_error(compare->command->name,
			  "takes two sides, A and B; several runs of a side with `--` between the "
			  "sides, with commas, or as a directory or a quoted glob");
		return CLI_USAGE;
	}
	if (compare->row_limit < -1)
		compare->row_limit =
			compare->format == CLI_TEXT || compare->format == CLI_MD ? ROW_LIMIT : -1;
	stop = stop_watch();
	pfw_averages_init(&compare->keys);
	status = read_sides(compare, args, stop);
	if (status == CLI_OK)
		status = judge(compare);
	release(compare);
	stop_end();
	return status;
}

static int compare_main(const struct cli_command *command, int argc, char **argv)
{
	struct compare compare = {
		.command = command,
		.table = { .command = command, .field = { TABLE_CAT, TABLE_NAME }, .fields = 2 },
		.fail_above = -1,
		.row_limit = -2
	};
	struct cli_args args;
	int status;

	cli_args_init(&args, command, argc, argv);
	status = cli_take_options(&args, &compare, take);
	if (status < 0)
		status = run(&compare, &args);
	pfw_select_release(&compare.side[0].select);
	pfw_select_release(&compare.side[1].select);
	return status;
}

static const struct cli_option compare_options[] = {
	{ "group-by", 'g', "LIST",
	  "what makes a row: name, cat, fname, rank, step, tid; cat,name by "
	  "default",
	  GROUP_BY },
	{ "fail-above", 0, "PERCENT",
	  "end with status 1 where a row got slower by more, and that is no chance", FAIL_ABOVE },
	{ "row-limit", 0, "N", "rows shown, 50 by default in text and md; -1: all",
	  ROW_LIMIT_OPTION },
	SELECT_ARGS_TIMES,
	SELECT_ARGS_FILTERS,
	{ "quiet", 'q', NULL, "problems only on standard error", 'q' },
	{ "jobs", 'j', "N", "threads; by default one for each CPU", 'j' },
	{ "format", 0, "FORMAT", "text, ndjson, csv, tsv or md: times in µs", FORMAT },
	{ 0 },
};

const struct cli_command cli_compare = {
	.name = "compare",
	.operands = "A B | A... -- B...",
	.summary = "Show what changed between two runs, or between several and others",
	.options = compare_options,
	.details =
		"A and B: traces, directories, globs or base names; several with `--` between the sides, "
		"or\nwith commas.  Each run is told by its traces' first line.  Where a side has several, "
		"each\nrun is one value, and what differs from run to run is known.  Of one run a side it is "
		"not:\nthe course of the two runs and their other rows must tell chance from change, and a "
		"change\nthat all rows share cannot be told from a slow machine.  docs/analysis.rst has the "
		"method.\nRows are sorted by what they add to the difference of the totals.\n",
	.main = compare_main,
};
