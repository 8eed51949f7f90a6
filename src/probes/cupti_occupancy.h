/* cupti_occupancy.h - what share of a GPU's threads a kernel can keep busy. */
#ifndef PFW_CUPTI_OCCUPANCY_H
#define PFW_CUPTI_OCCUPANCY_H

#include "cupti_abi.h"

/*
 * The blocks of this kernel that one multiprocessor can hold, or gets of so small a grid, times their
 * threads, of the threads it can hold: 0..1, four digits; 0 where the device is not known.
 * Thread: drain.
 */
double pfw_cupti_occupancy(const struct pfw_cupti_kernel *kernel);

#endif
