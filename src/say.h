/* say.h - the recorder's lines on standard error: one line each, "pfw: " before it. */
#ifndef PFW_SAY_H
#define PFW_SAY_H

#include <stdbool.h>
#include <stdint.h>

/* PFW_QUIET. */
void pfw_say_quiet(bool quiet);

/* Print one line, whole and at once; also from a thread whose descriptor table is its own.
 * Thread: any.  Signal: safe. */
void pfw_say(const char *line);

/* "before NUMBER after": for lines with a figure.  Thread: any.  Signal: safe. */
void pfw_say_number(const char *before, uint64_t number, const char *after);

#endif
