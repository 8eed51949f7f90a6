/* stop.h - Ctrl-C for commands that have something to put away before they end. */
#ifndef PFW_STOP_H
#define PFW_STOP_H

#include <stdbool.h>

/* Note SIGINT, SIGTERM and SIGHUP from now on instead of ending by them, and return where that can
 * be seen.  A second one ends the command at once.  A signal that is ignored (nohup) stays so. */
const volatile bool *stop_watch(void);

/* Where one was noted: end by it, as the shell expects.  Else returns. */
void stop_end(void);

#endif
