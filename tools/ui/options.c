/* tools/ui/options.c - options and help of all commands; see cli.h. */
#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/units.h"
#include "common/settings/config.h"
#include "ui/cli.h"

#define JOBS_MOST 1024

/* What next_option() returns besides the id of a row. */
enum { DONE = -1, BAD = -2, HELP = -3 };

void cli_args_init(struct cli_args *args, const struct cli_command *command, int argc, char **argv)
{
	*args = (struct cli_args){ .command = command, .argc = argc, .argv = argv };
}

static int bad(const struct cli_args *args, const char *what, const char *word)
{
	cli_error(args->command->name, "%s %s; `pfw %s --help` lists the options", what,
		  cli_name(word), args->command->name);
	return BAD;
}

/* Find a row by its long name (`bytes` of it) or by a unique prefix. */
static const struct cli_option *find_long(const struct cli_args *args, const char *name,
					  size_t bytes)
{
	const struct cli_option *found = NULL;
	int count = 0;

	for (const struct cli_option *row = args->command->options; row->name; row++) {
		if (strncmp(row->name, name, bytes) != 0)
			continue;
		if (row->name[bytes] == '\0')
			return row;
		found = row;
		count++;
	}
	return count == 1 && bytes > 1 ? found : NULL;
}

static const struct cli_option *find_letter(const struct cli_args *args, char letter)
{
	for (const struct cli_option *row = args->command->options; row->name; row++) {
		if (row->letter && row->letter == letter)
			return row;
	}
	return NULL;
}

/* Take the next word as the argument of an option. */
static int next_word(struct cli_args *args, const struct cli_option *row)
{
	if (args->next >= args->argc) {
		cli_error(args->command->name, "--%s needs %s after it", row->name, row->argument);
		return BAD;
	}
	args->value = args->argv[args->next++];
	return row->id;
}

static int long_option(struct cli_args *args, const char *word)
{
	const char *equals = strchr(word, '=');
	size_t bytes = equals ? (size_t)(equals - word) : strlen(word);
	const struct cli_option *row;
	char name[64];
	const char *names[32];
	size_t count = 0;

	if (strcmp(word, "help") == 0) {
		cli_help(stdout, args->command);
		return HELP;
	}
	args->row = row = find_long(args, word, bytes);
	if (row && !equals)
		return row->argument ? next_word(args, row) : row->id;
	if (row && row->argument) {
		args->value = equals + 1;
		return row->id;
	}
	if (row)
		return bad(args, "this option takes no argument:", word - 2);
	snprintf(name, sizeof(name), "%.*s", (int)(bytes < 60 ? bytes : 60), word);
	for (row = args->command->options; row->name && count < CLI_ARRAY_LEN(names) - 1; row++)
		names[count++] = row->name;
	names[count] = NULL;
	if (!cli_nearest(name, names))
		return bad(args, "there is no option", word - 2);
	cli_error(args->command->name, "there is no option --%s; did you mean --%s?",
		  cli_name(name), cli_nearest(name, names));
	return BAD;
}

/* One letter of a word like -qo. */
static int short_option(struct cli_args *args)
{
	const char *at = args->rest;
	const struct cli_option *row = find_letter(args, *at);
	char word[3] = { '-', *at, '\0' };

	if (!row && *at == 'h') {
		cli_help(stdout, args->command);
		return HELP;
	}
	if (!row)
		return bad(args, "there is no option", word);
	args->row = row;
	args->rest = at[1] ? at + 1 : NULL;
	if (!row->argument)
		return row->id;
	if (!args->rest)
		return next_word(args, row);
	args->value = args->rest;
	args->rest = NULL;
	return row->id;
}

/* Return the next option's row->id; DONE at the end; HELP after printing help; BAD
 * after an error message. */
