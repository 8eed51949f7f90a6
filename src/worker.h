/* worker.h - a thread of ours that libc does not know: the writer's.
 *
 * pthread_create() allocates, so it may not be called from a handler that has interrupted malloc, nor
 * in a child that was forked past libc; and a thread that libc counts keeps the program's last
 * thread from ending the process.  This one is a bare clone().  Its function may therefore use
 * nothing of libc that knows threads: no malloc, stdio, errno, dlopen, thread-local variable of
 * libc's; what the recorder does on its own through os.h it may do.
 */
#ifndef PFW_WORKER_H
#define PFW_WORKER_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

struct pfw_worker {
	/* Make it by pthread_create() after all: it will do what is said above. */
	bool known;
	char *memory;	       /* its stack, kept for the next one */
	_Atomic uint32_t here; /* futex: its tid; 0 when the kernel has seen it off */
	_Atomic int32_t tid;   /* the same, until it is counted no more */
	bool joinable;	       /* `thread` is one that libc knows */
	pthread_t thread;
	void (*work)(void *arg);
	void *arg;
};

/*
 * Run work(arg) in a thread with all signals blocked, in no descriptor table of its own yet.  Waits
 * for the one before to be gone.  0 or -errno.  Thread: app, one at a time.  Signal: safe.
 * Fork: a child may start one in its copy of the memory after pfw_worker_forget().
 */
int pfw_worker_start(struct pfw_worker *worker, void (*work)(void *arg), void *arg);

/* Wait until it is gone, and no longer counted among the process's threads.  Thread: app, one at a time.
 * Signal: safe. */
void pfw_worker_join(struct pfw_worker *worker);

/* In a forked child: there is none.  Thread: the child's only one. */
void pfw_worker_forget(struct pfw_worker *worker);

#endif
