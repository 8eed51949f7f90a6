/* config_table.h - the variables as a table: for people, for programs, and for README.rst. */
#ifndef PFW_CONFIG_TABLE_H
#define PFW_CONFIG_TABLE_H

#include <stdio.h>

#include "cli.h"

/*
 * Print every row of config.def to out.  CLI_TEXT: names and what is in effect in `environ`, marked
 * '*' where that is set there, with what is wrong.  CLI_NDJSON: the same, an object a line.
 * CLI_RST: the table of README.rst, whatever `environ` holds.
 * Return CLI_OK, or CLI_PROBLEMS where a variable of ours or DFTracer's in `environ` has a bad
 * value, an unknown name, or no effect; the caller checks out for errors of writing.
 */
int config_print_table(FILE *out, char *const *environ, enum cli_format format);

#endif
