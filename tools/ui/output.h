/* tools/ui/output.h - where results go: standard output, or a file that appears complete. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include "ui/cli.h"

struct output {
	const struct cli_command *command;
	FILE *file;
	const char *path; /* NULL: standard output */
	char *temporary;  /* next to `path`, renamed at the end; NULL: written in place */
	mode_t mode;	  /* permissions, less the umask; 0: 0666 */
	bool force;
	bool failed; /* a write failed; the message is printed */
	bool gone;   /* the reader of standard output has closed it */
};

/* Let the output have at most the permissions of the files that it is made from. */
void output_set_mode(struct output *output, mode_t mode);

/* Whether output_open() would refuse the name, before all the work whose result goes there.
 * CLI_OK, or CLI_USAGE after a message. */
int output_check(const struct cli_command *command, const char *path, bool force);

/* Open it.  path NULL or "-" is standard output; devices and pipes are written in place; any other
 * file that exists is refused without `force`.  Return CLI_OK, or CLI_USAGE after a message. */
int output_open(struct output *output, const struct cli_command *command, const char *path,
		bool force);

/* Return 0, or -EIO after an error message; no message if the reader is gone (output->gone). */
int output_write(struct output *output, const void *data, size_t bytes);

/* Flush.  Return as output_write() does. */
int output_flush(struct output *output);

/* Close, and rename the file to its name.  Return `status`, or CLI_USAGE after an error message. */
int output_finish(struct output *output, int status);

/* Close without a result and remove the temporary file. */
void output_abandon(struct output *output);
