/* cupti_source.h - what the writer takes of the GPU: the records in finished buffers, and figures. */
#ifndef PFW_CUPTI_SOURCE_H
#define PFW_CUPTI_SOURCE_H

#include <stdbool.h>

#include "../source.h"

extern const struct pfw_source pfw_cupti_source;

/* CUPTI was just made to hand over what it had: nothing that belongs to finished buffers is to come.
 * Thread: any. */
void pfw_cupti_source_flushed(void);

/* Whether nothing is to come at all, for now.  Thread: any. */
void pfw_cupti_source_last(bool last);

/* A forked child's: forget the buffer that is being read.  Thread: the child's first. */
void pfw_cupti_source_forget(void);

#endif
