/* tools/manual.h - `pfw help`: prints help, manual pages and docs/commands.rst. */
#pragma once

#include "ui/cli.h"

/* The command of that name, or NULL. */
const struct cli_command *manual_find(const char *name);

/* Take the words after `pfw help`: [--format text|man|rst] [COMMAND].  Return the exit status, or
 * -1 if argv[*word] is no command. */
int manual_main(int argc, char **argv, int *word);

/* Print the text of `pfw --help`. */
void manual_print(FILE *out);
