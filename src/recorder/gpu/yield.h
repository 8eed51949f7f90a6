/* recorder/gpu/yield.h - makes way for another client of CUPTI in the process, torch.profiler above
 * all.
 *
 * With a single subscriber (before 13.3) CUPTI has one set of kinds and one pair of buffer
 * callbacks.  The client that registers last gets all records, and a client that disables a kind
 * disables it for all.  So the calls by which another client begins and ends are redirected through
 * us (by their slots in loaded objects, as recorder/attach/attach.c redirects libc's; JAX's profiler
 * gets them from dlsym(), whose slot in JAX's plugin leads to us).  While the other client records,
 * we record nothing, so that its profile is whole.  We resume when it has disabled what it enabled
 * and flushed.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The probe's reactions; set before the first look. */
struct pfw_cupti_yield_host {
	void (*yield)(void);	 /* another client registers, in this thread: leave CUPTI to it */
	void (*come_back)(void); /* the other client has disabled its last kind and flushed */
	/* whether we record this kind now: it is enabled again at once */
	bool (*ours)(uint32_t kind);
};
extern struct pfw_cupti_yield_host pfw_cupti_yield_host;

/*
 * Whether a client is loaded that cannot be one of several subscribers: CUPTI then refuses the
 * clock that the client brings, and torch.profiler drops all records without its clock.  Thread:
 * any.  Signal: unsafe.
 */
bool pfw_cupti_yield_expected(void);

/* Redirect the calls of objects that were loaded since the last look.  Thread: any, one at a time.
 * Signal: unsafe (dl_iterate_phdr). */
void pfw_cupti_yield_look(void);

/* Come back to CUPTI if another client has disabled its kinds long ago and does not flush.  Thread:
 * ours. */
void pfw_cupti_yield_overdue(void);

/* Whether another client is known to have kinds enabled, or to be about to flush; whether it has
 * this kind. */
bool pfw_cupti_yield_taken(void);
bool pfw_cupti_yield_theirs(uint32_t kind);

/* Whether another client has made CUPTI call its own clock, which no call undoes.  Thread: any. */
bool pfw_cupti_yield_clock(void);

/* Hand a finished buffer that is not ours to the other client.  Thread: cupti. */
void pfw_cupti_yield_completed(void *context, uint32_t stream, uint8_t *buffer, size_t bytes,
			       size_t valid_bytes);
