/* cupti_spans.h - the innermost span of each thread, told to CUPTI, so that launches carry it. */
#ifndef PFW_CUPTI_SPANS_H
#define PFW_CUPTI_SPANS_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

/* Not 0: launches are to carry the span they are made in.  Another number each time it begins. */
extern _Atomic uint32_t pfw_cupti_spans;

/* This thread's innermost span is `id` now, within `parent`; or was, and `parent` is again.  Keep
 * errno.  Thread: app.  Signal: unsafe while this thread is in a call of CUDA. */
void pfw_cupti_push(uint64_t id, uint64_t parent);
void pfw_cupti_pop(uint64_t id, uint64_t parent);

/* This thread goes on inside `id` instead, 0: inside none.  As push and pop. */
void pfw_cupti_replace(uint64_t id);

/* A span of the calling thread that was open before CUPTI heard of spans.  Thread: app. */
void pfw_cupti_spans_catch_up(void);

/* From now on, or no longer.  Thread: one at a time. */
void pfw_cupti_spans_begin(void);
void pfw_cupti_spans_end(void);

/* Whether they ever were, in this process or the one that it was forked from.  Thread: any. */
bool pfw_cupti_spans_begun(void);

#endif
