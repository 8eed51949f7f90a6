/* tools/share/select_args.h - the options that select lines, for all commands that take them. */
#pragma once

#include "store/select/select.h"
#include "ui/cli.h"

/* The id of a row is SELECT_ARGS + enum pfw_select_option. */
#define SELECT_ARGS 1024

/* Rows for a command's table of options. */
/* clang-format off */
#define SELECT_ARGS_TIMES                                                                          \
	{ "since", 0, "TIME", "events that overlap [since, until): +12s (after the start), -5s (before the "  \
	  "end), 50%, step:100, or µs since the epoch", .id = SELECT_ARGS + PFW_SELECT_SINCE },          \
	{ "until", 0, "TIME", "end of the interval, in the same forms", .id = SELECT_ARGS + PFW_SELECT_UNTIL }

#define SELECT_ARGS_PROCESSES                                                                      \
	{ "rank", 'r', "LIST", "ranks: 0,8-15", .id = SELECT_ARGS + PFW_SELECT_RANK },             \
	{ "pid", 0, "LIST", "processes", .id = SELECT_ARGS + PFW_SELECT_PID }

#define SELECT_ARGS_FILTERS                                                                        \
	{ "cat", 'c', "GLOB", "categories: POSIX, STDIO, PP, ...; !PP: all others", .id = SELECT_ARGS + PFW_SELECT_CAT }, \
	{ "name", 'n', "GLOB", "names of calls, spans, kernels", .id = SELECT_ARGS + PFW_SELECT_NAME },  \
	{ "fname", 'f', "GLOB", "files; * matches '/', too", .id = SELECT_ARGS + PFW_SELECT_FNAME },     \
	SELECT_ARGS_PROCESSES,                                                                     \
	{ "tid", 0, "LIST", "threads", .id = SELECT_ARGS + PFW_SELECT_TID },                             \
	{ "step", 0, "LIST", "events of these steps", .id = SELECT_ARGS + PFW_SELECT_STEP },       \
	{ "min-dur", 0, "TIME", "spans at least this long: 5ms",                               \
	  .id = SELECT_ARGS + PFW_SELECT_MIN_DUR },                                                      \
	{ "where", 'w', "EXPR", "an expression over any field: dur>1ms && args.fname=~\"\\.npz$\"",  \
	  .id = SELECT_ARGS + PFW_SELECT_WHERE }
/* clang-format on */

/* Whether the option of that id is in one of these lists. */
static inline bool select_args_is(int option)
{
	return option >= SELECT_ARGS && option <= SELECT_ARGS + PFW_SELECT_WHERE;
}

/* Take such an option.  0, or -1 after an error message. */
int select_args_take(struct pfw_select *select, const struct cli_args *args, int option);

/* The first condition that no index knows the answer to, for a message: all but those on cat, name
 * and rank; NULL: there is none. */
const char *select_args_need_lines(const struct pfw_select *select);

/* The first condition of all but those on rank; of all, alike. */
const char *select_args_but_rank(const struct pfw_select *select);
const char *select_args_any(const struct pfw_select *select);

/* pfw_select_use_indexes().  Unless `quiet`, it prints in one line which indexes were passed over;
 * they are no problem of the traces.  0 or -ENOMEM. */
int select_args_use_indexes(struct pfw_select *select, const struct cli_command *command,
			    struct pfw_traces *traces, bool quiet);

/* pfw_select_check_ranks() for commands that ask others.  CLI_OK, or CLI_USAGE after an error. */
int select_args_check_ranks(const struct pfw_select *select, const struct cli_command *command,
			    const struct pfw_traces *traces);

/* pfw_select_resolve().  CLI_OK; CLI_USAGE after an error message; 130 if it was interrupted. */
int select_args_resolve(struct pfw_select *select, const struct cli_command *command,
			const struct pfw_traces *traces, const struct pfw_extent_options *options);
