/* patterns.h - what the parts of `pfw patterns` share: what was asked for, and what was counted. */
#ifndef PATTERNS_H
#define PATTERNS_H

#include "live_lines.h"
#include "store/patterns.h"
#include "store/select.h"

struct patterns {
	const struct cli_command *command;
	/* What was asked for. */
	struct pfw_select select;
	int64_t row_limit; /* of files; -1: none */
	bool all_runs, quiet;
	unsigned jobs;
	int format;
	/* What was found. */
	struct pfw_patterns found;
	struct patterns_rank {
		int64_t rank;
		struct pfw_pattern_counters counters;
	} * rank; /* in order */
	size_t ranks;
	uint64_t problems;
};

/* Read the traces.  0, or -errno after saying why.  Thread: main, as below. */
int patterns_collect(struct patterns *patterns, struct live_lines *live, const volatile bool *stop);

/* 0 or -ENOMEM. */
int patterns_print(const struct patterns *patterns);

#endif
