/* ui/host.h - the host: a program that runs a command in its own process, and gets the command's rows
 * and messages.
 *
 * libpfwread.so.1 does (src/read/tables.c), and so does `pfw report`.  The command then writes to
 * no stream, draws no progress bar, catches no signal and leaves no index.
 */
#pragma once

#include "ui/cli.h"
#include "ui/grid.h"

struct host {
	void *user;
	/* A message, instead of standard error. */
	void (*say)(void *user, const char *text);
	/* Set by anybody, in place of a signal: the command ends with an error. */
	const _Atomic bool *stop;
	/* The rows of grid_print(), instead of standard output. */
	void (*rows)(void *user, const struct grid *grid, const char *section);
	/* Whether `pfw table` may read all lines for something that is in no index, or else has no
	 * rows; NULL: it may. */
	bool (*lines)(void *user, const char *lacks);
};

/* The host of the command that this thread works for; NULL: the process is the command's. */
extern _Thread_local const struct host *cli_host;

/* The words of a command, which are not copied; all zero: none. */
struct host_words {
	const char **word;
	size_t count, room;
	bool failed; /* no memory for some word */
};

void host_word(struct host_words *words, const char *word);

/* The first `count` words of a list, or those before NULL. */
void host_list(struct host_words *words, const char *const *word, size_t count);

/* Run a command with a host; NULL: it prints as if the process were its own.  Its exit status, or
 * CLI_USAGE after a message.  The list of words is freed. */
int host_run(const struct host *host, const struct cli_command *command, struct host_words *words);
