/* tools/share/survey.h - the skeleton of commands that read many traces and print a result.
 *
 * Room tools/share: what several commands share to open, select and read traces.  It may use
 * tools/ui and the store.  Start here: a command fills a struct survey and calls survey_main(); its
 * body() reads blocks with survey_read() into a fold, prints, and ends with survey_end().
 */
#pragma once

#include "share/select_args.h"
#include "store/pass/pass.h"
#include "store/recover/live_lines.h"

struct survey_input;

struct survey {
	const struct cli_command *command;
	unsigned jobs_most; /* 0: as many as --jobs takes */
	/* Callbacks of survey_main() with `user`, the struct of the command's options: take() as
	 * for cli_take_options(); begin() (or NULL) before the operands are opened returns -1 to go
	 * on or the exit status; body() returns the exit status. */
	void *user;
	int (*take)(void *user, const struct cli_args *args, int option);
	struct pfw_select
		*select; /* gets the options of select_args.h, and is released; NULL: take() does */
	int (*begin)(void *user, struct cli_args *args);
	int (*body)(void *user, struct survey_input *input);
	/* Options, with their defaults. */
	bool all_runs, all_ranks, quiet, wide, no_index;
	bool partials;	   /* indexes may be enough: operands may be partials */
	unsigned jobs;	   /* 0: as many as survey_jobs() says */
	int format;	   /* of enum cli_format */
	size_t width;	   /* of tables of text: the terminal's; 0: no limit */
	int64_t row_limit; /* -1: none; SURVEY_FEW_ROWS: few_rows for people, else none */
	int64_t few_rows;
	/* The reason why lines are read: what no index has; NULL: none, or the user asked for it. */
	const char *lacks;
	/* How operands are opened: with PFW_TRACES_HEADS; not with PFW_TRACES_RANKS either. */
	bool heads, whole;
	bool indexed;		  /* by pfw_traces_open_indexed(); so are `heads` */
	const _Atomic bool *stop; /* a signal ends the command */
	uint64_t problems;	  /* found in traces; only the first few are printed */
	struct survey_kept *kept; /* problems of files whose indexes are asked */
	size_t kept_count;
};

/* Traces that are read together. */
struct survey_input {
	struct pfw_traces traces;
	struct pfw_live_lines live;
};

/* ---- options ---- */

/* The end of a row for an option of the survey. */
#define SURVEY_INTO(member) CLI_INTO(struct survey, member), .shared = true
#define SURVEY_ROW_LIMIT SURVEY_INTO(row_limit), .least = -1, .most = INT32_MAX

#define SURVEY_FEW_ROWS (-2)
/* The first line of the details of commands that take traces. */
#define SURVEY_PATHS \
	"PATH: traces, directories, globs or base names; default: the newest run here.\n"

#define SURVEY_FORMAT_NAMES "text|md|ndjson|csv|tsv"

/* Rows for a command's table of options. */
/* clang-format off */
#define SURVEY_OPTION_ALL_RUNS                                                                     \
	{ "all-runs", 0, NULL, "all runs of a directory, not only the newest",                           \
	  SURVEY_INTO(all_runs) }

#define SURVEY_OPTION_WIDE                                                                         \
	{ "wide", 0, NULL, "all columns, also those that a terminal has no room for",                      \
	  SURVEY_INTO(wide) }

#define SURVEY_OPTION_ALL_RANKS                                                                    \
	{ "all-ranks", 0, NULL,                                                                    \
	  "text and md: a row for each rank, not only for the ten slowest of more than 16",        \
	  SURVEY_INTO(all_ranks) }

#define SURVEY_OPTION_NO_INDEX                                                                     \
	{ "no-index", 0, NULL, "read every line: neither use nor make an index",                    \
	  SURVEY_INTO(no_index) }

#define SURVEY_OPTION_QUIET                                                                        \
	{ "quiet", 'q', NULL, "print only problems on standard error", SURVEY_INTO(quiet) }

#define SURVEY_OPTION_JOBS                                                                         \
	{ "jobs", 'j', "N", "threads (default: one per CPU)", SURVEY_INTO(jobs) }

#define SURVEY_OPTIONS SURVEY_OPTION_NO_INDEX, SURVEY_OPTION_QUIET, SURVEY_OPTION_JOBS
/* clang-format on */

/* ---- the command ---- */

/* Take the options, open the operands and call body().  Return the exit status: body()'s, or
 * CLI_USAGE if no trace can be opened.  Thread: main, as all below. */
int survey_main(struct survey *survey, int argc, char **argv);

/* The parts of survey_main() for a command with several inputs.  survey_open(): 0, or -errno after
 * an error message; survey_close() also takes an input that was never opened and is all zero. */
