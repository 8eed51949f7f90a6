/* recorder/guest/thread.h - a thread that libc does not know, for the writer.
 *
 * pthread_create() allocates, so a signal handler that interrupted malloc must not call it, nor a
 * child forked by a raw system call; and a thread that libc counts keeps the process alive after
 * the program's last thread.  So this thread is a bare clone().  It must not use anything of libc
 * that depends on threads: malloc, stdio, errno, dlopen, thread-local variables.  It may call the
 * system through common/base/os.h.
 */
#pragma once

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

struct pfw_own_thread {
	/* Use pthread_create(): this thread will call libc functions that need to know it. */
	bool known;
	char *memory;	       /* its stack, kept for the next thread */
	_Atomic uint32_t here; /* futex: its tid; the kernel sets it to 0 at the end */
	_Atomic int32_t tid;   /* its tid, until the process no longer counts it */
	bool joinable;	       /* `thread` is valid */
	pthread_t thread;
	void (*work)(void *arg);
	void *arg;
};

/* Find out how much room the thread-local data of this program's libraries takes.  Thread: init. */
void pfw_own_thread_init(void);

/* `pfw attach` lends memory to the thread whose thread pointer this word holds: while it starts a known
 * one, so that the program's allocator sets up nothing for that.  NULL = nothing is lent. */
void pfw_own_thread_lend(_Atomic uintptr_t *starter);

/*
 * Wait until the previous thread is gone, then run work(arg) in a new one: signals blocked, the
 * descriptor table shared.  0 or -errno.  Thread: app, one at a time.  Signal: safe, unless known
 * is set.  Fork: a child may start one in its copy of the
 * memory; it first clears all but `known` and `memory`.
 */
int pfw_own_thread_start(struct pfw_own_thread *worker, void (*work)(void *arg), void *arg);

/* Wait until the thread is gone and the process no longer counts it.  Thread: app, one at a time.
 * Signal: safe. */
void pfw_own_thread_join(struct pfw_own_thread *worker);

/* Whether a thread that libc knows is one of the recorder's.  Thread: any.  Signal: safe. */
bool pfw_own_thread_is(pthread_t thread);
