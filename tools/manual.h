/* manual.h - `pfw help`: all commands, or one, for the terminal, as a manual page or as README's list.
 */
#ifndef PFW_MANUAL_H
#define PFW_MANUAL_H

#include "cli.h"

/* The words behind `pfw help`: [--format text|man|rst] [COMMAND].  Return the exit status, or -1
 * where argv[*word] is no command. */
int manual_main(int argc, char **argv, int *word);

/* What `pfw --help` prints. */
void manual_print(FILE *out);

#endif
