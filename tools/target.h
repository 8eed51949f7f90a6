/* target.h - what a program on disk is, as far as it decides whether it can be traced. */
#ifndef PFW_TARGET_H
#define PFW_TARGET_H

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
	char path[PATH_MAX];	  /* found on the PATH; of a script: its interpreter's */
	char why[PATH_MAX + 128]; /* one line: what it is; "" where traceable */
};

/* Look at a program as execvp() would find it, and at the interpreter of a script. */
void target_look(struct target *target, const char *program);

/* The program's path as execvp() finds it.  False: nothing there. */
bool target_find(char path[PATH_MAX], const char *program);

#endif
