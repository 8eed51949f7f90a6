/* recorder/gpu/refusal.h - messages that say why GPU work is not recorded, one line each. */
#pragma once

#include <stdint.h>

/* pfw_cupti_load() failed with this error; `chosen` is the value of PFW_CUPTI_LIB, or NULL. */
void pfw_cupti_refuse_library(int error, const char *chosen);

/*
 * A call (named without "cupti") returned `result`; `holder` names the client that holds CUPTI, or
 * is "".  Only after the driver is initialised: without a driver, CUPTI's function for error texts
 * may never return.  Thread: any.
 */
void pfw_cupti_refuse_call(const char *call, uint32_t result, const char *holder);
