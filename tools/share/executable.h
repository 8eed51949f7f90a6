/* tools/share/executable.h - whether a program on disk can be traced, and why not. */
#pragma once

#include <limits.h>
#include <stdbool.h>

enum target_state {
	TARGET_TRACEABLE,
	TARGET_NOT_FOUND,
	TARGET_NOT_EXECUTABLE,
	TARGET_STATIC,	/* no dynamic linker: nothing can be preloaded */
	TARGET_SETUID,	/* the dynamic linker ignores LD_PRELOAD */
	TARGET_FOREIGN, /* another word size or machine than the preload object */
};

struct target {
	enum target_state state;
	char path[PATH_MAX];	  /* found on the PATH; for a script: its interpreter */
	char why[PATH_MAX + 128]; /* one line; "" if it is traceable */
};

/* Judge a program that execvp() would find; for a script, its interpreter. */
void target_look(struct target *target, const char *program);

/* The path that execvp() would run.  False: there is none. */
bool target_find(char path[PATH_MAX], const char *program);
