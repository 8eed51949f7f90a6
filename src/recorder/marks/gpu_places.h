/* recorder/marks/gpu_places.h - names that the program gives to streams, contexts and devices by
 * NVTX.
 *
 * Records have numbers where the program has handles.  CUPTI maps handles to numbers, so a name is
 * taken while CUPTI is begun or can be begun.  Later the handle may be gone.
 */
#pragma once

/* NVTX's functions that name the lanes of a device, a context or a stream of CUDA from now on; a
 * NULL name names nothing.  Keep errno.  Thread of all: app.  Signal: unsafe. */
void pfw_nvtx_name_device(int device, const char *name);
void pfw_nvtx_name_context(void *context, const char *name);
void pfw_nvtx_name_stream(void *stream, const char *name);
