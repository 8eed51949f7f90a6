/* select_args.h - the options that say which lines are wanted, for all commands that take them. */
#ifndef PFW_SELECT_ARGS_H
#define PFW_SELECT_ARGS_H

#include "cli.h"
#include "store/select.h"

/* What cli_next() returns for them: SELECT_ARGS + enum pfw_select_option; one more for --meta. */
#define SELECT_ARGS 1024
#define SELECT_ARGS_META 1100

/* Rows for a command's table of options. */
/* clang-format off */
#define SELECT_ARGS_TIMES                                                                          \
	{ "since", 0, "TIME", "what overlaps [since, until): +12s (from the begin), -5s (before the "  \
	  "end), 50%, step:100, or µs since the epoch", SELECT_ARGS + PFW_SELECT_SINCE },          \
	{ "until", 0, "TIME", "the same forms", SELECT_ARGS + PFW_SELECT_UNTIL }

#define SELECT_ARGS_FILTERS                                                                        \
	{ "cat", 'c', "GLOB", "categories: POSIX, STDIO, PP, ...", SELECT_ARGS + PFW_SELECT_CAT }, \
	{ "name", 'n', "GLOB", "names of calls, spans, kernels", SELECT_ARGS + PFW_SELECT_NAME },  \
	{ "fname", 'f', "GLOB", "files; * matches '/', too", SELECT_ARGS + PFW_SELECT_FNAME },     \
	{ "rank", 'r', "LIST", "ranks: 0,8-15", SELECT_ARGS + PFW_SELECT_RANK },                   \
	{ "pid", 0, "LIST", "processes", SELECT_ARGS + PFW_SELECT_PID },                           \
	{ "tid", 0, "LIST", "threads", SELECT_ARGS + PFW_SELECT_TID },                             \
	{ "step", 0, "LIST", "what belongs to these steps", SELECT_ARGS + PFW_SELECT_STEP },       \
	{ "min-dur", 0, "TIME", "spans of this length or more: 5ms",                               \
	  SELECT_ARGS + PFW_SELECT_MIN_DUR },                                                      \
	{ "where", 'w', "EXPR", "an expression over any field: dur>1ms && args.fname=~\"\\.npz$\"",  \
	  SELECT_ARGS + PFW_SELECT_WHERE }
/* clang-format on */

/* Take the option that cli_next() has returned.  Return 1, 0 where it is none of these, -1 after
 * saying what is wrong with it. */
int select_args_take(struct pfw_select *select, const struct cli_args *args, int option);

/* pfw_select_use_indexes(), saying in one line which indexes were passed over, unless `quiet`: that is
 * no problem of the traces.  0 or -ENOMEM. */
int select_args_use_indexes(struct pfw_select *select, const struct cli_command *command,
			    struct pfw_traces *traces, bool quiet);

/* pfw_select_resolve(), saying what is wrong.  CLI_OK or CLI_USAGE; 130 where it was stopped. */
int select_args_resolve(struct pfw_select *select, const struct cli_command *command,
			const struct pfw_traces *traces, const struct pfw_extent_options *options);

#endif
