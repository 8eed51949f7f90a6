/* tools/share/external.c - runs pfw-WORD; see external.h. */
#include "share/external.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "ui/cli.h"

/* Run a program in the directory of this binary, where the Python package has some of its own. */
static void run_neighbour(const char *name, char **argv)
{
	char self[PATH_MAX], path[PATH_MAX + 256];

	if (!cli_self(self))
		return;
	snprintf(path, sizeof(path), "%.*s/%s", (int)(strrchr(self, '/') - self), self, name);
	execv(path, argv);
}

void external_run(const char *word, char **argv)
{
	char name[256], *before = argv[0];

	if (strchr(word, '/') ||
	    (size_t)snprintf(name, sizeof(name), "pfw-%s", word) >= sizeof(name))
		return;
	argv[0] = name;
	run_neighbour(name, argv);
	execvp(name, argv);
	argv[0] = before;
	if (errno == ENOENT)
		return;
	cli_error(NULL, "%s cannot be run: %s", cli_name(name), strerror(errno));
	exit(CLI_USAGE);
}
