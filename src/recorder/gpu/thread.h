/* recorder/gpu/thread.h - our thread in processes that use a GPU: it flushes CUPTI and does
 * deferred work.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

/* What the thread does in each turn. */
struct pfw_cupti_duties {
	uint64_t flush_ns;  /* period of the flush; a flush comes sooner if buffers wait */
	bool (*look)(void); /* called first; false: the thread has nothing left to do */
	void (*follow)(void);
	/* not called inside the dynamic linker, whose lock CUPTI may wait for */
	void (*flush)(void);
	void (*look_around)(void); /* called after a flush; may use the dynamic linker */
	bool (*hurries)(void);	   /* whether the next turn is to come very soon */
};

/* Start the thread unless it runs.  False: it cannot be started; a message has said why.  `duties`
 * must last for ever.  Thread: any, one at a time. */
bool pfw_cupti_thread_start(const struct pfw_cupti_duties *duties);

/* Wake the thread: it may have something to do.  Thread: any.  Signal: safe. */
void pfw_cupti_thread_ring(void);

/* Make the thread end; it follows and flushes no more after this returns.  If it hangs in a call,
 * wait one second at most.  Thread: any. */
void pfw_cupti_thread_send_home(void);

/* Fork: the child has no such thread. */
void pfw_cupti_thread_forget(void);
