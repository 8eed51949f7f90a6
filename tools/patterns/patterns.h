/* tools/patterns/patterns.h - options and results of `pfw patterns`.
 *
 * Room tools/patterns: `pfw patterns` shows how files are used.  It may use tools/share, tools/ui
 * and the store, whose store/patterns does the counting.  Start with patterns.c; collect.c reads,
 * print.c prints.
 */
#ifndef PFW_TOOLS_PATTERNS_PATTERNS_H
#define PFW_TOOLS_PATTERNS_PATTERNS_H

#include "share/survey.h"
#include "store/patterns/patterns.h"

struct patterns {
	struct survey survey;
	/* Options. */
	struct pfw_select select;
	/* Results. */
	struct pfw_patterns found;
	struct patterns_rank {
		int64_t rank;
		struct pfw_pattern_counters counters;
	} * rank; /* in order */
	size_t ranks;
};

/* Read the traces.  0 or -errno.  Thread: main, as below. */
int patterns_collect(struct patterns *patterns, struct survey_input *input);

/* 0 or -ENOMEM. */
int patterns_print(const struct patterns *patterns);

#endif
