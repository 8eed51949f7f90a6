/* recorder/guest/locked.h - our memory takes nothing of the program's RLIMIT_MEMLOCK.
 *
 * After mlockall(MCL_FUTURE) the kernel locks each new mapping, ours too, and counts it.
 */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>

#include "common/base/os.h"

extern _Atomic bool pfw_locked; /* such a call is in force */

/* A new mapping of ours, which may be NULL.  Thread: any.  Signal: safe. */
static inline void *pfw_unlock(void *memory, size_t bytes)
{
	if (PFW_UNLIKELY(atomic_load_explicit(&pfw_locked, memory_order_relaxed)) && memory)
		pfw_syscall6(SYS_munlock, (long)memory, (long)bytes, 0, 0, 0, 0);
	return memory;
}
