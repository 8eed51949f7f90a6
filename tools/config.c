/* config.c - `pfw config`: the variables and what they are now, and what to build with. */
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli.h"
#include "config_table.h"

extern char **environ;

enum { OPTION_FORMAT = 256, OPTION_CFLAGS, OPTION_LIBS, OPTION_PRELOAD, OPTION_CMAKE, OPTION_END };

static const struct cli_option options[] = {
	{ "format", 0, "text|ndjson|rst", "a table, one JSON object a variable, or README's table",
	  OPTION_FORMAT },
	{ "cflags", 0, NULL, "print what the compiler needs to find pfw/pfw.h", OPTION_CFLAGS },
	{ "libs", 0, NULL, "print what the linker needs for libpfw", OPTION_LIBS },
	{ "preload", 0, NULL, "print the path of libpfw_preload.so, for LD_PRELOAD",
	  OPTION_PRELOAD },
	{ "cmake-dir", 0, NULL,
	  "print the directory for CMake's find_package(pfw): -Dpfw_DIR=", OPTION_CMAKE },
	{ 0 },
};

/* The directory that holds lib/ and include/: two up from the preload object.  False: not found. */
static bool find_prefix(const struct cli_command *command, char *preload, char *prefix)
{
	if (!cli_find_preload(preload, PATH_MAX)) {
		cli_error(command->name, "libpfw_preload.so is neither in ../lib beside pfw nor in "
					 "/usr/lib or /usr/local/lib");
		return false;
	}
	strcpy(prefix, preload);
	*strrchr(prefix, '/') = '\0';
	*strrchr(prefix, '/') = '\0';
	return true;
}

/* Weak references, and a library named before the sources, are none that --as-needed counts. */
#define LINK_LIBPFW "-Wl,--push-state,--no-as-needed -lpfw -Wl,--pop-state"

static void print_place(int option, const char *preload, const char *prefix)
{
	if (option == OPTION_PRELOAD)
		puts(preload);
	else if (option == OPTION_CFLAGS)
		printf("-I%s/include\n", prefix);
	else if (option == OPTION_CMAKE)
		printf("%s/lib/cmake/pfw\n", prefix);
	else
		printf("-L%s/lib -Wl,-rpath,%s/lib " LINK_LIBPFW "\n", prefix, prefix);
}

/* A line for each option that has been given, in the order of the table. */
static int print_places(const struct cli_command *command, const bool *wanted)
{
	char preload[PATH_MAX], prefix[PATH_MAX];

	if (!find_prefix(command, preload, prefix))
		return CLI_PROBLEMS;
	for (int option = OPTION_CFLAGS; option < OPTION_END; option++) {
		if (wanted[option - OPTION_CFLAGS])
			print_place(option, preload, prefix);
	}
	return CLI_OK;
}

static int config(const struct cli_command *command, int argc, char **argv)
{
	bool wanted[OPTION_END - OPTION_CFLAGS] = { false }, any = false;
	int format = CLI_TEXT, option, status;
	struct cli_args args;

	cli_args_init(&args, command, argc, argv);
	while ((option = cli_next(&args)) >= 0) {
		if (option != OPTION_FORMAT)
			any = wanted[option - OPTION_CFLAGS] = true;
		else if ((format = cli_format(command, args.value, 3)) < 0)
			return CLI_USAGE;
	}
	if (option != CLI_DONE)
		return cli_ended(&args, option);
	if (args.operands) {
		cli_error(command->name, "%s: no operand is wanted", cli_name(argv[0]));
		return CLI_USAGE;
	}
	if (any)
		status = print_places(command, wanted);
	else
		status = config_print_table(stdout, environ, (enum cli_format)format);
	return cli_finish(stdout, command, status);
}

const struct cli_command cli_config = {
	.name = "config",
	.operands = "",
	.summary = "List the variables, what they mean and what they are now",
	.options = options,
	.failure = CLI_USAGE,
	.main = config,
	.details = "exit status: 0 ok, 1 a variable has a bad value or an unknown name\n",
};
