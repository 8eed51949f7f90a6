/* output.h - where a command's results go: standard output, or a file that is whole or not there. */
#ifndef PFW_OUTPUT_H
#define PFW_OUTPUT_H

#include <stdbool.h>
#include <stddef.h>

#include "cli.h"

struct output {
	const struct cli_command *command;
	FILE *file;
	const char *path; /* NULL: standard output */
	char *temporary;  /* beside `path`, renamed at the end; NULL: written in place */
	bool force;
	bool failed; /* something could not be written, and that was said */
	bool gone;   /* whoever read standard output has what it wants */
};

/*
 * Open it.  path NULL or "-": standard output; a device or a pipe is written as it is; any other
 * file that exists is refused without `force`.  CLI_OK, or CLI_USAGE after saying why.
 */
int output_open(struct output *output, const struct cli_command *command, const char *path,
		bool force);

/* 0, or -EIO: after saying why, or silently where nobody reads on (output->gone). */
int output_write(struct output *output, const void *data, size_t bytes);

/* What was written so far is to be seen.  As output_write(). */
int output_flush(struct output *output);

/* The end of all: the file gets its name.  `status`, or CLI_USAGE after saying what went wrong. */
int output_finish(struct output *output, int status);

/* The end without a result: nothing is left behind. */
void output_abandon(struct output *output);

#endif
