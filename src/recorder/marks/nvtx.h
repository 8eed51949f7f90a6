/* recorder/marks/nvtx.h - NVTX ranges and marks of the program, as spans of cat PP. */
#pragma once

#include <stdbool.h>

#include "recorder/marks/nvtx_abi.h"

/* Fill in the function tables of the copy of NVTX that `export` belongs to.  Each object compiled
 * with NVTX's header has a copy.  False: unknown version, left alone.  Thread: app. */
bool pfw_nvtx_attach(pfw_nvtx_export *export);

/* Free the stack of a thread that has ended.  Thread: app, the one that ends. */
void pfw_nvtx_thread_died(void);
