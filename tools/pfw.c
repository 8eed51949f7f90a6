/* pfw.c - the `pfw` command: finds the subcommand and runs it. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli.h"
#include "pfw/pfw.h"

/* What other tools call what we have under another name. */
static const struct {
	const char *theirs, *ours;
} aliases[] = {
	{ "record", "run" },	 { "stats", "table" },	 { "diff", "compare" },
	{ "convert", "export" }, { "merge", "compact" },
};

static const struct cli_command *const commands[] = { &cli_run,	     &cli_validate, &cli_repair,
						      &cli_doctor,   &cli_config,   &cli_calls,
						      &cli_schedule, &cli_ctl,	    &cli_query,
						      &cli_index,    &cli_table };

static const struct cli_command *find_command(const char *name)
{
	for (size_t i = 0; i < CLI_ARRAY_LEN(commands); i++) {
		if (strcmp(commands[i]->name, name) == 0)
			return commands[i];
	}
	return NULL;
}

static void print_help(FILE *out)
{
	fputs("usage: pfw COMMAND [options] ...\n\n"
	      "Record what a program does with its time, and read such records.\n\ncommands:\n",
	      out);
	for (size_t i = 0; i < CLI_ARRAY_LEN(commands); i++)
		fprintf(out, "  %-10s %s\n", commands[i]->name, commands[i]->summary);
	fputs("\n`pfw COMMAND --help` says more.  Begin with `pfw run PROGRAM`.\n"
	      "exit status: 0 ok, 1 problems found, 2 usage or input error; `run` passes its\n"
	      "program's on\n",
	      out);
}

/* `pfw X` is `pfw-X` where that is on the PATH.  Returns only where it is not. */
static void run_external(char **argv)
{
	char name[256], *word = argv[0];

	if (strchr(argv[0], '/') ||
	    (size_t)snprintf(name, sizeof(name), "pfw-%s", argv[0]) >= sizeof(name))
		return;
	argv[0] = name;
	execvp(name, argv);
	argv[0] = word;
	if (errno == ENOENT)
		return;
	cli_error(NULL, "%s cannot be run: %s", cli_name(name), strerror(errno));
	exit(CLI_USAGE);
}

static int unknown(const char *word)
{
	const char *names[CLI_ARRAY_LEN(commands) + 1] = { NULL };
	const char *nearest;

	for (size_t i = 0; i < CLI_ARRAY_LEN(aliases); i++) {
		if (strcmp(word, aliases[i].theirs) == 0 && find_command(aliases[i].ours)) {
			cli_error(NULL, "there is no command %s: it is called %s here", word,
				  aliases[i].ours);
			return CLI_USAGE;
		}
	}
	for (size_t i = 0; i < CLI_ARRAY_LEN(commands); i++)
		names[i] = commands[i]->name;
	nearest = cli_nearest(word, names);
	if (nearest)
		cli_error(NULL, "there is no command %s; did you mean %s?", cli_name(word),
			  nearest);
	else
		cli_error(NULL,
			  "there is no command %s, and no pfw-%s on the PATH; `pfw --help` "
			  "lists what there is",
			  cli_name(word), cli_name(word));
	return CLI_USAGE;
}

int main(int argc, char **argv)
{
	const struct cli_command *command;

	if (argc < 2) {
		print_help(stderr);
		return CLI_USAGE;
	}
	if (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0 ||
	    (strcmp(argv[1], "help") == 0 && argc == 2)) {
		print_help(stdout);
		return fflush(stdout) == 0 ? CLI_OK : CLI_USAGE;
	}
	if (strcmp(argv[1], "--version") == 0) {
		puts("pfw " PFW_VERSION);
		return fflush(stdout) == 0 ? CLI_OK : CLI_USAGE;
	}
	if (strcmp(argv[1], "help") == 0) {
		command = find_command(argv[2]);
		if (!command)
			return unknown(argv[2]);
		cli_help(stdout, command);
		return CLI_OK;
	}
	if (argv[1][0] == '-') {
		cli_error(NULL, "there is no option %s; `pfw --help` lists the commands",
			  cli_name(argv[1]));
		return CLI_USAGE;
	}
	command = find_command(argv[1]);
	if (command)
		return command->main(command, argc - 2, argv + 2);
	run_external(argv + 1);
	return unknown(argv[1]);
}
