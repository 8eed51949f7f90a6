/* attach_preload.h - the recorder's side of the preload object's slots. */
#ifndef PFW_ATTACH_PRELOAD_H
#define PFW_ATTACH_PRELOAD_H

#include <stdbool.h>

struct pfw_preload;

/* Take the real functions and give the API's.  0, or -EINVAL: another build.  Thread: init. */
int pfw_attach_preload(const struct pfw_preload *preload);

/* Whether the program's names lead through a preload object. */
bool pfw_attach_preload_there(void);

/* Let it hand over its slots, for a pfw_start() that came past it (by dlsym).  False: it is not there,
 * or does not fit.  Thread: app.  Signal: unsafe. */
bool pfw_attach_preload_ask(void);

/* Lead the exported names of the calls that need one to the wrappers.  Thread: init. */
void pfw_attach_wrappers(const struct pfw_preload *preload);

#endif
