/* recorder/gpu/client.h - our subscription to CUPTI, alone or among others; records on or off.
 *
 * cupti.c decides when.  The functions may be called only between a successful pfw_cupti_load() and
 * the end of the program, by one thread at a time.  Signal: unsafe, all of them.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

struct pfw_config;

/*
 * Subscribe and, if `on`, enable what config->gpu wants.  Otherwise CUPTI reports only the calls of
 * subscription.h, which costs other clients nothing.  False: subscribing failed; a message says why,
 * and nothing is left behind.
 */
bool pfw_cupti_client_begin(const struct pfw_config *config, bool on);

/* Whether other clients can get records at the same time. */
bool pfw_cupti_client_shared(void);

/* Make CUPTI ask us for buffers (again, after another client took them over).  0 or its error. */
uint32_t pfw_cupti_client_register(void);

/* Enable or disable the wanted kinds.  Enabling goes on without a kind that CUPTI refuses, except
 * without kernels: then it prints why and returns false. */
bool pfw_cupti_client_enable(void);
void pfw_cupti_client_disable(void);

/* Whether kinds are enabled.  Thread: any. */
bool pfw_cupti_client_enabled(void);

/* CLOCK_REALTIME time at which kinds were enabled; 0 = they are not.  Thread: any. */
uint64_t pfw_cupti_client_since(void);
bool pfw_cupti_client_wants(uint32_t kind);

/* Make CUPTI hand over whole buffers, or (forced, at the end) all buffers.  Waits at most one
 * second for buffers that another thread's flush holds.  Thread: any that is not inside a flush. */
void pfw_cupti_client_flush(bool forced);

/* Fork: no thread of the parent is inside a flush in the child. */
void pfw_cupti_client_forked(void);

/* Count the records that CUPTI has dropped since the last call. */
void pfw_cupti_client_count_dropped(void);

/* CLOCK_REALTIME minus CUPTI's time, as measured; 0 if CUPTI uses CLOCK_REALTIME. */
int64_t pfw_cupti_client_clock_offset(void);

/* Make CUPTI stamp records by CLOCK_REALTIME again, after another client had chosen a clock.  The
 * finished records with the other clock are delivered first.  Return whether it worked. */
bool pfw_cupti_client_own_clock(void);

/* Push to or pop from the calling thread's stack of external ids.  Return 0 or CUPTI's error. */
uint32_t pfw_cupti_client_push(uint64_t id);
uint32_t pfw_cupti_client_pop(uint64_t *id);
