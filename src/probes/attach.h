/* attach.h - the wrappers for a program without the preload object: its tables of addresses are
 * rewritten, and put back.
 *
 * Every loaded object (but libc and ourselves) has words in which the dynamic linker has put the
 * addresses of the functions that it calls.  Those that lead to a wrapped call are led to the
 * wrapper, and later to the call again.  Nothing is kept about an object: it is read anew at each
 * look, inside dl_iterate_phdr(), so that one which dlclose() has taken away is never touched.
 */
#ifndef PFW_ATTACH_H
#define PFW_ATTACH_H

#include <stdbool.h>

/*
 * Fill pfw_real and lead the calls that need a wrapper there, in all objects and in those loaded
 * later.  0, or -errno: which has been said in one line.  Thread: app.  Signal: unsafe.
 * Fork: a child has its parent's memory, and so the same.
 */
int pfw_attach(void);

/* Put all back.  Thread: app.  Signal: unsafe. */
void pfw_detach(void);

/* Look for objects loaded since, of which no start-up code has told.  Cheap where there are none.
 * Thread: drain.  Signal: unsafe. */
void pfw_attach_look(void);

/* Around a fork, so that no look is half done in the child; `child`: in it, however it was made.
 * Thread: app. */
void pfw_attach_hold(void);
void pfw_attach_release(bool child);

#endif
