/* cupti_places.h - names that the program gives its streams, contexts and devices through NVTX.
 *
 * Records have numbers where the program has handles; CUPTI knows which belong together, so names are
 * taken while it is begun, or where it can be.  Later the handle may be gone.
 */
#ifndef PFW_CUPTI_PLACES_H
#define PFW_CUPTI_PLACES_H

/* The lanes of it are called so, from now on.  Keep errno.  Thread of all: app.  Signal: unsafe. */
void pfw_cupti_name_device(int device, const char *name);
void pfw_cupti_name_context(void *context, const char *name);
void pfw_cupti_name_stream(void *stream, const char *name);

#endif
