/* tools/report/advice.h - what of a run is worth a look: rules over the figures of `pfw overlap` and
 * `pfw patterns`.
 *
 * Each rule compares one figure with a share of the time of all ranks and says what would be gained at
 * most.  A figure that was not recorded raises no rule.
 */
#ifndef PFW_TOOLS_REPORT_ADVICE_H
#define PFW_TOOLS_REPORT_ADVICE_H

#include "ui/grid.h"

#define ADVICE_RULES 12u
#define ADVICE_TEXT 600u

struct finding {
	const char *rule;
	char text[ADVICE_TEXT]; /* what was found, with its figures: one sentence */
	int64_t cost_ns;	/* of the time of all ranks: what would be gained at most */
	const char *remedy;	/* what to do: one sentence */
	const char *query;	/* the command that shows it */
};

#define ADVICE_FIGURES 26u
#define ADVICE_COLUMNS 31u

/* What the rules look at; all zero: nothing yet. */
struct advice {
	bool any;			/* there is a row of all ranks */
	int64_t figure[ADVICE_FIGURES]; /* of all ranks, and of all files; see advice.c */
	int64_t in_steps[ADVICE_FIGURES];
	const struct grid_column *columns; /* of the last rows, and where they have what is wanted */
	char section[16];
	size_t place[ADVICE_COLUMNS];
	/* Of each rank in the steps that all ranks have, without waiting; of each step of a rank. */
	struct advice_time {
		int64_t rank, step, ns;
	} * rank, *step;
	size_t ranks, rank_room, steps, step_room;
	char top_file[256]; /* with the most time in its calls */
	int64_t top_ns;
};

/* Take the rows of a command that a host got.  0 or -ENOMEM. */
int advice_take(struct advice *advice, const char *command, const struct grid *grid,
		const char *section);

/* Apply the rules: the findings in order of their cost, and how many there are. */
size_t advice_find(struct advice *advice, struct finding found[ADVICE_RULES]);

void advice_release(struct advice *advice);

#endif
