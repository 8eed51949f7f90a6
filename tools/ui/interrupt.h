/* tools/ui/interrupt.h - Ctrl-C for commands that must clean up before they end. */
#pragma once

#include <stdbool.h>

/* Catch SIGINT, SIGTERM and SIGHUP from now on.  Returns a flag that the first one sets; a second
 * one ends the command at once.  Ignored signals (nohup) stay ignored.  With a host, its flag. */
const _Atomic bool *stop_watch(void);

/* If a signal was caught, end by it, as the shell expects. */
void stop_end(void);
