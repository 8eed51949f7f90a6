/* common/format/control.c - steering a process through its control page; see control.h. */
#include "common/format/control.h"

#include <stdbool.h>

#include "common/base/os.h"
#include "common/format/clock.h"

#define WISH_BITS 3u
#define WISH_MASK ((1u << WISH_BITS) - 1)
_Static_assert(PFW_WISHES <= WISH_MASK + 1, "a wish fits into its bits");

void pfw_control_wake(struct pfw_control *control)
{
	atomic_fetch_add(&control->bell, 1);
	pfw_os_futex_wake_shared((const uint32_t *)&control->bell, INT32_MAX);
}

enum pfw_request pfw_control_wish(const struct pfw_control *control)
{
	uint32_t asked = atomic_load(&control->asked);

	return asked == atomic_load(&control->answered) ? PFW_WISH_NONE
							: (enum pfw_request)(asked & WISH_MASK);
}

void pfw_control_answer(struct pfw_control *control, int result)
{
	atomic_store(&control->result, result);
	atomic_store(&control->answered, atomic_load(&control->asked));
	pfw_os_futex_wake_shared((const uint32_t *)&control->answered, INT32_MAX);
}

void pfw_control_pause(struct pfw_control *control, int paused)
{
	if (atomic_exchange(&control->paused, (uint32_t)paused) != (uint32_t)paused)
		pfw_os_futex_wake_shared((const uint32_t *)&control->paused, INT32_MAX);
}

/* Wait until `asked` is answered.  False: the deadline has passed. */
static bool wait_for(struct pfw_control *control, uint32_t asked, uint64_t deadline_ns)
{
	for (;;) {
		uint32_t answered = atomic_load(&control->answered);
		uint64_t now = pfw_clock_ns(CLOCK_MONOTONIC);

		if (answered == asked)
			return true;
		if (now >= deadline_ns)
			return false;
		pfw_os_futex_wait_shared((const uint32_t *)&control->answered, answered,
					 deadline_ns - now);
	}
}

int pfw_control_ask(struct pfw_control *control, enum pfw_request wish, uint64_t timeout_ns)
{
	uint64_t deadline = pfw_clock_ns(CLOCK_MONOTONIC) + timeout_ns;
	uint32_t asked = atomic_load(&control->asked), next;

	do {
		wait_for(control, asked, deadline - timeout_ns / 2);
		next = ((asked >> WISH_BITS) + 1) << WISH_BITS | (uint32_t)wish;
	} while (!atomic_compare_exchange_strong(&control->asked, &asked, next));
	pfw_control_wake(control);
	return wait_for(control, next, deadline) ? atomic_load(&control->result) : -ETIMEDOUT;
}
