/* launches.h - GPU work, found by what launched it: an operator, a call of the runtime, a span.
 *
 * Thread: one at a time for one struct, but for pfw_launches_take(): at once for processes that
 * differ.
 */
#ifndef PFW_LAUNCHES_H
#define PFW_LAUNCHES_H

#include <stdbool.h>
#include <stdint.h>

#include "spill.h"

/* Who can launch work, and how the work names him.  The kind stands in the two highest bits. */
enum pfw_launcher {
	PFW_LAUNCHER_NONE,
	PFW_LAUNCHER_OPERATOR, /* args.external_id */
	PFW_LAUNCHER_CALL,     /* args.correlation of a runtime or driver call */
	PFW_LAUNCHER_SPAN,     /* args.span_id; the work's args.span */
};

static inline uint64_t pfw_launcher(enum pfw_launcher kind, uint64_t id)
{
	return (uint64_t)kind << 62 | (id & (UINT64_MAX >> 2));
}

static inline enum pfw_launcher pfw_launcher_kind(uint64_t launcher)
{
	return (enum pfw_launcher)(launcher >> 62);
}

struct pfw_launch {
	uint64_t launcher;
	uint64_t otherwise; /* who it was where no such launcher is in the trace; 0: nobody */
	int64_t ns;	    /* what the device took */
	uint32_t process;
	uint32_t seen;
};

struct pfw_launches {
	struct pfw_spill launch; /* struct pfw_launch each */
	bool sorted;
};

#define PFW_LAUNCHES_EMPTY                                \
	{                                                 \
		.launch = PFW_SPILL_EMPTY, .sorted = true \
	}

/* Note one piece of work.  As pfw_spill_add(). */
int pfw_launches_add(struct pfw_launches *launches, const struct pfw_launch *launch,
		     struct pfw_spill_budget *budget);

/* Put them in order, once all are there. */
void pfw_launches_sort(struct pfw_launches *launches);

/* Where searches found what, by kind of launcher; all zero at first. */
struct pfw_launches_hint {
	size_t at[4];
};

/* A launcher is in the trace. */
void pfw_launches_see(struct pfw_launches *launches, uint32_t process, uint64_t launcher,
		      struct pfw_launches_hint *hint);

/* Give work whose launcher was not seen to who it names otherwise.  As pfw_spill_add(). */
int pfw_launches_settle(struct pfw_launches *launches, struct pfw_spill_budget *budget);

/* The device's time for a launcher, once: a runtime call and the driver's call inside it have one
 * correlation. */
int64_t pfw_launches_take(struct pfw_launches *launches, uint32_t process, uint64_t launcher,
			  struct pfw_launches_hint *hint);

#endif
