/* live_lines.h - what traced processes have not written yet, behind the lines of their files. */
#ifndef LIVE_LINES_H
#define LIVE_LINES_H

#include <stdbool.h>
#include <stddef.h>

#include "store/pass.h"
#include "store/traces.h"

struct cli_command;
struct pfw_live;

/* Fill in the first two; all else zero. */
struct live_lines {
	const struct cli_command *command;
	struct pfw_traces *traces;
	struct pfw_live **live; /* of each file; NULL: the file is all there is */
	bool any;		/* some file has lines behind it */
	bool missing;		/* some lines are not to be had, which was said */
};

/* Look behind each file: what is being written leaves its blocks, since it is among these lines.  0
 * or -errno.  Thread: main, as all here. */
int live_lines_open(struct live_lines *lines);

/* Hand whole lines over, some at a time, once.  0, or what take() said. */
int live_lines_read(struct live_lines *lines, const volatile bool *stop,
		    int (*take)(void *user, size_t file, const char *text, size_t bytes),
		    void *user);

/* Hand them to a pass that has ended, as further blocks of its.  0, or what it said. */
int live_lines_pass(struct live_lines *lines, const struct pfw_pass *pass);

/* The same, of struct live_lines, for struct pfw_extent_options: a look of its own, so that they can
 * still be read. */
int live_lines_more(void *lines,
		    int (*take)(void *search, size_t file, const char *text, size_t bytes),
		    void *search);

void live_lines_close(struct live_lines *lines);

#endif
