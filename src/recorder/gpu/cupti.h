/* recorder/gpu/cupti.h - the GPU probe: kernels, copies and CUDA calls as PP events, through CUPTI.
 *
 * Room recorder/gpu: when CUPTI is begun, flushed, left to another client and ended.  It may use
 * recorder/gpu_records (the library and its records), recorder/attach (to redirect calls) and the
 * rooms before them.  Start with cupti.c, then client.c and yield.h.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

struct pfw_config;

/* Keep what is wanted (config->gpu) and the template of PP records.  Thread: init. */
void pfw_cupti_init(const struct pfw_config *config, uint16_t template);

/*
 * The program has called pfw_start() and may have initialised CUDA: begin if it has, also after
 * pfw_cupti_end().  Cheap if it has not.  Nothing begins while recording is off, unless the
 * program's ranges switch it (PFW_SCHEDULE=range).  Thread: any.  Signal: unsafe.
 */
void pfw_cupti_started(void);

/* Begin if possible.  Return whether CUPTI may be called.  Thread: app.  Signal: unsafe. */
bool pfw_cupti_ask(void);

/* Called between two looks of the writer: begin if the program has initialised CUDA.  True: the
 * program may still do so.  Holds no lock.  Thread: drain, if libc knows that thread. */
bool pfw_cupti_tick(void);

/* Whether CUPTI was ever begun.  Thread: any. */
bool pfw_cupti_was_used(void);

/*
 * The driver has loaded us (CUDA_INJECTION64_PATH): look soon and often for an initialised driver.
 */
void pfw_cupti_injected(void);

/*
 * Make CUPTI hand over whole buffers or, if `everything` (before an exec, which keeps nothing), all
 * buffers.  The records are in the trace after the writer's next look.  Thread: any.  Signal:
 * unsafe.
 */
void pfw_cupti_flush(bool everything);

/* Recording was switched.  If `by_writer`, the writer's thread did it; that thread must not call
 * CUPTI, so our thread applies the switch soon.  Holds no lock. */
void pfw_cupti_switched(bool by_writer);

/*
 * The trace is about to end: flush everything.  `good`: the process exits, and CUPTI is not called
 * again; otherwise pfw_cupti_started() may begin anew.  Call before taking session's locks: a
 * thread that waits for them may hold CUPTI's.
 */
void pfw_cupti_end(bool good);

/* The program exits, and may have used CUDA for a shorter time than one look takes: if the user
 * asked for GPU records, print why there are none.  Thread: app.  Signal: unsafe. */
void pfw_cupti_exits(void);

/* Called before and after a fork, so that no thread of ours has the dynamic linker locked during
 * the fork. */
void pfw_cupti_hold(void);
void pfw_cupti_release(void);

/* Fork: the child has no CUPTI.  If the parent had one, the child must never touch it. */
void pfw_cupti_forked(void);

/* CLOCK_REALTIME time since which kernels are recorded here even if other clients record them, too;
 * 0 = they are not.  Thread: any. */
uint64_t pfw_cupti_shares_since(void);

/* The number of the probe's threads in this process.  Thread: any. */
unsigned pfw_cupti_threads(void);
