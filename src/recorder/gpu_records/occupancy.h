/* recorder/gpu_records/occupancy.h - the share of a GPU's threads that a kernel can keep busy. */
#pragma once

#include <stdbool.h>

#include "recorder/gpu_records/abi.h"

/* The threads of the blocks that one multiprocessor holds (fewer if the grid is small) divided by
 * the threads that it can hold: 0..1, four decimals.  False: not known.  Thread: drain. */
bool pfw_cupti_occupancy(const struct pfw_cupti_kernel *kernel, double *occupancy);

/* The blocks of the grid divided by the device's multiprocessors, four decimals.  False: not known.  Thread:
 * drain. */
bool pfw_cupti_blocks_per_sm(const struct pfw_cupti_kernel *kernel, double *blocks);
