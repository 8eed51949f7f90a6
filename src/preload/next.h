/* preload/next.h - the next definition of a name, as dlsym(RTLD_NEXT), but without a lock. */
#pragma once

/*
 * Note the objects from this one to libc; they are never unloaded.  Before the first call, or if
 * one of them is unusual, pfw_preload_next() finds nothing.  Later calls do nothing.  Thread: init.
 */
__attribute__((visibility("hidden"))) void pfw_preload_next_init(void);

/* The function of that name; NULL: use dlsym().  Takes no lock and allocates nothing: the first
 * call of a name may be in a signal handler or a forked child.  Thread: any.  Signal: safe. */
__attribute__((visibility("hidden"))) void *pfw_preload_next(const char *name);
