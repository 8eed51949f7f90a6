/* launch.h - run a program as a child, as if nobody stood between it and the shell. */
#ifndef PFW_LAUNCH_H
#define PFW_LAUNCH_H

/*
 * Run argv with this process's environment and wait for its end.  Signals sent to us alone are
 * passed on; those of the terminal reach the child anyway, which stays in our process group; when
 * it stops, we stop.  Return 0 with *status as wait() gives it, or the -errno of fork or exec.
 */
int launch(char *const *argv, int *status);

#endif
