/* attach/safe.h - where a thread of another process may be led away from what it does.
 *
 * At a system call that libc made, of those during which no thread holds a lock of the allocator or
 * of the dynamic linker.  The code that it interrupted as a signal handler must be at such a call, too.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct thread;
struct tracee;

/* Whether the thread waits in a safe call.  It is not stopped for this. */
bool thread_waits(const struct tracee *tracee, pid_t tid);

/* Whether the stopped thread, whose registers are read, is at a safe point. */
bool thread_is_safe(const struct thread *thread);

/* Whether a stopped thread neither is in this code, nor will return into it or call it: no register
 * and no word of its stacks leads there.  False in doubt: an ended call leaves words behind, too. */
bool thread_is_outside(const struct thread *thread, uint64_t start, uint64_t end);
