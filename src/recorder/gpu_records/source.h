/* recorder/gpu_records/source.h - gives the writer the records of finished buffers. */
#pragma once

#include <stdbool.h>

#include "common/format/source.h"

extern const struct pfw_source pfw_cupti_source;

/*
 * CUPTI has just been flushed: nothing that belongs to finished buffers is to come.  Thread: any.
 */
void pfw_cupti_source_flushed(void);

/* Whether CUPTI will deliver nothing more for now.  Thread: any. */
void pfw_cupti_source_last(bool last);

/* Fork: forget the buffer that is being read.  Thread: the child's first. */
void pfw_cupti_source_forget(void);
