/* hidden.h - which numbers of the program's descriptor table are ours: the program must not close
 * them, for the number could become a file of its own between two of our writes.
 *
 * There are some while a thread of the program does the writer's work, and, where the kernel gives
 * the writer no table of its own, the trace for as long as the writer runs.
 */
#ifndef PFW_HIDDEN_H
#define PFW_HIDDEN_H

#include <limits.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "os.h"

#define PFW_HIDDEN_MAX 4u /* a thread's spool and trace, and those of one that it takes over from */

extern _Atomic int pfw_hidden_fd[PFW_HIDDEN_MAX]; /* number + 1; 0 = free */
extern _Atomic uint32_t pfw_hidden_count;

/* Whether fd is one of ours.  Thread: any.  Signal: safe. */
static inline bool pfw_hidden(int fd)
{
	if (PFW_LIKELY(!atomic_load_explicit(&pfw_hidden_count, memory_order_relaxed)))
		return false;
	for (unsigned i = 0; i < PFW_HIDDEN_MAX; i++)
		if (atomic_load_explicit(&pfw_hidden_fd[i], memory_order_relaxed) == fd + 1)
			return fd >= 0;
	return false;
}

/*
 * In a table that the writer shares, our file has a low number for a moment before it is hidden, so
 * nothing may be closed or replaced meanwhile: those calls enter and leave, and the writer opens
 * between begin and end, when nobody is in one.  (It does not wait long for one that sleeps.)
 * Thread: any; who works.  Signal: safe.
 */
extern _Atomic uint32_t pfw_hidden_shared;
void pfw_hidden_begin(void);
void pfw_hidden_end(void);
void pfw_hidden_enter_slow(void);
void pfw_hidden_leave_slow(void);

/* False: nothing to leave. */
static inline bool pfw_hidden_enter(void)
{
	if (PFW_LIKELY(!atomic_load_explicit(&pfw_hidden_shared, memory_order_relaxed)))
		return false;
	pfw_hidden_enter_slow();
	return true;
}

static inline void pfw_hidden_leave(bool entered)
{
	if (PFW_UNLIKELY(entered))
		pfw_hidden_leave_slow();
}

/* The least of our numbers within [first, last]; -1 = none.  Thread: any.  Signal: safe. */
int pfw_hidden_within(unsigned first, unsigned last);

/*
 * Take fd in: the slot where its number is from now on to be looked up, since pfw_hidden_move() may
 * change it; -1 where all are taken.  And out again, without closing it.  Thread: who works.
 */
int pfw_hidden_add(int fd);
void pfw_hidden_remove(int slot);
int pfw_hidden_at(int slot);

/* Move fd to the greatest free number below 1024 that the limit allows: low ones are the program's
 * to count with.  Return the new number, or fd where there is none.  Thread: any.  Signal: safe. */
int pfw_hidden_high(int fd);

/* Whether there is such a number just now.  Thread: any.  Signal: safe. */
bool pfw_hidden_room(void);

/* The program wants our number for itself: ours gets another, and the old one may be replaced.
 * Thread: who works. */
void pfw_hidden_move(int fd);

/* A forked child: close the copies of its parent's. */
void pfw_hidden_close(void);

#endif
