/* cupti_client.h - we as a client of CUPTI: subscribed, alone or as one of several; records on or off.
 *
 * Nothing here decides when: cupti.c does.  All of it only between a pfw_cupti_load() that has succeeded
 * and the end of the program, by one thread at a time.  Signal: unsafe, all of it.
 */
#ifndef PFW_CUPTI_CLIENT_H
#define PFW_CUPTI_CLIENT_H

#include <stdbool.h>
#include <stdint.h>

struct pfw_config;

/* What the driver's calls that we listen to lead to; set before pfw_cupti_client_begin(). */
struct pfw_cupti_client_host {
	void (*unloading)(void);     /* names of kernels are about to go */
	void (*ranged)(bool begins); /* the program has begun a range, or is about to end one */
};
extern struct pfw_cupti_client_host pfw_cupti_client_host;

/*
 * Subscribe, and with `on` switch on what config->gpu wants.  Without, CUPTI only tells of the calls
 * above, and costs others nothing.  False: it cannot be, which has been said, and nothing is left of it.
 */
bool pfw_cupti_client_begin(const struct pfw_config *config, bool on);

/* Whether others can have records at the same time. */
bool pfw_cupti_client_shared(void);

/* Unsubscribe. */
void pfw_cupti_client_end(void);

/* Make CUPTI ask us for its buffers: again, where another client has been there. */
bool pfw_cupti_client_register(void);

/* The kinds that are wanted.  The first also where one cannot be had, but never without kernels: then
 * it says why, and false. */
bool pfw_cupti_client_enable(void);
void pfw_cupti_client_disable(void);

/* Whether kinds are on; whether this one is among the wanted.  Thread: any. */
bool pfw_cupti_client_enabled(void);

/* Since when it has been so, as CLOCK_REALTIME tells; 0 = it is not.  Thread: any. */
uint64_t pfw_cupti_client_since(void);
bool pfw_cupti_client_wants(uint32_t kind);

/* Have CUPTI hand over what is whole, or (at the end) everything: what another thread's flush has in hand,
 * too, unless that takes longer than a second.  Thread: any that is in none itself. */
void pfw_cupti_client_flush(void);
void pfw_cupti_client_flush_forced(void);

/* In a child: its parent's threads are in no flush here. */
void pfw_cupti_client_forked(void);

/* Count what CUPTI has dropped since it was asked last. */
void pfw_cupti_client_count_dropped(void);

/* What is to be added to its times so that they are CLOCK_REALTIME's; 0 where they are, as measured. */
int64_t pfw_cupti_client_clock_offset(void);

/* Have records stamped by CLOCK_REALTIME again, after another client had chosen a clock: what is
 * finished of its records is delivered before.  Whether that is so. */
bool pfw_cupti_client_own_clock(void);

/* The calling thread's stack of external ids; 0, or CUPTI's answer. */
uint32_t pfw_cupti_client_push(uint64_t id);
uint32_t pfw_cupti_client_pop(uint64_t *id);

#endif