static int next_option(struct cli_args *args)
{
	if (args->rest)
		return short_option(args);
	while (args->next < args->argc) {
		char *word = args->argv[args->next];

		if (args->literal || word[0] != '-' || word[1] == '\0') {
			if (args->command->stops)
				return DONE;
			args->argv[args->operands++] = word;
			args->next++;
			continue;
		}
		/* `pfw run -m pkg`: the program's own words begin here. */
		if (args->command->stops && strcmp(word, "-m") == 0)
			return DONE;
		args->next++;
		if (strcmp(word, "--") == 0) {
			args->literal = true;
			args->before = args->operands;
			continue;
		}
		if (word[1] == '-')
			return long_option(args, word + 2);
		args->rest = word + 1;
		return short_option(args);
	}
	return DONE;
}

/* ---- values ---- */

/* The place of a word in "a|b|c"; -1: it is none of them. */
static int place_in(const char *list, const char *word)
{
	for (int place = 0; *list; place++) {
		size_t bytes = strcspn(list, "|");

		if (strncmp(list, word, bytes) == 0 && !word[bytes])
			return place;
		list += bytes + (list[bytes] == '|');
	}
	return -1;
}

/* The same for the argument of the option, after an error message. */
static int choose(const struct cli_args *args)
{
	const char *list = args->row->argument;
	int place = place_in(list, args->value);
	char words[CLI_VALUES_BYTES], *out = words;

	for (const char *at = list; *at; at++)
		out = stpcpy(out, (const char[3]){ *at == '|' ? ',' : *at, *at == '|' ? ' ' : 0 });
	if (place < 0)
		cli_error(args->command->name, "--%s %s is none of %s", args->row->name,
			  cli_name(args->value), words);
	return place;
}

/* A size, perhaps with its unit: 4KiB. */
static bool is_size(const struct cli_option *row, const char *text, int64_t *number)
{
	uint64_t size;

	if (strcmp(row->argument, "BYTES") != 0 || !pfw_units_size(text, strlen(text), &size) ||
	    size < (uint64_t)row->least || size > (uint64_t)row->most)
		return false;
	*number = (int64_t)size;
	return true;
}

/* The option's value as a whole number.  0, or -1 after saying what it takes. */
static int read_whole(const struct cli_args *args, int64_t least, int64_t most, int64_t *number)
{
	const char *text = args->value, *digits = text + (*text == '-');
	char limit[32] = "";
	char *end;

	errno = 0;
	*number = strtoll(text, &end, 10);
	if (*digits >= '0' && *digits <= '9' && !*end && !errno && *number >= least &&
	    *number <= most)
		return 0;
	if (most < INT32_MAX)
		snprintf(limit, sizeof(limit), " to %" PRId64, most);
	if (least < 0)
		cli_error(args->command->name, "--%s %s: takes a whole number, -1 for no limit",
			  args->row->name, cli_name(text));
	else
		cli_error(args->command->name, "--%s %s: takes a whole number from %" PRId64 "%s",
			  args->row->name, cli_name(text), least, *limit ? limit : " on");
	return -1;
}

/* 0, or -1 after saying what the option takes. */
static int store(const struct cli_args *args, void *user)
{
	static const char formats[] = "text|ndjson|rst|csv|tsv|md"; /* as enum cli_format */
	const struct cli_option *row = args->row;
	void *into = (char *)(row->shared ? args->shared : user) + row->at;
	bool listed = row->argument && strchr(row->argument, '|') && !isupper(*row->argument);
	bool jobs = row->kind == CLI_UNSIGNED && !row->most && !listed;
	int64_t number = listed ? choose(args) : 0;

	if (number < 0)
		return -1;
	if (row->kind == CLI_FLAG)
		*(bool *)into = true;
	else if (row->kind == CLI_WORD)
		*(const char **)into = args->value;
	else if (row->kind == CLI_FORMAT)
		*(int *)into = place_in(formats, args->value);
	else if (!listed && !is_size(row, args->value, &number) &&
		 read_whole(args, jobs ? 1 : row->least, jobs ? INT32_MAX : row->most, &number))
		return -1;
	else if (row->kind == CLI_WHOLE)
		*(int64_t *)into = number;
	else
		*(unsigned *)into = (unsigned)(jobs && number > JOBS_MOST ? JOBS_MOST : number);
	return 0;
}

