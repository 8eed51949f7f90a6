/* recorder/gpu/subscription.h - our subscription to CUPTI's callbacks, which another client may share.
 *
 * Below 13.3 CUPTI has a single subscriber.  torch.profiler below 2.15 subscribes at its first profile
 * and, if it is refused, records nothing of the GPU from then on.  So another client that subscribes
 * gets our handle, and its callbacks through ours, whoever of the two comes first.  A client may
 * subscribe by the calls that recorder/gpu/yield.c redirects to the functions below.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "recorder/gpu_records/abi.h"

/* Reactions to what CUPTI reports, in the thread that does it; set before pfw_cupti_subscribe(). */
struct pfw_cupti_subscription_host {
	void (*unloading)(void);     /* the driver is about to free names of kernels */
	void (*ranged)(bool begins); /* the program has begun a range or is about to end one */
	void (*context)(void);	     /* a context was made: the program may launch from now on */
};
extern struct pfw_cupti_subscription_host pfw_cupti_subscription_host;

/*
 * Subscribe: alone (*shared false) if the library, the driver or another client allows nothing else.
 * 0 or CUPTI's error.  `holder` gets the name of the client that holds CUPTI, if it has one.  Thread:
 * one at a time.  Signal: unsafe.
 */
uint32_t pfw_cupti_subscribe(char *holder, bool *shared);

/* Make CUPTI report what the host reacts to; ranges only if asked. */
void pfw_cupti_listen(bool ranges);

/* Leave.  Another client that shares the subscription keeps it. */
void pfw_cupti_unsubscribe(void);

/* CUPTI's handle of our subscription, NULL = none.  Thread: any. */
void *pfw_cupti_subscriber(void);

/* CUPTI's functions of these names, for another client.  Thread: any. */
uint32_t pfw_cupti_other_subscribe(void **subscriber, pfw_cupti_callback *callback, void *user);
uint32_t pfw_cupti_other_subscribe_v2(void **subscriber, pfw_cupti_callback *callback, void *user,
				      struct pfw_cupti_subscriber *how);
uint32_t pfw_cupti_other_unsubscribe(void *subscriber);
uint32_t pfw_cupti_other_finalize(void);
uint32_t pfw_cupti_other_enable_callback(uint32_t enable, void *subscriber, uint32_t domain,
					 uint32_t cbid);
uint32_t pfw_cupti_other_enable_domain(uint32_t enable, void *subscriber, uint32_t domain);
uint32_t pfw_cupti_other_enable_all_domains(uint32_t enable, void *subscriber);
