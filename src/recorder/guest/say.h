/* recorder/guest/say.h - the recorder's messages on standard error, one line each.
 *
 * Room recorder/guest: how the recorder lives in somebody else's process without being noticed: its
 * messages, its file descriptors (own_fds.h) and its threads (thread.h).  It may use common only.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* PFW_QUIET. */
void pfw_say_quiet(bool quiet);

/* Until pfw_say_into(NULL, 0): lines that the calling thread says go into `out` instead, each with
 * its '\n'.  Thread: one at a time. */
void pfw_say_into(char *out, size_t size);

/* Print "pfw: LINE" by one write; works in a thread with its own descriptor table, too.
 * Thread: any.  Signal: safe. */
void pfw_say(const char *line);

/* Print before, number and after as one line.  Thread: any.  Signal: safe. */
void pfw_say_number(const char *before, uint64_t number, const char *after);
