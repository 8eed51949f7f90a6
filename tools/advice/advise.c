/* tools/advice/advise.c - `pfw advise`: what of a run is worth a look, by cost. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "advice/advice.h"
#include "share/survey.h"
#include "share/unasked.h"
#include "ui/progress.h"

struct advise {
	struct survey survey;
	struct pfw_select select; /* refuses wrong conditions at once; the commands read them, too */
	struct host_words words;
	size_t conditions; /* of the words; then come operands */
	struct advice advice;
	struct advice_notes said;
};

/* ---- printing ---- */

static const struct grid_column columns[] = {
	{ "rule", "Rule", GRID_TEXT },	    { "cost", "Cost", GRID_NS },
	{ "share", "Share", GRID_PERCENT }, { "finding", "Finding", GRID_TEXT },
	{ "remedy", "Do", GRID_TEXT },	    { "query", "See", GRID_TEXT },
};

static void put_text(struct grid *grid, const char *text)
{
	grid_text(grid, text, strlen(text));
}

static int print_rows(const struct advise *advise, const struct finding *found, size_t count)
{
	struct grid grid = { .column = columns, .columns = CLI_ARRAY_LEN(columns), .none = "-" };

	for (size_t i = 0; i < count; i++) {
		bool known = found[i].cost_ns != ADVICE_NO_COST;

		put_text(&grid, found[i].rule);
		grid_maybe(&grid, GRID_NS, known, found[i].cost_ns);
		if (known)
			grid_number(&grid, GRID_PERCENT, 100 * found[i].share);
		else
			grid_none(&grid);
		put_text(&grid, found[i].text);
		put_text(&grid, found[i].remedy);
		put_text(&grid, found[i].query);
	}
	return grid_end(&grid, stdout, advise->survey.format, NULL) ? CLI_USAGE : CLI_OK;
}

#define INDENT 3

static void put_line(const struct advise *advise, const char *head, const char *text)
{
	size_t width = advise->survey.width ? advise->survey.width : CLI_WIDTH;

	printf("%*s%s", INDENT, "", head);
	cli_wrapped(stdout, text, INDENT + (int)strlen(head), INDENT + (int)strlen(head),
		    (int)width);
}

static void print_text(const struct advise *advise, const struct finding *found, size_t count)
{
	bool coloured = cli_colours(stdout);
	char query[1024];

	for (size_t i = 0; i < count; i++) {
		const char *cost = "cost not measured";

		if (found[i].cost_ns != ADVICE_NO_COST)
			cost = cli_seconds(found[i].cost_ns);
		printf("%s%zu. %s%s%s  (%s", i ? "\n" : "", i + 1, cli_style(coloured, CLI_BOLD),
		       found[i].rule, cli_style(coloured, CLI_PLAIN), cost);
		if (found[i].cost_ns != ADVICE_NO_COST)
			printf(" at most, %.1f %%", 100 * found[i].share);
		puts(")");
		put_line(advise, "", found[i].text);
		put_line(advise, "Do:  ", found[i].remedy);
		snprintf(query, sizeof(query), "%s", found[i].query);
		for (size_t j = advise->conditions; j < advise->words.count; j++)
			snprintf(query + strlen(query), sizeof(query) - strlen(query), " %s",
				 cli_name(advise->words.word[j]));
		printf("%*sSee: %s\n", INDENT, "", query);
	}
	if (!count)
		puts("Nothing stands out: no rule found a cost of a tenth of the time.");
}

/* Name the rules whose figures were not recorded. */
static void print_missing(const struct advise *advise)
{
	const struct advice *advice = &advise->advice;
	const char *part = select_args_but_rank(&advise->select);
	const struct {
		bool missing;
		const char *what, *remedy;
	} figures[] = {
		{ !advice->steps, "steps", "pfw run --torch, or pfw_step()" },
		{ advice->figure[F_compute] == UNKNOWN, "compute",
		  "pfw run --torch, or @pfw.trace" },
		{ advice->figure[F_idle] == UNKNOWN, "GPU work", "PFW_CUPTI" },
		{ advice->figure[F_calls_read_bytes] == UNKNOWN, "what the system counts",
		  "PFW_COUNTERS=500ms" },
	};

	for (size_t i = 0, said = 0; i < CLI_ARRAY_LEN(figures); i++) {
		if (figures[i].missing)
			printf("%s%s (%s)",
			       said++ ? ", "
			       : part ? "\nNot recorded, or not selected, so not judged: "
				      : "\nNot recorded, so not judged: ",
			       figures[i].what, figures[i].remedy);
		if (said && i + 1 == CLI_ARRAY_LEN(figures))
			puts(".");
	}
}

