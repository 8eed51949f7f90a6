/* tools/partial.h - `pfw index --partial`: one file that answers for many traces without them. */
#pragma once

#include "ui/cli.h"

struct partial_options {
	const struct cli_command *command;
	const char *out; /* -o */
	const char *as;	 /* --as: the directory in the names of traces; NULL: where they are */
	bool quiet, all_runs;
	unsigned jobs;
	int format;
};

/* Reduce these traces and partials to one partial.  The exit status.  Thread: main. */
int partial_make(const struct partial_options *options, char **operand, int count);
