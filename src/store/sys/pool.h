/* store/sys/pool.h - thread pool; the caller works, too, while it waits.
 *
 * Room store/sys: the operating system: threads, /proc, CPUs, temporary files, external sorting.
 * Uses store/kit and common.  Start with pool.h (threads) and spill.h (memory that goes to files).
 */
#pragma once

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>

struct pfw_pool; /* opaque: see pool.c */

/* Embed it in a work item, which must live until the task is done. */
struct pfw_task {
	/* `worker` < jobs; concurrent tasks have different workers. */
	void (*run)(struct pfw_task *task, unsigned worker);
	/* Private to pool.c. */
	struct pfw_task *next;
	enum { PFW_TASK_IDLE, PFW_TASK_QUEUED, PFW_TASK_RUNNING, PFW_TASK_DONE } state;
};

/* Create a pool of `jobs` threads, or fewer if thread creation fails; the caller is worker 0.
 * Return 0 with *out for pfw_pool_close(), or -ENOMEM.  Thread: the owner, as all here. */
int pfw_pool_open(struct pfw_pool **out, unsigned jobs);
unsigned pfw_pool_jobs(const struct pfw_pool *pool);

/* Queue a task: first in, first run. */
void pfw_pool_start(struct pfw_pool *pool, struct pfw_task *task);

/* Wait until a queued task is done; run queued tasks meanwhile. */
void pfw_pool_wait(struct pfw_pool *pool, struct pfw_task *task);

/* All tasks must be done. */
void pfw_pool_close(struct pfw_pool *pool);

/* Call run() in `jobs` threads at a time, or fewer if thread creation fails; the caller is worker
 * 0.  Return when all calls have returned.  Thread: any. */
void pfw_pool_each(unsigned jobs, void (*run)(void *user, unsigned worker), void *user);

/* Call run() once for each number below `count`, in the same threads; each takes the next number. */
void pfw_pool_share(unsigned jobs, size_t count, void (*run)(void *user, size_t number),
		    void *user);

/* Start a thread with all signals blocked: signals must interrupt the waits of the main thread. 0
 * or -errno.  Thread: any. */
int pfw_pool_thread(pthread_t *thread, void *(*run)(void *user), void *user);
