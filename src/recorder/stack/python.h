/* recorder/stack/python.h - the frames of CPython's interpreter in this thread. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

/* Find the interpreter, of one of the versions 3.10 to 3.15, if the process has one.  Thread:
 * init. */
void pfw_python_init(void);

/* Whether an address is the interpreter's. */
bool pfw_python_has(uint64_t address);

/* Write at most `room` frames of this thread, innermost first: their number.  A longer stack's last
 * frame says that it is cut.  `careful`: a signal may have come while the interpreter changed them.
 * Thread: app.  Signal: safe. */
unsigned pfw_python_frames(uint64_t *frame, unsigned room, bool careful);