int survey_open(struct survey *survey, struct survey_input *input, char *const *path, size_t count);
void survey_close(struct survey_input *input);

/* Prints a problem with a trace as a whole; for pfw_traces_lay_out() and pfw_ranks_part(). */
void survey_say(void *survey, const char *path, const char *why);

/* Say in a line how many files of older runs are left out, if any. */
void survey_say_left_out(const struct cli_command *command, const struct pfw_traces *traces);

/* Say which files have the same processes as others, a line for each run: FILE and N more
 * `left_out` (NULL: quiet); and by say() which share only some, a problem. */
void survey_say_doubles(const struct cli_command *command, const struct pfw_traces *traces,
			const char *left_out, pfw_traces_say *say, void *user);

/* Whether some operand is a partial, of which `what` cannot be said, after that message: the lines
 * must be read. */
bool survey_lacks(const struct survey *survey, const struct survey_input *input, const char *what);

/* Whether a file to be written (NULL: standard output) is none of the traces, not even with
 * --force: CLI_OK, or CLI_USAGE after an error message. */
int survey_check_output(const struct survey *survey, const struct survey_input *input,
			const char *path);

/* How many threads read. */
unsigned survey_jobs(struct survey *survey);

/* Attach the lines that are still in rings of traced processes: they are read after those of the
 * files.  Use indexes for `select`, unless it is NULL or --no-index was given.  CLI_OK, or the exit
 * status after a message. */
int survey_attach(struct survey *survey, struct survey_input *input, struct pfw_select *select);

/* select_args_resolve() for these traces and the lines in rings. */
int survey_resolve(struct survey *survey, struct survey_input *input, struct pfw_select *select);

/* pfw_extent_find() for the same. */
int survey_extent(struct survey *survey, struct survey_input *input, struct pfw_extent *extent);

/* Keep what an index says of the problems of its file, which is not read, until
 * survey_tell_problems() prints and counts them as survey_read() does, or survey_forget_problems(),
 * since lines are read after all.  0; -ENOENT: the index does not know them all; or -errno. */
struct pfw_index;
int survey_keep_problems(struct survey *survey, const char *path, struct pfw_index *index);
void survey_tell_problems(struct survey *survey);
void survey_forget_problems(struct survey *survey);

/* The exit status after the layout, or for the first error (0: none), printed unless -EINTR. */
int survey_end(struct survey *survey, int error);

/* ---- reading ---- */

struct survey_worker {
	unsigned number;		/* below survey_jobs() */
	struct pfw_select_state *state; /* for `select` of the fold */
};

struct survey_fold {
	void *user;
	const struct pfw_select *select; /* resolved */
	/* Whether to read a block; NULL: pfw_select_block().  Thread: any. */
	bool (*want)(void *user, size_t file, const struct pfw_block *block);
	/* As pfw_pass's.  Lines in rings come as blocks for which want() is not called.  done() is
	 * called if there is a result. */
	size_t result_bytes;
	int (*work)(void *user, const struct survey_worker *worker, struct pfw_pass_block *block);
	int (*done)(void *user, struct pfw_pass_block *block);
	void (*drop)(void *result);
	bool again; /* the lines were read before: their problems are counted already */
};

enum { SURVEY_FILES = 1, SURVEY_RINGS = 2, SURVEY_ALL = 3 };

/* Read the blocks of the files, then the lines in rings (if they are attached; only once for an
 * input). A file that cannot be read to its end is a problem, which is printed, and no error.  0;
 * -EINTR; what work() or done() returned; -ENOMEM. */
int survey_read(struct survey *survey, struct survey_input *input, const struct survey_fold *fold,
		unsigned sources);

/* Whether `select` wants a line.  A line with `summed` calls is metadata itself, so conditions are
 * tested on an event of their name and category.  Thread: that of `state`. */
bool survey_wants(const struct pfw_select *select, struct pfw_select_state *state, size_t file,
		  const struct pfw_entry *entry, bool summed, struct pfw_slice name,
		  struct pfw_slice cat);

/* Up to so many ranks have a row each; of more, only the slowest. */
#define SLOWEST_RANKS_MAX 16u
#define SLOWEST_SHOWN 10u

/* Whether only the slowest of `count` ranks are shown: to people, without --all-ranks. */
bool slowest_only(const struct survey *survey, size_t count);

/* Which of `count` ranks are shown: all, or those with the greatest score[], of equal ones the
 * first.  An array of `count` to be freed; NULL: no memory.  Thread: any. */
bool *slowest_ranks(const struct survey *survey, const int64_t *score, size_t count);
