/* tools/ui/cli.h - options, help, messages and exit status of every command.
 *
 * Room tools/ui: how all commands talk: options, messages, tables, progress, output files.  It may
 * use src/common and src/store.  Start here: a command is one struct cli_command, from which help,
 * manual page, completion and the message for a bad option are made.  Then grid.h for tables.
 */
#pragma once

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

/* Exit status of a command; `run` passes on the status of its program and has codes of its own. */
enum cli_exit {
	CLI_OK = 0,
	CLI_PROBLEMS = 1, /* problems or a difference were found */
	CLI_USAGE = 2,	  /* usage or input error */
};

#define CLI_WIDTH 80
#define CLI_VALUES_BYTES 2048
#define CLI_ARRAY_LEN(array) (sizeof(array) / sizeof((array)[0]))

/* What becomes of an option, by the type of the member that it sets. */
enum cli_kind {
	CLI_TAKEN,    /* none: take() gets it */
	CLI_FLAG,     /* bool: becomes true */
	CLI_WORD,     /* const char *: the argument, one of those that row->argument lists */
	CLI_WHOLE,    /* int64_t, uint64_t: a number from row->least to row->most */
	CLI_UNSIGNED, /* unsigned, an enum: the same; without limits the place in row->argument, or
		       * threads, at most 1024 */
	CLI_FORMAT,   /* int: enum cli_format, one of those that row->argument lists */
};

/* An option: a row of a table that ends with a row of zeroes. */
struct cli_option {
	const char *name;     /* long, without its dashes */
	char letter;	      /* short, or 0 */
	const char *argument; /* its name for help, or a|b|c for words; NULL: takes none */
	const char *help;
	int id; /* for take() */
	enum cli_kind kind;
	size_t at; /* of the member */
	int64_t least, most;
	bool shared; /* the member is one of args->shared, not of the command's struct */
};

/* The end of a row whose value goes into a member of the command's struct. */
#define CLI_INTO(type, member) \
	.kind = _Generic(((type *)0)->member,     \
			 bool: CLI_FLAG,          \
			 const char *: CLI_WORD,  \
			 int64_t: CLI_WHOLE,      \
			 uint64_t: CLI_WHOLE,     \
			 unsigned: CLI_UNSIGNED,  \
			 int: CLI_FORMAT),        \
	.at = offsetof(type, member)

struct cli_command {
	const char *name;
	const char *operands; /* after the options in the usage line */
	const char *summary;  /* one line, for the list of commands */
	const char *details;  /* lines of `--help` after the options; may be NULL */
	const struct cli_option *options;
	bool stops;  /* options end at the first operand, which is a program of its own */
	int failure; /* status for usage errors; 0: CLI_USAGE */
	/* For completion, where the argument's name does not say it: write what an option takes as
	 * a|b|c; false: nothing is known.  May be NULL. */
	bool (*values)(const char *option, char out[CLI_VALUES_BYTES]);
	int (*main)(struct cli_command const *command, int argc, char **argv);
};

extern const struct cli_command cli_run, cli_validate, cli_repair, cli_doctor, cli_config,
	cli_calls, cli_schedule, cli_ctl, cli_query, cli_index, cli_table, cli_completion,
	cli_compact, cli_export, cli_import, cli_overlap, cli_compare, cli_patterns, cli_memory,
	cli_counters, cli_report, cli_advise, cli_top, cli_anonymise, cli_attach, cli_detach,
	cli_symbolize;

/* All of them in the order of their help, then NULL. */
extern const struct cli_command *const cli_commands[];

/* The arguments of a command during parsing. */
struct cli_args {
	const struct cli_command *command;
	const struct cli_option *row; /* of the option that is taken */
	void *shared;
	int argc;
	char **argv;
	int next;	   /* index of the next word */
	const char *rest;  /* more letters of a word like -qj4, or NULL */
	const char *value; /* the option's argument */
	int operands;	   /* argv[0..operands) hold the operands once all is taken */
	bool literal;	   /* after `--` */
	int before;	   /* operands before `--` */
};

/* Start with the words after the command's name.  Parsing moves operands to the front of argv; if
 * command->stops, operands are argv[args->next..argc). */
