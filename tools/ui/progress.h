/* tools/ui/progress.h - the progress bar of a command on standard error, if that is a terminal. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

/* Start the bar if standard error is a terminal, unless `quiet`.  If the command prints results
 * meanwhile (`prints`), only if standard output is no terminal.  The bar appears after half a
 * second.  There is one bar a process; `what` is borrowed.  Thread: one at a time, as all here. */
void progress_begin(const char *what, bool quiet, bool prints);

/* Report `done` of `all` bytes (0: unknown).  Draws at most ten times a second. */
void progress_show(uint64_t done, uint64_t all);

/* The same for struct pfw_pass; `user` is ignored. */
void progress_of_pass(void *user, uint64_t done, uint64_t all);

/* Erase the bar before other text is written to the terminal, and at the end: cli_error(),
 * cli_finish() and stop_end() call this.  The next progress_show() draws it again. */
void progress_hide(void);
