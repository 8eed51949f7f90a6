/* cupti_refusal.h - why GPU work is not recorded, in one line. */
#ifndef PFW_CUPTI_REFUSAL_H
#define PFW_CUPTI_REFUSAL_H

#include <stdint.h>

/* pfw_cupti_load() has failed with this error; `chosen` is PFW_CUPTI_LIB, or NULL. */
void pfw_cupti_refuse_library(int error, const char *chosen);

/* A call (named without "cupti") has answered so; `holder` is who holds CUPTI, or "".  Only once the
 * driver is initialised: without one CUPTI's text of an error may never come.  Thread: any. */
void pfw_cupti_refuse_call(const char *call, uint32_t result, const char *holder);

#endif
