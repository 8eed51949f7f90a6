/* tools/run/launchers.c - launchers that do not pass our environment on.
 *
 * `pfw run` in front of such a launcher would trace the launcher and not the program.
 */
#include <stdio.h>

#include "common/base/text.h"
#include "run/run.h"
#include "share/executable.h"
#include "ui/cli.h"

/* One launcher. */
struct outside {
	const char *name;
	const char *letters; /* short options whose value is the next word */
	const char *verbs;   /* first operands that are not the program: run, exec */
	int operands;	     /* number of operands before the program: an image, a pod */
	const char *advice;  /* printed if no command line can be suggested */
};

static const struct outside outsides[] = {
	{ "srun", "nNcptAJwxoeiDGCqdmMLBHrSTW", NULL, 0, "srun [options] pfw run PROGRAM" },
	{ "sbatch", NULL, NULL, 0, "put pfw run in front of the program inside the batch script" },
	{ "salloc", NULL, NULL, 0, "salloc [options], then in it: srun pfw run PROGRAM" },
	{ "docker", "eivwupmhlcan", "run exec", 1, "docker run [options] IMAGE pfw run PROGRAM" },
	{ "podman", "eivwupmhlcan", "run exec", 1, "podman run [options] IMAGE pfw run PROGRAM" },
	{ "nerdctl", "eivwupmhlcan", "run exec", 1, "nerdctl run [options] IMAGE pfw run PROGRAM" },
	{ "apptainer", "BHWS", "exec run", 1, "apptainer exec [options] IMAGE pfw run PROGRAM" },
	{ "singularity", "BHWS", "exec run", 1,
	  "singularity exec [options] IMAGE pfw run PROGRAM" },
	{ "kubectl", NULL, NULL, 0,
	  "put pfw run in front of the program in the container's command" },
};

/* The position of the program in words, or 0.  The word counts only if such a program exists: these
 * launchers' options are too irregular to parse. */
static int find_program(const struct outside *outside, int count, char *const *words)
{
	int skip = outside->operands + (outside->verbs != NULL);
	char path[PATH_MAX];

	for (int i = 1; i < count; i++) {
		const char *word = words[i];

		if (strcmp(word, "--") == 0)
			return i + 1 + skip < count ? i + 1 + skip : 0;
		if (word[0] == '-' && word[1] != '-' && word[1] && !word[2] && outside->letters &&
		    strchr(outside->letters, word[1])) {
			/* docker's -it, -i and -t take no value; for other launchers -i may take
			 * one. */
			i += !(outside->operands && strchr("it", word[1]));
			continue;
		}
		if (word[0] == '-')
			continue;
		if (skip-- > 0)
			continue;
		return target_find(path, word) || outside->operands ? i : 0;
	}
	return 0;
}

/* Print the words with `pfw run` inserted before words[at]. */
static void say_line(int count, char *const *words, int at)
{
	char line[4096];
	size_t used = 0;

	for (int i = 0; i < count && used < sizeof(line); i++)
		used += (size_t)snprintf(line + used, sizeof(line) - used, "%s%s%s", i ? " " : "",
					 i == at ? "pfw run " : "", cli_name(words[i]));
	cli_error("run", "%s starts programs elsewhere, where this run cannot follow; instead: %s",
		  cli_name(words[0]), line);
}

bool run_refuse(int count, char *const *words)
{
	const char *name = pfw_text_base(words[0]);

	for (size_t i = 0; i < CLI_ARRAY_LEN(outsides); i++) {
		int at;

		if (strcmp(name, outsides[i].name) != 0)
			continue;
		at = outsides[i].letters ? find_program(&outsides[i], count, words) : 0;
		if (at)
			say_line(count, words, at);
		else
			cli_error("run",
				  "%s starts programs elsewhere, where this run cannot follow; "
				  "instead: %s",
				  name, outsides[i].advice);
		return true;
	}
	return false;
}
