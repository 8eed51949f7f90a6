/* ui/host.h - who gets what a command says and prints, if a program runs the command in its own process.
 *
 * libpfwread.so.1 does (src/read/tables.c), and so does `pfw report`.  The command then writes to no stream,
 * draws no progress bar, catches no signal and leaves no index.
 */
#ifndef PFW_TOOLS_UI_HOST_H
#define PFW_TOOLS_UI_HOST_H

#include "ui/grid.h"

struct host {
	void *user;
	/* A message, instead of standard error. */
	void (*say)(void *user, const char *text);
	/* Set by anybody, in place of a signal: the command ends with an error. */
	const _Atomic bool *stop;
	/* The rows of grid_print(), instead of standard output. */
	void (*rows)(void *user, const struct grid *grid, const char *section);
};

/* The host of the command that this thread works for; NULL: the process is the command's. */
extern _Thread_local const struct host *cli_host;

#endif
