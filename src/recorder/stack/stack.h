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
	uint32_t left;	   /* calls until the next stack, where each nth call has one */
	uint32_t looks;	   /* times that it was not on its own stack */
};

/* A call of as many ticks may have its stack taken; UINT64_MAX = none.  Set by pfw_stack_init(). */
extern uint64_t pfw_stack_ticks;

/* Each so many calls of a thread; 0 = all of pfw_stack_ticks. */
extern uint32_t pfw_stack_every;

/* Thread: init. */
void pfw_stack_init(const struct pfw_config *config);

/* Whether this call, of which each is counted, is the thread's nth.  Thread: app.  Signal: safe. */
bool pfw_stack_turn(struct pfw_stack_thread *thread);

/* Whether a call of so many ticks has its stack taken. */
static inline bool pfw_stack_due(struct pfw_stack_thread *thread, uint64_t ticks)
{
	return __builtin_expect(ticks >= pfw_stack_ticks, 0) &&
	       (!pfw_stack_every || pfw_stack_turn(thread));
}

/* The number of the caller's stack in the spool; 0 = none, which is counted there.  Keeps errno.
 * Thread: app.  Signal: safe. */
uint32_t pfw_stack_take(struct pfw_stack_thread *thread);