int cli_take_options(struct cli_args *args, void *user,
		     int (*take)(void *user, const struct cli_args *args, int option))
{
	int option, failure = args->command->failure ?: CLI_USAGE;

	while ((option = next_option(args)) >= 0) {
		if (args->row->kind ? store(args, user) : take(user, args, option))
			return failure;
	}
	return option == DONE ? -1 : option == HELP ? CLI_OK : failure;
}

int cli_read(struct cli_args *args, const struct cli_command *command, int argc, char **argv,
	     void *user, int (*take)(void *user, const struct cli_args *args, int option))
{
	int status;

	cli_args_init(args, command, argc, argv);
	status = cli_take_options(args, user, take);
	if (status >= 0 || !args->operands || *command->operands)
		return status;
	return cli_error(command->name, "%s: the command takes no operand", cli_name(argv[0]));
}

bool cli_pid(const struct cli_command *command, const char *word, int32_t *pid)
{
	char *end;
	long value = strtol(word, &end, 10);

	if (*word >= '1' && *word <= '9' && !*end && value <= INT32_MAX) {
		*pid = (int32_t)value;
		return true;
	}
	cli_error(command->name, "%s is no process id: give a number", cli_name(word));
	return false;
}

/* ---- help ---- */

void cli_wrapped(FILE *out, const char *text, int column, int indent, int width)
{
	while (*text) {
		size_t word = strcspn(text, " ");

		if (column > indent && column + (int)word + 1 > width) {
			fprintf(out, "\n%*s", indent, "");
			column = indent;
		} else if (column > indent) {
			fputc(' ', out);
			column++;
		}
		fprintf(out, "%.*s", (int)word, text);
		column += (int)word;
		text += word;
		text += strspn(text, " ");
	}
	fputc('\n', out);
}

#define OPTION_COLUMN 28

static void print_option(FILE *out, const struct cli_option *row)
{
	char left[80];
	int used = snprintf(left, sizeof(left), "  %c%c%s --%s%s%s", row->letter ? '-' : ' ',
			    row->letter ? row->letter : ' ', row->letter ? "," : " ", row->name,
			    row->argument ? " " : "", row->argument ? row->argument : "");

	fputs(left, out);
	if (used > OPTION_COLUMN - 2)
		fprintf(out, "\n%*s", OPTION_COLUMN, "");
	else
		fprintf(out, "%*s", OPTION_COLUMN - used, "");
	cli_wrapped(out, row->help, OPTION_COLUMN, OPTION_COLUMN, CLI_WIDTH);
}

const struct cli_option cli_option_help = { "help", 'h', NULL, "print this help", .id = 'h' };

void cli_help(FILE *out, const struct cli_command *command)
{
	fprintf(out, "usage: pfw %s [options]%s%s\n\n%s.\n\noptions:\n", command->name,
		*command->operands ? " " : "", command->operands, command->summary);
	for (const struct cli_option *row = command->options; row->name; row++)
		print_option(out, row);
	print_option(out, &cli_option_help);
	if (command->details)
		fprintf(out, "\n%s", command->details);
}

/* ---- the nearest word ---- */

const char *cli_nearest(const char *word, const char *const *names)
{
	const char *nearest = NULL;
	size_t least = SIZE_MAX;

	for (; *names; names++) {
		size_t edits = pfw_edit_distance(word, *names);
		size_t longer = strlen(*names) > strlen(word) ? strlen(*names) : strlen(word);

		/* More edits make another word. */
		if (edits < least && edits * 3 <= longer) {
			least = edits;
			nearest = *names;
		}
	}
	return nearest;
}
