/* recorder/attach/preload.h - the recorder's side of the preload object. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

struct pfw_preload;

/*
 * Take the real functions and hand out the API's. 0, or -EINVAL: of another build.  Thread: init.
 */
int pfw_attach_preload(const struct pfw_preload *preload);

/* Whether the program's calls go through a preload object. */
bool pfw_attach_preload_there(void);

/* Ask the preload object for its slots if pfw_start() was reached without it (by dlsym).  False:
 * there is none, or it does not fit.  Thread: app.  Signal: unsafe. */
bool pfw_attach_preload_ask(void);

/* Redirect the exported names of the calls that need it to the wrappers.  False: the object does not
 * export all of them.  Thread: init. */
bool pfw_attach_wrappers(const struct pfw_preload *preload);

/* How many calls that would have been recorded came before the preload object's constructor, and
 * have not been counted yet.  Thread: init. */
uint64_t pfw_attach_early_calls(const struct pfw_preload *preload);

/* Forget this thread's error of a dlsym() that found nothing.  A dlsym() that finds its name clears the
 * error; dlerror() would allocate a text.  Thread: init. */
void pfw_attach_clear_dlerror(void);
