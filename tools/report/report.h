/* tools/report/report.h - `pfw report`: the answers of other commands on one page.
 *
 * Room tools/report: runs commands in this process (tools/ui/host.h), keeps their rows as JSON, and puts
 * them into a page that draws them.  It may use tools/ui, tools/share, tools/advice and the store, and
 * knows commands by their entries in cli.h.  Start with report.c; sheets.c runs commands and chooses
 * steps, flame.c draws stacks, page.* is the page, markdown.c prints one to paste.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "advice/advice.h"
#include "share/survey.h"
#include "store/kit/pair_ids.h"

/* ---- which steps of a long run the page has (sheets.c) ---- */

/* All zero: none yet.  Thread: one at a time. */
struct report_steps {
	uint64_t rows;	/* steps times ranks */
	double wall_ns; /* of all these */
	uint64_t every; /* the n-th step is kept; 1: all; 0: not chosen yet */
	size_t slowest; /* so many more are kept, or among them */
	struct report_step {
		int64_t number, wall_ns; /* of the slowest rank */
		bool kept;
	} * step; /* as `numbers` */
	struct pfw_pair_ids numbers;
	size_t room;
};

void report_steps_release(struct report_steps *steps);

/* Rows of one sheet that are kept, and of steps; the page says how many are left out. */
#define REPORT_ROWS 10000u
#define REPORT_STEP_ROWS 2000u

/* In runs with more events, tables without an index are left out. */
#define REPORT_LINES 1000000

struct report {
	struct survey survey;
	struct pfw_select select; /* refuses wrong conditions at once; the commands read them, too */
	const char *format;	  /* html, md or json */
	const char *out_path;
	bool force, packed;	  /* rows as struct report_pack has them */
	char *peak;		  /* --peak-tflops=N; NULL: not given */
	const char *against;	  /* the run before; NULL: none */
	struct pfw_traces before; /* its files, if `against` also names those of PATH */
	struct host_words words;  /* for each command: conditions, then operands */
	size_t options;		  /* the words that are conditions */
	FILE *json;		  /* what the page shows */
	struct advice_notes notes;
	struct advice advice;
	int64_t events; /* of all ranks */
	struct report_steps steps;
	char *flame; /* the flame graph; NULL: none */
};

/* Which run a command reads; both runs, or the earlier one, only with --against. */
enum report_of { OF_RUN, OF_BOTH, OF_BEFORE };

/* Give a command the report's conditions, then the paths of what it is about. */
void report_put_words(const struct report *report, enum report_of of, struct host_words *words);

/* Run each command and write its rows: "overlap":{...},"names":{...} and so on.  The worst exit status; above
 * CLI_PROBLEMS after a message. */
int report_sheets(struct report *report);

/* Print the findings, and what the commands print in Markdown, to `out`.  An exit status; above CLI_PROBLEMS
 * after a message, or `out` has failed. */
int report_markdown(struct report *report, FILE *out, const char *title);

/* Make the flame graph, unless so many events and files take too long. */
void report_flame(struct report *report, size_t files);

/* Let what commands print go to `fd`: the former standard output, or -1.  Then give it back: 0, or EOF if
 * something could not be written. */
int report_standard_output(int fd);
int report_standard_output_again(int before);
