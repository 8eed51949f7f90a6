/* tools/manual.c - `pfw help`: help and manual pages made from the command tables; see manual.h. */
#include "manual.h"

#include <errno.h>
#include <string.h>

#include "pfw/pfw.h"

static const char about[] = "Record what a program does with its time, and analyse the records.";
static const char more[] =
	"`pfw COMMAND --help` describes a command; `pfw help --format man COMMAND` prints\n"
	"its manual page.\n"
	"The Python package adds `pfw sql`, `pfw view` and `pfw compat`.\n"
	"Begin with `pfw run PROGRAM`.\n"
	"exit status: 0 ok, 1 problems found, 2 usage or input error; of `run`, that of\n"
	"the program\n";

void manual_print(FILE *out)
{
	fprintf(out, "usage: pfw COMMAND [options] ...\n\n%s\n\ncommands:\n", about);
	for (const struct cli_command *const *command = cli_commands; *command; command++) {
		fprintf(out, "  %-10s ", (*command)->name);
		cli_wrapped(out, (*command)->summary, 13, 13, CLI_WIDTH);
	}
	fprintf(out, "\n%s", more);
}

/* ---- manual pages ---- */

/* Escape a text for roff; \- can be copied as a minus sign. */
static void put_roff(FILE *out, const char *text)
{
	bool start = true;

	for (; *text; text++) {
		if (start && (*text == '.' || *text == '\''))
			fputs("\\&", out);
		if (*text == '\\')
			fputs("\\e", out);
		else if (*text == '-')
			fputs("\\-", out);
		else
			fputc(*text, out);
		start = *text == '\n';
	}
}

static void put_title(FILE *out, const char *name, const char *command)
{
	fprintf(out, ".TH \"%s\" 1 \"\" \"pfw %s\" \"pfw\"\n.SH NAME\n", name, PFW_VERSION);
	put_roff(out, name);
	fputs(" \\- ", out);
	put_roff(out, command);
	fputc('\n', out);
}

static void man_option(FILE *out, const struct cli_option *row)
{
	fputs(".TP\n\\fB", out);
	if (row->letter)
		fprintf(out, "\\-%c\\fR, \\fB", row->letter);
	fputs("\\-\\-", out);
	put_roff(out, row->name);
	fputs("\\fR", out);
	if (row->argument) {
		fputs(" \\fI", out);
		put_roff(out, row->argument);
		fputs("\\fR", out);
	}
	fputc('\n', out);
	put_roff(out, row->help);
	fputc('\n', out);
}

static void man_command(FILE *out, const struct cli_command *command)
{
	char name[64];

	snprintf(name, sizeof(name), "pfw-%s", command->name);
	put_title(out, name, command->summary);
	fprintf(out, ".SH SYNOPSIS\n\\fBpfw %s\\fR [options] ", command->name);
	put_roff(out, command->operands);
	fputs("\n.SH OPTIONS\n", out);
	for (const struct cli_option *row = command->options; row->name; row++)
		man_option(out, row);
	man_option(out, &cli_option_help);
	if (command->details) {
		/* Keep the line breaks, since details contain tables and examples. */
		fputs(".SH DESCRIPTION\n.nf\n", out);
		put_roff(out, command->details);
		fputs(".fi\n", out);
	}
	fputs(".SH SEE ALSO\n\\fBpfw\\fR(1)\n", out);
}

static void man_all(FILE *out)
{
	put_title(out, "pfw", about);
	fputs(".SH SYNOPSIS\n\\fBpfw\\fR COMMAND [options] ...\n.SH COMMANDS\n", out);
	for (const struct cli_command *const *command = cli_commands; *command; command++) {
		fprintf(out, ".TP\n\\fBpfw\\-%s\\fR(1)\n", (*command)->name);
		put_roff(out, (*command)->summary);
		fputc('\n', out);
	}
	fputs(".SH DESCRIPTION\n.nf\n", out);
	put_roff(out, more);
	fputs(".fi\n", out);
}

/* ---- docs/commands.rst ---- */

static void rst_all(FILE *out)
{
	fputs("::\n\n", out);
	for (const struct cli_command *const *command = cli_commands; *command; command++)
		fprintf(out, "    pfw %-10s  %s\n", (*command)->name, (*command)->summary);
}

/* ---- the command ---- */

const struct cli_command *manual_find(const char *name)
{
	for (const struct cli_command *const *command = cli_commands; *command; command++) {
		if (strcmp((*command)->name, name) == 0)
			return *command;
	}
	return NULL;
}

/* The format's index, or -1 after a message. */
static int find_format(const char *name)
{
	static const char *const names[] = { "text", "man", "rst" };

	for (int i = 0; i < (int)CLI_ARRAY_LEN(names); i++) {
		if (name && strcmp(name, names[i]) == 0)
			return i;
	}
	cli_error("help", "--format %s is none of text, man, rst", name ? cli_name(name) : "");
	return -1;
}

int manual_main(int argc, char **argv, int *word)
{
	const struct cli_command *command = NULL;
	int format = 0, next = 0;

	if (next < argc && strcmp(argv[next], "--format") == 0) {
		format = find_format(next + 1 < argc ? argv[next + 1] : NULL);
		if (format < 0)
			return CLI_USAGE;
		next += 2;
	}
	if (next < argc) {
		command = manual_find(argv[next]);
		*word = next;
		if (!command)
			return -1;
	}
	if (format == 2 && command)
		return cli_error("help", "--format rst is a list of all commands, not of one");
	if (command)
		(format ? man_command : cli_help)(stdout, command);
	else
		(format == 2 ? rst_all : format ? man_all : manual_print)(stdout);
	return fflush(stdout) == 0 || errno == EPIPE ? CLI_OK : CLI_USAGE;
}
