/* launcher.c - stands where a test looks for a program X of another processor, and runs .real/X by
 * the emulator.
 *
 * A program of this machine, linked statically: LD_PRELOAD is for the emulated program, and no
 * linker of this machine may look at it.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

int main(int argc, char **argv)
{
	static char self[4096], program[4096 + sizeof("/.real")], *name;
	char **words = calloc((size_t)argc + 8, sizeof(*words));
	ssize_t bytes = readlink("/proc/self/exe", self, sizeof(self) - 1);
	int count = 0;

	if (bytes < 0 || !words)
		return 125;
	name = strrchr(self, '/');
	snprintf(program, sizeof(program), "%.*s/.real%s", (int)(name - self), self, name);
	words[count++] = EMULATOR;
	words[count++] = "-L";
	words[count++] = ROOT;
	words[count++] = "-0";
	words[count++] = argc ? argv[0] : program;
	words[count++] = program;
	for (int i = 1; i < argc; i++)
		words[count++] = argv[i];
	execv(EMULATOR, words);
	perror(EMULATOR);
	return 125;
}
