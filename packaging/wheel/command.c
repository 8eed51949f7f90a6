/* command.c - the command of a wheel: all of it is in libpfwread.so.1, which has most of that code anyway.
 *
 * Else a wheel would have that code twice.  The library lies in the package, which no search path of the
 * dynamic linker knows: the version of Python is in its name.
 */
#include <dlfcn.h>
#include <stdio.h>

#include "ui/cli.h"

int main(int argc, char **argv)
{
	char libraries[PATH_MAX], prefix[PATH_MAX], path[PATH_MAX + 32];
	int (*command)(int, char **) = NULL;
	void *library;

	if (!cli_find_libraries(libraries, prefix)) {
		fputs("pfw: its package is nowhere: install pfwtrace again\n", stderr);
		return CLI_USAGE;
	}
	snprintf(path, sizeof(path), "%s/libpfwread.so.1", libraries);
	library = dlopen(path, RTLD_NOW);
	if (library)
		*(void **)&command = dlsym(library, "pfw_read_command");
	if (!command) { /* dlerror() names the library that is missing, maybe not ours */
		fprintf(stderr, "pfw: %s: install that library, or pfwtrace again\n", dlerror());
		return CLI_USAGE;
	}
	return command(argc, argv);
}
