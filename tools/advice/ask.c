/* tools/advice/ask.c - runs the commands that have the figures, in this process. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "advice/advice.h"
#include "store/kit/grow.h"

bool advice_note(struct advice_notes *notes, const char *text)
{
	char *copy;

	for (size_t i = 0; i < notes->count; i++) {
		if (strcmp(notes->note[i], text) == 0)
			return false;
	}
	copy = strdup(text);
	if (copy && PFW_APPEND(notes->note, notes->count, copy))
		free(copy);
	return true;
}

void advice_notes_release(struct advice_notes *notes)
{
	for (size_t i = 0; i < notes->count; i++)
		free(notes->note[i]);
	free(notes->note);
}

/* ---- what each is given ---- */

static int add_word(struct host_words *words, char *word)
{
	if (word)
		host_word(words, word);
	if (word && !words->failed)
		return 0;
	free(word);
	return -ENOMEM;
}

int advice_pass_option(struct host_words *words, const struct cli_args *args)
{
	char *word;

	if (asprintf(&word, "--%s=%s", args->row->name, args->value) < 0)
		word = NULL;
	return add_word(words, word);
}

int advice_pass_survey(struct host_words *words, const struct survey *survey)
{
	char jobs[24];
	int error = survey->all_runs ? add_word(words, strdup("--all-runs")) : 0;

	if (survey->no_index)
		error |= add_word(words, strdup("--no-index"));
	snprintf(jobs, sizeof(jobs), "--jobs=%u", survey->jobs);
	return error | (survey->jobs ? add_word(words, strdup(jobs)) : 0);
}

/* Operands come after the options; one may begin with "-" behind "--". */
int advice_pass_operands(struct host_words *words, const struct cli_args *args)
{
	for (int i = 0; i < args->operands; i++) {
		char *word;

		if (asprintf(&word, "%s%s", *args->argv[i] == '-' && args->argv[i][1] ? "./" : "",
			     args->argv[i]) < 0)
			word = NULL;
		if (add_word(words, word))
			return cli_error(args->command->name, "%s", strerror(ENOMEM));
	}
	return -1;
}

void advice_words_release(struct host_words *words)
{
	for (size_t i = 0; i < words->count; i++)
		free((char *)(uintptr_t)words->word[i]);
	free(words->word);
	*words = (struct host_words){ .count = 0 };
}

/* ---- the commands ---- */

struct question {
	const struct cli_command *command;
	const char *word[3];
	bool (*wanted)(const struct advice *advice); /* NULL: always */
};

/* Processes are in no index: their lines are read only where the steps wait for workers. */
static bool loads(const struct advice *advice)
{
	const int64_t *figure = advice->steps ? advice->in_steps : advice->figure;

	return advice->figure[F_load] != UNKNOWN && figure[F_load] >= figure[F_wall] / 20;
}

/* So are the samples of PFW_COUNTERS. */
static bool has_counters(const struct advice *advice)
{
	return advice->figure[F_calls_read_bytes] != UNKNOWN;
}

/* Stacks are in no index either: lines are read only where I/O may be a finding. */
static bool has_lines(const struct advice *advice)
{
	const int64_t *figure = advice->steps ? advice->in_steps : advice->figure;

	return advice->stacks && figure[F_io] != UNKNOWN && figure[F_io] >= figure[F_wall] / 20;
}

static const struct question first[] = {
	{ &cli_overlap, { "--steps" }, NULL },
	{ &cli_patterns, { "--row-limit=500" }, NULL },
	{ &cli_table, { NULL }, NULL },
	{ &cli_memory, { NULL }, NULL },
};

static const struct question more[] = {
	{ &cli_table, { "--group-by=process", "--fname=/*" }, loads },
	{ &cli_table, { "--group-by=name,line", "--fname=/*", "--row-limit=500" }, has_lines },
	{ &cli_counters, { "--cat=COUNTER", "--name=page faults" }, has_counters },
	{ &cli_counters, { "--cat=COUNTER", "--name=memory", "--since=50%" }, has_counters },
	{ &cli_counters, { "--cat=COUNTER", "--name=memory", "--since=75%" }, has_counters },
};

/* Of one command while it runs. */
struct running {
	const struct advice_asking *asking;
	const struct question *question;
	int error;
};

static void take_rows(void *user, const struct grid *grid, const char *section)
{
	struct running *running = user;

	if (!running->error)
		running->error = advice_take(running->asking->advice,
					     running->question->command->name, grid, section);
}

static void take_message(void *user, const char *text)
{
	const struct running *running = user;

	running->asking->say(running->asking->user, text);
}

static int run(const struct advice_asking *asking, const struct question *question)
{
	struct running running = { .asking = asking, .question = question };
	const struct host host = {
		.user = &running, .say = take_message, .stop = asking->stop, .rows = take_rows
	};
	struct host_words words = { .count = 0 };
	int status;

	host_word(&words, "--format=ndjson");
	host_word(&words, "--quiet");
	host_list(&words, question->word, CLI_ARRAY_LEN(question->word));
	host_list(&words, asking->words->word, asking->words->count);
	asking->advice->columns = NULL;
	status = host_run(&host, question->command, &words);
	if (running.error && status <= CLI_PROBLEMS) {
		asking->say(asking->user, strerror(-running.error));
		status = CLI_USAGE;
	}
	return status;
}

static int run_all(const struct advice_asking *asking, const struct question *question,
		   size_t count)
{
	int worst = CLI_OK;

	for (size_t i = 0; i < count && worst <= CLI_PROBLEMS; i++) {
		int status = CLI_OK;

		if (!question[i].wanted || question[i].wanted(asking->advice))
			status = run(asking, &question[i]);
		worst = status > worst ? status : worst;
	}
	return worst;
}

int advice_ask_more(const struct advice_asking *asking)
{
	return asking->advice->any ? run_all(asking, more, CLI_ARRAY_LEN(more)) : CLI_OK;
}

int advice_ask(const struct advice_asking *asking)
{
	int status = run_all(asking, first, CLI_ARRAY_LEN(first)), then;

	if (status > CLI_PROBLEMS)
		return status;
	then = advice_ask_more(asking);
	return then > status ? then : status;
}
