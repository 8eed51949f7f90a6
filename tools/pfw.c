/* tools/pfw.c - the `pfw` command: finds the subcommand and runs it.
 *
 * Room tools: the table of commands, and each command that fits into one file.  It may use every
 * room of tools/ and the store.  Start here, then ui/cli.h, then the file of a command.
 */
#include <malloc.h>
#include <string.h>

#include "manual.h"
#include "pfw/pfw.h"
#include "share/external.h"
#include "ui/cli.h"

/* Other tools' names for our commands. */
static const struct {
	const char *theirs, *ours;
} aliases[] = {
	{ "record", "run" },	 { "stats", "table" },	 { "diff", "compare" },
	{ "convert", "export" }, { "merge", "compact" },
};

const struct cli_command *const cli_commands[] = {
	&cli_run,    &cli_compact,   &cli_index,      &cli_query,    &cli_table,    &cli_overlap,
	&cli_report, &cli_advise,    &cli_compare,    &cli_patterns, &cli_memory,   &cli_counters,
	&cli_export, &cli_anonymise, &cli_symbolize,  &cli_import,   &cli_validate, &cli_repair,
	&cli_doctor, &cli_config,    &cli_calls,      &cli_schedule, &cli_ctl,	    &cli_attach,
	&cli_detach, &cli_top,	     &cli_completion, NULL
};

/* Commands that are programs of the Python package. */
static const struct {
	const char *name, *package;
} in_python[] = { { "compat", "pfwtrace" },
		  { "sql", "'pfwtrace[duckdb]'" },
		  { "view", "'pfwtrace[view]'" } };

static int unknown(const char *word)
{
	const char *names[CLI_ARRAY_LEN(cli_commands)];
	const char *nearest;

	for (size_t i = 0; i < CLI_ARRAY_LEN(aliases); i++) {
		if (strcmp(word, aliases[i].theirs) == 0 && manual_find(aliases[i].ours))
			return cli_error(NULL, "there is no command %s: it is called %s here", word,
					 aliases[i].ours);
	}
	for (size_t i = 0; i < CLI_ARRAY_LEN(cli_commands); i++)
		names[i] = cli_commands[i] ? cli_commands[i]->name : NULL;
	for (size_t i = 0; i < CLI_ARRAY_LEN(in_python); i++) {
		if (strcmp(word, in_python[i].name) != 0)
			continue;
		return cli_error(NULL, "pfw %s is a command of the Python package: pip install %s",
				 word, in_python[i].package);
	}
	nearest = cli_nearest(word, names);
	if (nearest)
		return cli_error(NULL, "there is no command %s; did you mean %s?", cli_name(word),
				 nearest);
	return cli_error(NULL,
			 "there is no command %s, and no pfw-%s on the PATH; `pfw --help` lists "
			 "the commands",
			 cli_name(word), cli_name(word));
}

int main(int argc, char **argv)
{
	const struct cli_command *command;

	/* Large arrays grow without a copy, and return to the system at once; no arena per thread. */
	mallopt(M_MMAP_THRESHOLD, 1 << 20);
	mallopt(M_ARENA_MAX, 2);
	mallopt(M_TRIM_THRESHOLD, 64 << 20); /* the next file's rows reuse this memory */
	if (argc < 2) {
		manual_print(stderr);
		return CLI_USAGE;
	}
	if (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0) {
		manual_print(stdout);
		return fflush(stdout) == 0 ? CLI_OK : CLI_USAGE;
	}
	if (strcmp(argv[1], "--version") == 0) {
		puts("pfw " PFW_VERSION);
		return fflush(stdout) == 0 ? CLI_OK : CLI_USAGE;
	}
	if (strcmp(argv[1], "help") == 0) {
		char option[] = "--help", *asked[] = { argv[0], option, NULL };
		int word = 0, status = manual_main(argc - 2, argv + 2, &word);

		if (status >= 0)
			return status;
		if (word == 0) /* no --format before it */
			external_run(argv[2], asked);
		return unknown(argv[2 + word]);
	}
	if (argv[1][0] == '-')
		return cli_error(NULL, "there is no option %s; `pfw --help` lists the commands",
				 cli_name(argv[1]));
	command = manual_find(argv[1]);
	if (command)
		return command->main(command, argc - 2, argv + 2);
	external_run(argv[1], argv + 1);
	return unknown(argv[1]);
}
