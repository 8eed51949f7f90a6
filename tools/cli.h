/* cli.h - what every command shares: its table of options, help made from it, messages, exit codes.
 *
 * A command is one struct cli_command: name, usage, options with their help.  `--help`, usage and
 * the message for a bad option come from it, so they cannot say something else.
 */
#ifndef PFW_CLI_H
#define PFW_CLI_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

/* What a command ends with; `run` passes its program's status on and uses codes of its own. */
enum cli_exit {
	CLI_OK = 0,
	CLI_PROBLEMS = 1, /* problems or a difference were found */
	CLI_USAGE = 2,	  /* usage or input error */
};

#define CLI_WIDTH 100
#define CLI_ARRAY_LEN(array) (sizeof(array) / sizeof((array)[0]))

/* An option: a row of a table that ends with a row of zeroes. */
struct cli_option {
	const char *name;     /* long, without its dashes */
	char letter;	      /* short, or 0 */
	const char *argument; /* its name for help, or NULL: takes none */
	const char *help;
	int id; /* what cli_next() returns: letter, or a number from 256 for an option without */
};

struct cli_command {
	const char *name;
	const char *operands; /* behind the options in the usage line */
	const char *summary;  /* one line, for the list of commands */
	const char *details;  /* lines for `--help` behind the options; may be NULL */
	const struct cli_option *options;
	bool stops;  /* options end at the first operand, which is a program of its own */
	int failure; /* status for usage errors; 0: CLI_USAGE */
	int (*main)(struct cli_command const *command, int argc, char **argv);
};

extern const struct cli_command cli_run, cli_validate, cli_repair, cli_doctor, cli_config,
	cli_calls, cli_schedule, cli_ctl, cli_query, cli_index, cli_table, cli_completion,
	cli_compact, cli_export, cli_import, cli_overlap, cli_compare, cli_patterns, cli_memory;

/* All of them in the order of their help, then NULL. */
extern const struct cli_command *const cli_commands[];

/* The arguments of a command while they are read. */
struct cli_args {
	const struct cli_command *command;
	int argc;
	char **argv;
	int next;	   /* where reading goes on */
	const char *rest;  /* more letters of a word like -qj4, or NULL */
	const char *value; /* the option's argument */
	int operands;	   /* argv[0..operands) hold the operands once CLI_DONE is returned */
	bool literal;	   /* behind `--` */
	int before;	   /* operands in front of that */
};

enum { CLI_DONE = -1, CLI_BAD = -2, CLI_HELP = -3 };

/*
 * Begin with the words behind the command's name.  argv is put in order: operands to the front;
 * where command->stops, operands are argv[args->next..argc).
 */
void cli_args_init(struct cli_args *args, const struct cli_command *command, int argc, char **argv);

/* The next option's id; CLI_DONE at the end; CLI_HELP after printing help; CLI_BAD after saying
 * what is wrong. */
int cli_next(struct cli_args *args);

/* Have take() take each option: 0, or -1 after saying what is wrong.  Return -1 where the command goes
 * on with the operands, or the status that it ends with. */
int cli_take_options(struct cli_args *args, void *user,
		     int (*take)(void *user, const struct cli_args *args, int option));

/* The value of --NAME as a whole number from `least` to `most`.  Return 0, or -1 after saying what it
 * takes. */
int cli_whole(const struct cli_command *command, const char *name, const char *text, int64_t least,
	      int64_t most, int64_t *number);

/* The value of --jobs; more than `most` is `most`.  As cli_whole(). */
int cli_jobs(const struct cli_command *command, const char *text, unsigned most, unsigned *jobs);

/* The status for what cli_next() ended with: CLI_HELP is CLI_OK, CLI_BAD the command's failure. */
int cli_ended(const struct cli_args *args, int result);

void cli_help(FILE *out, const struct cli_command *command);

/* ---- messages ---- */

/* "pfw NAME: …\n" to standard error; name NULL: "pfw: …". */
__attribute__((format(printf, 2, 3))) void cli_error(const char *name, const char *format, ...);

/* The same about what was passed over in a trace, with its line or byte. */
struct pfw_scan_problem;
void cli_problem(const char *name, const char *path, const struct pfw_scan_problem *problem);

/* The name with control bytes and what is not UTF-8 as \xNN, so that it stays one line.  Returns
 * one of four buffers in turn. */
const char *cli_name(const char *text);

/* Whether to colour what goes to `out`: a terminal, not a dumb one, and NO_COLOR unset. */
bool cli_colours(FILE *out);

enum cli_style { CLI_PLAIN, CLI_BOLD, CLI_RED, CLI_GREEN, CLI_YELLOW, CLI_DIM };
/* The escape sequence of a style where `coloured`, else "". */
const char *cli_style(bool coloured, enum cli_style style);

/* Figures for people: "12,345", "1.2 MiB", "3.42 s".  One of four buffers in turn. */
const char *cli_count(uint64_t number);
const char *cli_bytes(uint64_t bytes);
const char *cli_seconds(int64_t ns);

/* "s" unless the number is one. */
const char *cli_plural(uint64_t number);

/* The entry of `names` (NULL-terminated, `stride` bytes apart) that is nearest to `word`, or NULL
 * where none is near. */
const char *cli_nearest(const char *word, const char *const *names);

enum cli_format { CLI_TEXT, CLI_NDJSON, CLI_RST, CLI_CSV, CLI_TSV, CLI_MD };
/* The format of that name among the first `count`, or -1 after saying what is accepted. */
int cli_format(const struct cli_command *command, const char *name, int count);

/* The same among those of the mask: 1 << CLI_CSV and so on. */
int cli_format_of(const struct cli_command *command, const char *name, unsigned formats);

/* Flush `out`; a write that failed is said and makes the status CLI_USAGE. */
int cli_finish(FILE *out, const struct cli_command *command, int status);

/* ---- where things are ---- */

/* The path of libpfw_preload.so that belongs to this binary, or false. */
bool cli_find_preload(char *path, size_t size);

#endif