void cli_args_init(struct cli_args *args, const struct cli_command *command, int argc, char **argv);

/* Read all options into *user, the command's struct, and args->shared.  take() gets those of no
 * member: it returns 0, or -1 after an error message; it may be NULL if there are none.  Return -1
 * if the command shall go on with the operands, else its exit status. */
int cli_take_options(struct cli_args *args, void *user,
		     int (*take)(void *user, const struct cli_args *args, int option));

/* cli_args_init() and cli_take_options().  Operands are refused if the command has none. */
int cli_read(struct cli_args *args, const struct cli_command *command, int argc, char **argv,
	     void *user, int (*take)(void *user, const struct cli_args *args, int option));

/* Read a process id.  False: it is none; a message has said so. */
bool cli_pid(const struct cli_command *command, const char *word, int32_t *pid);

extern const struct cli_option cli_option_help; /* which every command has */
void cli_help(FILE *out, const struct cli_command *command);

/* Print text from that column on, in lines of `width`, later ones `indent` in. */
void cli_wrapped(FILE *out, const char *text, int column, int indent, int width);

/* ---- messages ---- */

/* "pfw NAME: …\n" to standard error; name NULL: "pfw: …".  Returns CLI_USAGE, with which most
 * commands end then. */
__attribute__((format(printf, 2, 3))) int cli_error(const char *name, const char *format, ...);

/* Replace control characters other than tabs and line ends by '?': parts of messages come from
 * files, and a terminal would obey them. */
void cli_clean(char *text);

/* The same as cli_error() about what was passed over in a trace, with its line or byte. */
struct pfw_scan_problem;
void cli_problem(const char *name, const char *path, const struct pfw_scan_problem *problem);

/* The name as one line of text: control bytes become \xNN, and then non-ASCII bytes as well.
 * Returns one of four static buffers in turn. */
const char *cli_name(const char *text);

/* True if `out` is a terminal with colours and NO_COLOR is unset. */
bool cli_colours(FILE *out);

enum cli_style { CLI_PLAIN, CLI_BOLD, CLI_RED, CLI_GREEN, CLI_YELLOW, CLI_DIM };
/* The escape sequence of a style where `coloured`, else "". */
const char *cli_style(bool coloured, enum cli_style style);

/* Figures for people: "12,345", "1.2 MiB"; a time in a table, "12.345us"; a time in a message,
 * "3ms", "2m 5s".  One of four buffers in turn. */
const char *cli_count(uint64_t number);
const char *cli_bytes(uint64_t bytes);
const char *cli_time(int64_t ns);
/* The same as cli_time(), written to `out`; the bytes. */
#define CLI_FIGURE_BYTES 40
size_t cli_put_time(char out[CLI_FIGURE_BYTES], int64_t ns);
size_t cli_time_bytes(int64_t ns); /* how many it writes */
const char *cli_seconds(int64_t ns);

/* The plural s: "" for one. */
const char *cli_plural(uint64_t number);

/* The entry of `names` (NULL-terminated) nearest to `word`; NULL: over a third of each differs. */
const char *cli_nearest(const char *word, const char *const *names);

enum cli_format { CLI_TEXT, CLI_NDJSON, CLI_RST, CLI_CSV, CLI_TSV, CLI_MD };

/* Whether people read the format, not programs. */
static inline bool cli_for_people(int format)
{
	return format == CLI_TEXT || format == CLI_MD;
}

/* Flush `out`; a failed write is reported and makes the status CLI_USAGE. */
int cli_finish(FILE *out, const struct cli_command *command, int status);

/* ---- where things are ---- */

/* The path of this binary.  False: it is not known. */
bool cli_self(char path[PATH_MAX]);

/* The path of libpfw_preload.so that belongs to this binary, or false. */
bool cli_find_preload(char *path, size_t size);

/* The directory of the libraries, and the one that has include/ and bin/, or false. */
bool cli_find_libraries(char libraries[PATH_MAX], char prefix[PATH_MAX]);

/* The directory of this installation's Python package, for `pfw run`'s PYTHONPATH, or false. */
bool cli_find_site(char *path, size_t size);