/* ---- the command ---- */

/* A message that several commands print about a trace is printed once, without the commands' names. */
static void say(void *user, const char *text)
{
	struct advise *advise = user;
	const char *colon = strncmp(text, "pfw ", 4) == 0 ? strstr(text, ": ") : NULL;
	const char *what = colon ? colon + 2 : text;

	if (advice_note(&advise->said, what))
		fprintf(stderr, "pfw %s: %s\n", advise->survey.command->name, what);
}

static int body(void *user, struct survey_input *input)
{
	struct advise *advise = user;
	const struct advice_asking asking = { .advice = &advise->advice,
					      .words = &advise->words,
					      .stop = advise->survey.stop,
					      .user = advise,
					      .say = say };
	struct finding found[ADVICE_RULES];
	size_t count;
	int status, printed = CLI_OK;

	if (select_args_check_ranks(&advise->select, advise->survey.command, &input->traces))
		return CLI_USAGE;
	unasked_of_survey(&advise->survey, &input->traces);
	advice_see(&advise->advice, &input->traces);
	progress_begin("advise", advise->survey.quiet, false);
	status = advice_ask(&asking);
	progress_hide();
	if (status > CLI_PROBLEMS)
		return status;
	count = advice_find(&advise->advice, found);
	if (advise->survey.format == CLI_TEXT) {
		print_text(advise, found, count);
		print_missing(advise);
	} else {
		printed = print_rows(advise, found, count);
	}
	return cli_finish(stdout, advise->survey.command, printed > status ? printed : status);
}

static const struct cli_option options[] = {
	SELECT_ARGS_TIMES,
	SELECT_ARGS_PROCESSES,
	SURVEY_OPTION_ALL_RUNS,
	SURVEY_OPTIONS,
	{ "format", 0, SURVEY_FORMAT_NAMES,
	  "md: to paste; for programs costs in µs, shares in percent", SURVEY_INTO(format) },
	{ 0 },
};

static int take(void *user, const struct cli_args *args, int option)
{
	struct advise *advise = user;

	return select_args_take(&advise->select, args, option) ||
			       advice_pass_option(&advise->words, args)
		       ? -1
		       : 0;
}

static int begin(void *user, struct cli_args *args)
{
	struct advise *advise = user;

	if (advice_pass_survey(&advise->words, &advise->survey))
		return survey_end(&advise->survey, -ENOMEM);
	advise->conditions = advise->words.count;
	return advice_pass_operands(&advise->words, args);
}

static int advise_main(const struct cli_command *command, int argc, char **argv)
{
	struct advise advise = { .survey = { .command = command,
					     .user = &advise,
					     .take = take,
					     .begin = begin,
					     .body = body } };
	int status = survey_main(&advise.survey, argc, argv);

	pfw_select_release(&advise.select);
	advice_words_release(&advise.words);
	advice_release(&advise.advice);
	advice_notes_release(&advise.said);
	return status;
}

const struct cli_command cli_advise = {
	.name = "advise",
	.operands = "[PATH...]",
	.summary = "List what slows a run down, what each cause costs, and what to do",
	.options = options,
	.details = SURVEY_PATHS
	"Rules test the figures of pfw overlap, patterns, table, memory and counters.\n"
	"Findings are sorted by the most time that a change could gain.\n"
	"docs/analysis.rst lists the rules with their thresholds.  The exit status does\n"
	"not depend on findings: it is 0, or 1 if traces are damaged.\n",
	.main = advise_main,
};
