/* recorder/guest/own_fds.h - which numbers of the program's descriptor table are our files.
 *
 * The program must not close them: between two of our writes it could get the number for a file of
 * its own.  Ours are open while a thread of the program does the writer's work; if the kernel gives
 * the writer no table of its own, the trace is open as long as the writer runs.
 */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "common/base/os.h"

#define PFW_OWN_FDS_MAX 4u /* spool and trace of two threads: one takes over from the other */

extern _Atomic int pfw_own_fds_fd[PFW_OWN_FDS_MAX]; /* number + 1; 0 = free */
extern _Atomic uint32_t pfw_own_fds_count;

/* Whether fd is our file.  Thread: any.  Signal: safe. */
static inline bool pfw_own_fds(int fd)
{
	if (PFW_LIKELY(!atomic_load_explicit(&pfw_own_fds_count, memory_order_relaxed)))
		return false;
	for (unsigned i = 0; i < PFW_OWN_FDS_MAX; i++)
		if (atomic_load_explicit(&pfw_own_fds_fd[i], memory_order_relaxed) == fd + 1)
			return fd >= 0;
	return false;
}

/*
 * In a shared table a new file of ours has a low number for a moment before it is hidden, so
 * nothing may be closed or replaced meanwhile.  Calls of the program that close or replace enter
 * and leave; the writer opens between begin and end, when no such call runs (it waits 10 ms at
 * most).  Thread: any; begin and end: the working one.  Signal: safe.
 */
extern _Atomic uint32_t pfw_own_fds_shared;
void pfw_own_fds_begin(void);
void pfw_own_fds_end(void);
void pfw_own_fds_enter_slow(void);
void pfw_own_fds_leave_slow(void);

/* False: nothing to leave. */
static inline bool pfw_own_fds_enter(void)
{
	if (PFW_LIKELY(!atomic_load_explicit(&pfw_own_fds_shared, memory_order_relaxed)))
		return false;
	pfw_own_fds_enter_slow();
	return true;
}

static inline void pfw_own_fds_leave(bool entered)
{
	if (PFW_UNLIKELY(entered))
		pfw_own_fds_leave_slow();
}

/* Our least number in [first, last]; -1 = none.  Thread: any.  Signal: safe. */
int pfw_own_fds_within(unsigned first, unsigned last);

/*
 * Hide fd.  Return its entry, or -1 if the table is full: pfw_own_fds_move() may change the number,
 * and pfw_own_fds_at() gives the current one.  Remove does not close it.  Thread: the working one.
 */
int pfw_own_fds_add(int fd);
void pfw_own_fds_remove(int entry);
int pfw_own_fds_at(int entry);

/* Move fd to the greatest free number below 1024 and RLIMIT_NOFILE, as programs rely on low
 * numbers.  Return the new number, or fd if none is free.  Thread: any.  Signal: safe. */
int pfw_own_fds_high(int fd);

/* Whether such a number is free now.  Thread: any.  Signal: safe. */
bool pfw_own_fds_room(void);

/* The program wants number fd: move our file, so that the program may replace the old one.
 * Thread: the working one. */
void pfw_own_fds_move(int fd);

/* A copy of the process's descriptor fd, for a thread with its own table: pidfd_getfd() (Linux 5.6).
 * -errno: the kernel or the container refuses.  Thread: any.  Signal: safe. */
int pfw_own_fds_borrow(int fd);

/* Close the copies of the parent's files.  Thread: a forked child's only one. */
void pfw_own_fds_close(void);
