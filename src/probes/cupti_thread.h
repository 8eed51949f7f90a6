/* cupti_thread.h - our thread in processes that use a GPU: it flushes CUPTI, and does what may wait. */
#ifndef PFW_CUPTI_THREAD_H
#define PFW_CUPTI_THREAD_H

#include <stdbool.h>
#include <stdint.h>

/* What the thread does. */
struct pfw_cupti_duties {
	uint64_t flush_ns;    /* how often it flushes; sooner where buffers wait */
	bool (*look)(void);   /* each turn, first; false: there is nothing left to do for it */
	void (*follow)(void); /* each turn */
	void (*flush)(void);  /* never inside a call of the dynamic linker: it waits for CUPTI */
	void (*look_around)(void); /* after a flush: what asks the dynamic linker */
	bool (*hurries)(void);	   /* look again very soon */
};

/* Start it, unless it is there.  False: there can be none, which has been said.  `duties` stays the
 * caller's, for good.  Thread: any, one at a time. */
bool pfw_cupti_thread_start(const struct pfw_cupti_duties *duties);

/* It may have something to do.  Thread: any.  Signal: safe. */
void pfw_cupti_thread_ring(void);

/* It follows and flushes no more after this, and ends; where it hangs in a call, it is not waited for
 * any longer than a second.  Thread: any. */
void pfw_cupti_thread_send_home(void);

/* Whether it is there.  Thread: any. */
bool pfw_cupti_thread_is_there(void);

/* A forked child has none. */
void pfw_cupti_thread_forget(void);

#endif
