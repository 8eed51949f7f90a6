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
	char path[PATH_MAX];
	ssize_t bytes = readlink("/proc/self/exe", path, sizeof(path) - 1);
	char *slash;

	if (bytes < 0)
		return;
	path[bytes] = '\0';
	slash = strrchr(path, '/');
	if (slash && (size_t)snprintf(slash + 1, (size_t)(path + sizeof(path) - slash - 1), "%s",
				      name) < (size_t)(path + sizeof(path) - slash - 1))
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
