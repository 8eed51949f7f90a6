/* pool.h - tasks for several threads, one of which is the caller while he waits. */
#ifndef PFW_POOL_H
#define PFW_POOL_H

#include <stdbool.h>

struct pfw_pool; /* opaque: see pool.c */

/* Embedded in what it works on, which must last until it is done. */
struct pfw_task {
	/* `worker` < jobs, and no two tasks run with the same one at a time. */
	void (*run)(struct pfw_task *task, unsigned worker);
	/* Private to pool.c. */
	struct pfw_task *next;
	enum { PFW_TASK_IDLE, PFW_TASK_QUEUED, PFW_TASK_RUNNING, PFW_TASK_DONE } state;
};

/* A pool of `jobs` threads, the caller among them (worker 0); where fewer can be made, of these.
 * Return 0 with *out for pfw_pool_close(), or -ENOMEM.  Thread: the owner, as all here. */
int pfw_pool_open(struct pfw_pool **out, unsigned jobs);
unsigned pfw_pool_jobs(const struct pfw_pool *pool);

/* Queue a task: the first in is the first begun. */
void pfw_pool_start(struct pfw_pool *pool, struct pfw_task *task);

/* Wait until a started task is done; until then, do what is queued. */
void pfw_pool_wait(struct pfw_pool *pool, struct pfw_task *task);

/* All tasks must be done. */
void pfw_pool_close(struct pfw_pool *pool);

#endif
