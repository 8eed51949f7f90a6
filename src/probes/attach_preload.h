/* attach_preload.h - the recorder's side of the preload object's slots. */
#ifndef PFW_ATTACH_PRELOAD_H
#define PFW_ATTACH_PRELOAD_H

#include <stdbool.h>

struct pfw_preload;

/* Take the real functions and give the API's.  0, or -EINVAL: another build.  Thread: init. */
int pfw_attach_preload(const struct pfw_preload *preload);

/* Whether calls of a category (POSIX, STDIO) are to be wrapped. */
typedef bool pfw_attach_wanted(const char *category);

/* Lead the exported names to the wrappers.  Thread: init. */
void pfw_attach_wrappers(const struct pfw_preload *preload, pfw_attach_wanted *wanted);

#endif
