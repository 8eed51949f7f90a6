/* recorder/gpu/spans.h - tells CUPTI each thread's innermost span, so that launches carry it. */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

/* Not 0: launches carry the span in which they are made.  The number differs after each begin. */
extern _Atomic uint32_t pfw_cupti_spans;

/*
 * Push: this thread's innermost span is now `id`, inside `parent`.  Pop: `id` has ended and
 * `parent` is innermost.  Keep errno.  Thread: app.  Signal: unsafe while this thread is in a call
 * of CUDA.
 */
void pfw_cupti_push(uint64_t id, uint64_t parent);
void pfw_cupti_pop(uint64_t id, uint64_t parent);

/* Make `id` this thread's innermost span instead; 0 = none.  As push and pop. */
void pfw_cupti_replace(uint64_t id);

/* Push the calling thread's span if it was open before spans were begun.  Thread: app. */
void pfw_cupti_spans_catch_up(void);

/* Begin or end telling CUPTI of spans.  Thread: one at a time. */
void pfw_cupti_spans_begin(void);
void pfw_cupti_spans_end(void);

/* Whether spans were ever begun, in this process or in the one that it was forked from.  Thread:
 * any. */
bool pfw_cupti_spans_begun(void);
