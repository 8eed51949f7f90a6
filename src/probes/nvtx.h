/* nvtx.h - ranges and marks that the program makes through NVTX, as spans of cat PP. */
#ifndef PFW_NVTX_H
#define PFW_NVTX_H

#include <stdbool.h>

#include "nvtx_abi.h"

/* Take NVTX's calls over, in the copy of it that `export` belongs to: each object that was compiled
 * with its header has one.  False: it is another version, and stays as it is.  Thread: app. */
bool pfw_nvtx_attach(pfw_nvtx_export *export);

/* A thread has ended.  Thread: app, the one that ends. */
void pfw_nvtx_thread_died(void);

#endif
