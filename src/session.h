/* session.h - what the preload object's side of the recorder asks of session. */
#ifndef PFW_SESSION_H
#define PFW_SESSION_H

#include <stdbool.h>

/*
 * Read the variables and start, unless that is done already.  `asked`: by pfw_start(), so record
 * also where DFTRACER_ENABLE is not set.  True: recording.  Thread: init, or any (pfw_start).
 */
bool pfw_session_start(bool asked);

#endif
