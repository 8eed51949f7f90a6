/* tools/patterns/patterns.h - options and results of `pfw patterns`.
 *
 * Room tools/patterns: `pfw patterns` shows how files are used.  It may use tools/share, tools/ui
 * and the store, whose store/patterns does the counting.  Start with patterns.c;
 * few.c keeps only the files that are shown, print.c prints.
 */
#pragma once

#include "share/survey.h"
#include "store/patterns/patterns.h"

/* A row of the output: of all files, of a rank, or of a file. */
struct patterns_row {
	const char *section; /* all, rank, file */
	int64_t rank;
	const char *name; /* of a file */
	size_t bytes;
	uint64_t files, ranks;
	struct pfw_pattern sum;
	struct pfw_pattern_counters counters;
};

/* The files that are shown, if the indexes of all traces were enough. */
struct patterns_few {
	bool known;
	struct patterns_row *rank;	    /* of each rank */
	struct patterns_row *file, *mapped; /* those with most bytes; with most bytes mapped */
	size_t shown, mapped_shown;
	uint64_t files, mapped_files, mapped_bytes; /* in all */
};

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
	struct patterns_few few; /* `known`: instead of `found` */
};

#define PATTERNS_MAPPED_SHOWN 3u

/* Add the figures of a file, or of a rank's share of it.  Different ranks have different
 * processes. */
void patterns_add(struct patterns_row *row, const struct pfw_pattern *pattern);
/* The rank in `patterns`, which is added if it is new; NULL: no memory. */
struct patterns_rank *patterns_find_rank(struct patterns *patterns, int64_t rank);

/*
 * Find only what is shown, from indexes: names and figures of hundreds of thousands of other files
 * take more memory than all else.  0, with few.known if it was possible, or -ENOMEM.
 */
int patterns_find_few(struct patterns *patterns, const struct pfw_traces *traces);
void patterns_free_few(struct patterns_few *few);

/* 0 or -ENOMEM. */
int patterns_print(struct patterns *patterns);
