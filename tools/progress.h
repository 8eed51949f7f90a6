/* progress.h - how far a command is, as a bar on standard error; only for somebody who waits there.
 */
#ifndef PFW_PROGRESS_H
#define PFW_PROGRESS_H

#include <stdbool.h>
#include <stdint.h>

/*
 * From now on show it where standard error is a terminal, unless `quiet`; where `prints` (results go
 * to standard output meanwhile), only if that is no terminal.  What is over in half a second shows
 * none.  There is one bar a process, `what` is borrowed.  Thread: one at a time, as all here.
 */
void progress_begin(const char *what, bool quiet, bool prints);

/* So many bytes of all (0: nobody knows how many) are done.  Draws at most ten times a second. */
void progress_show(uint64_t done, uint64_t all);

/* The same for struct pfw_pass; `user` is not looked at. */
void progress_of_pass(void *user, uint64_t done, uint64_t all);

/* Take it away, before anything else is written to the terminal, and at the end: cli_error(),
 * cli_finish() and stop_end() do.  It comes back with the next progress_show(). */
void progress_hide(void);

#endif
