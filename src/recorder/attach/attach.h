/* recorder/attach/attach.h - redirects calls of a program without the preload object.
 *
 * Room recorder/attach: redirects calls in loaded objects, or takes the preload object's slots.  It
 * may use recorder/wrap (the wrappers) and the rooms before it.  Start with attach.c; object.c does
 * the same for a few calls of other libraries.
 *
 * Every loaded object has words into which the dynamic linker writes the addresses of the functions
 * that the object calls.  In all objects but libc and ourselves, the words of wrapped calls are
 * redirected to the wrappers, and back on detach.  Nothing is remembered about an object: each look
 * reads it anew inside dl_iterate_phdr(), so that an object removed by dlclose() is never touched.
 */
#pragma once

#include <stdbool.h>

/*
 * Fill pfw_real and redirect the calls that need a wrapper, in all objects and in those loaded
 * later. 0, or -errno after a message.  Thread: app.  Signal: unsafe.  Fork: a child inherits the
 * redirection with its parent's memory.
 */
int pfw_attach(void);

/* Undo all redirections.  Thread: app.  Signal: unsafe. */
void pfw_detach(void);

/* After pfw_detach(): why the recorder must stay loaded; NULL = its threads decide.  Thread: app. */
const char *pfw_attach_stays(void);

/* Look for objects that were loaded since and whose start-up code did not report.  Cheap if there
 * are none.  Thread: drain.  Signal: unsafe. */
void pfw_attach_look(void);

/* Called before and after a fork, so that no look is half done in the child; `child`: in the child,
 * whatever call made it.  Thread: app. */
void pfw_attach_hold(void);
void pfw_attach_release(bool child);
