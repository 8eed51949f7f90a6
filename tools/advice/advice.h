/* tools/advice/advice.h - what of a run is worth a look: rules over the figures that other commands
 * answer.
 *
 * Room tools/advice: `pfw advise`, and the findings of `pfw report`.  It may use tools/ui,
 * tools/share and the store, and knows commands by their entries in cli.h.  Start with rules.c,
 * which has the rules; figures.c takes figures from rows, ask.c runs the commands, advise.c prints.
 *
 * Each rule compares one figure with a share of the time of all ranks and says what would be gained
 * at most.  A figure that was not recorded raises no rule.
 */
#pragma once

#include "advice/figures.h"
#include "share/survey.h"
#include "ui/host.h"

#define ADVICE_RULES 24u
#define ADVICE_TEXT 900u
#define ADVICE_NO_COST (-1)

struct finding {
	const char *rule;
	char text[ADVICE_TEXT]; /* what was found, with its figures: one sentence */
	int64_t cost_ns; /* of the time of all ranks: gained at most; ADVICE_NO_COST: not measured */
	double share;	 /* of that time */
	const char *remedy; /* what to do: one sentence */
	const char *query;  /* the command that shows it */
};

/* Apply the rules: the findings in order of their cost, and how many there are. */
size_t advice_find(struct advice *advice, struct finding found[ADVICE_RULES]);

/* ---- asking ---- */

/* The messages of the commands, each once.  All zero: none. */
struct advice_notes {
	char **note;
	size_t count;
};

/* Keep a message.  False: it is there already. */
bool advice_note(struct advice_notes *notes, const char *text);
void advice_notes_release(struct advice_notes *notes);

/* The arguments that each command gets after its own words: options, then operands, each allocated. */

/* Let the commands have an option with an argument, too; those of the survey.  0 or -ENOMEM. */
int advice_pass_option(struct host_words *words, const struct cli_args *args);
int advice_pass_survey(struct host_words *words, const struct survey *survey);

/* The same for operands: -1 to go on, or an exit status after a message; for survey's begin(). */
int advice_pass_operands(struct host_words *words, const struct cli_args *args);

void advice_words_release(struct host_words *words);

struct advice_asking {
	struct advice *advice;
	const struct host_words *words;
	const _Atomic bool *stop;
	void *user;
	void (*say)(void *user, const char *text); /* a message of a command */
};

/* Run the commands that have the figures; of `pfw report` only those that its sheets do not have:
 * what they answered decides which.  The worst exit status; above CLI_PROBLEMS after a message. */
int advice_ask(const struct advice_asking *asking);
int advice_ask_more(const struct advice_asking *asking);
