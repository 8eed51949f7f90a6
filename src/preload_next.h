/* preload_next.h - the next definition of a name, as dlsym(RTLD_NEXT) finds it, without its lock. */
#ifndef PFW_PRELOAD_NEXT_H
#define PFW_PRELOAD_NEXT_H

/*
 * Note what is loaded behind this object up to libc; none of it is ever unloaded.  Once; until then,
 * and where something in it is out of the ordinary, nothing is found below.  Thread: init.
 */
__attribute__((visibility("hidden"))) void pfw_preload_next_init(void);

/* The function of that name, or NULL: dlsym() decides.  Takes no lock and no memory, so that a first
 * call may come from a signal handler or a forked child.  Thread: any.  Signal: safe. */
__attribute__((visibility("hidden"))) void *pfw_preload_next(const char *name);

#endif
