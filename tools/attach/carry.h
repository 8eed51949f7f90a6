/* attach/carry.h - takes the recorder to where a process of another root (a container) can load it. */
#pragma once

#include <stddef.h>

struct tracee;

/* The copy, while the process has not loaded it. */
struct carried {
	int directory;	 /* in the process's root; -1 = there is none */
	char inside[64]; /* its path as the process sees it */
	char name[40];
};

/* Copy the recorder into a directory of the process's root from which code can be loaded.  0, or -1 and
 * tracee->why. */
int carry_in(struct carried *carried, struct tracee *tracee, const char *recorder);

/* Remove the copy; what the process has loaded stays. */
void carry_out(struct carried *carried);
