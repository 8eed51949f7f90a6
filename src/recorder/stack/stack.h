/* recorder/stack/stack.h - which code of the program made this call.
 *
 * Room recorder/stack: Takes the call stack of the calling thread: native frames by the tables of
 * their modules, then Python's own.  It uses common, guest and spool.  Start at pfw_stack_take().
 *
 * It takes no lock, allocates nothing and never faults: it reads the stack within pages that are
 * certainly there, and modules through the kernel.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

struct pfw_config;

/* A thread's.  Begin with zeroes. */
struct pfw_stack_thread {
	uint64_t low, top; /* this much of its stack is certainly there; 0 = not looked yet */
	uint32_t calls;	   /* of pfw_stack_ticks, since the last one with a stack */
	uint32_t looks;	   /* times that it was not on its own stack */
};

/* A call of as many ticks may have its stack taken; UINT64_MAX = none.  Set by pfw_stack_init(). */
extern uint64_t pfw_stack_ticks;

/* Of such calls of a thread, each so many has its stack taken: 1 = all. */
extern uint32_t pfw_stack_every;

/* Thread: init. */
void pfw_stack_init(const struct pfw_config *config);

/* Whether a call of so many ticks has its stack taken.  Ask once a call.  Thread: app.  Signal:
 * safe. */
static inline bool pfw_stack_due(struct pfw_stack_thread *thread, uint64_t ticks)
{
	if (__builtin_expect(ticks < pfw_stack_ticks, 1))
		return false;
	if (++thread->calls < pfw_stack_every)
		return false;
	thread->calls = 0;
	return true;
}

/* The number of the caller's stack in the spool; 0 = none, which is counted there.  Keeps errno.
 * Thread: app.  Signal: safe. */
uint32_t pfw_stack_take(struct pfw_stack_thread *thread);
