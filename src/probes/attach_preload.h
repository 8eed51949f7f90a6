/* attach_preload.h - the recorder's side of the preload object's slots. */
#ifndef PFW_ATTACH_PRELOAD_H
#define PFW_ATTACH_PRELOAD_H

struct pfw_preload;

/* Take the real functions and give the API's.  0, or -EINVAL: another build.  Thread: init. */
int pfw_attach_preload(const struct pfw_preload *preload);

/* Lead the exported names of the calls that need one to the wrappers.  Thread: init. */
void pfw_attach_wrappers(const struct pfw_preload *preload);

#endif
