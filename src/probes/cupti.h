/* cupti.h - the GPU probe: kernels, copies and CUDA calls as PP events, through NVIDIA's CUPTI. */
#ifndef PFW_CUPTI_H
#define PFW_CUPTI_H

#include <stdbool.h>
#include <stdint.h>

struct pfw_config;

/* Note what is wanted (config->gpu); `template` is that of PP records.  Thread: init. */
void pfw_cupti_init(const struct pfw_config *config, uint16_t template);

/* The program has called pfw_start(), and may have initialised CUDA: begin where it has, also where
 * pfw_cupti_end() has been.  Cheap where it has not.  Nothing is begun while recording is off, unless
 * the program's ranges switch it (PFW_SCHEDULE=range).  Thread: any.  Signal: unsafe. */
void pfw_cupti_started(void);

/* Whether CUPTI may be asked: it is begun, if it can be.  Thread: app.  Signal: unsafe. */
bool pfw_cupti_ask(void);

/* Between two looks of the writer: has the program initialised CUDA?  True: it is waited for.  Thread:
 * drain, where libc knows it; holds no lock. */
bool pfw_cupti_tick(void);

/* Whether CUPTI has been begun.  Thread: any. */
bool pfw_cupti_was_used(void);

/* The driver has loaded us (CUDA_INJECTION64_PATH): look soon and often. */
void pfw_cupti_injected(void);

/* Have CUPTI hand over all records that are whole, or (before an exec, which leaves nothing of it) all
 * there are; what it hands over is in the trace after the next look of the writer.  Thread: any.
 * Signal: unsafe. */
void pfw_cupti_flush(bool everything);

/* Recording was switched off or on.  `by_writer`: by its thread, which must not call CUPTI: ours does,
 * soon.  Holds no lock. */
void pfw_cupti_switched(bool by_writer);

/*
 * The trace is about to end: hand over everything, also what is not whole.  `good`: for good (exit), so
 * CUPTI is not called again; else pfw_cupti_started() begins anew.  Before session's locks are taken:
 * a thread that waits for them may hold CUPTI's.
 */
void pfw_cupti_end(bool good);

/* The program exits, and may have used CUDA for less time than it takes us to look: who asked for GPU
 * work is told why there is none.  Thread: app.  Signal: unsafe. */
void pfw_cupti_exits(void);

/* Around a fork, so that none happens while a thread of ours has the dynamic linker locked. */
void pfw_cupti_hold(void);
void pfw_cupti_release(void);

/* A forked child has no CUPTI, and where its parent had one it must never touch it. */
void pfw_cupti_forked(void);

/* Since when (CLOCK_REALTIME) kernels are recorded here whoever else records them; 0 = they are not.
 * Thread: any. */
uint64_t pfw_cupti_shares_since(void);

/* Threads of this process that are the probe's.  Thread: any. */
unsigned pfw_cupti_threads(void);

#endif
