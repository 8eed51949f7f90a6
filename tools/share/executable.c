/* tools/share/executable.c - whether a program on disk can be traced; see executable.h. */
#include "share/executable.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "common/base/program.h"
#include "common/base/text.h"
#include "ui/cli.h"

static bool is_program(const char *path)
{
	struct stat st;

	return stat(path, &st) == 0 && S_ISREG(st.st_mode) && access(path, X_OK) == 0;
}

bool target_find(char path[PATH_MAX], const char *program)
{
	const char *list = getenv("PATH");
	struct stat st;

	if (strchr(program, '/'))
		return (size_t)snprintf(path, PATH_MAX, "%s", program) < PATH_MAX &&
		       stat(path, &st) == 0;
	for (const char *at = list ? list : "/bin:/usr/bin"; *program; at++) {
		size_t bytes = strcspn(at, ":");

		if ((size_t)snprintf(path, PATH_MAX, "%.*s%s%s", (int)bytes, at, bytes ? "/" : "",
				     program) < PATH_MAX &&
		    is_program(path))
			return true;
		at += bytes;
		if (*at == '\0')
			break;
	}
	return false;
}

static void judge(struct target *target, enum target_state state, const char *what)
{
	target->state = state;
	snprintf(target->why, sizeof(target->why), "%s is %s", cli_name(target->path), what);
}

/* Put the interpreter of a script into target->path; `line` is what the script has after #!. */
static bool find_interpreter(struct target *target, const char *line)
{
	char first[PFW_PROGRAM_LINE], second[PFW_PROGRAM_LINE];
	int count = sscanf(line, " %255s %255s", first, second);

	if (count < 1)
		return false;
	if (count == 2 && strcmp(pfw_text_base(first), "env") == 0 && second[0] != '-')
		return target_find(target->path, second);
	return target_find(target->path, first);
}

static void look_inside(struct target *target, int depth)
{
	char line[PFW_PROGRAM_LINE];
	enum pfw_program program = pfw_program_look(target->path, line);

	if (program == PFW_PROGRAM_SCRIPT && depth > 0 && find_interpreter(target, line))
		look_inside(target, depth - 1);
	else if (pfw_program_why(program))
		judge(target,
		      program == PFW_PROGRAM_STATIC	  ? TARGET_STATIC
		      : program == PFW_PROGRAM_PRIVILEGED ? TARGET_SETUID
							  : TARGET_FOREIGN,
		      pfw_program_why(program));
	else if (program == PFW_PROGRAM_FITS && geteuid() != 0 &&
		 getxattr(target->path, "security.capability", NULL, 0) > 0)
		judge(target, TARGET_SETUID,
		      "a program with capabilities: the linker ignores LD_PRELOAD for it");
}

void target_look(struct target *target, const char *program)
{
	*target = (struct target){ .state = TARGET_TRACEABLE };
	if (!target_find(target->path, program)) {
		target->state = TARGET_NOT_FOUND;
		snprintf(target->why, sizeof(target->why), "%s: %s", cli_name(program),
			 strchr(program, '/') ? "no such file" : "not found on the PATH");
		return;
	}
	if (!is_program(target->path)) {
		judge(target, TARGET_NOT_EXECUTABLE, "no executable file");
		return;
	}
	look_inside(target, 4); /* the kernel follows 4 interpreters */
}
