/* store/nesting/launches.h - GPU work by its launcher: an operator, a runtime call, or a span.
 *
 * Thread: one at a time for one struct, except pfw_launches_take(), which may run at once for
 * different processes.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "store/sys/spill.h"

/* What can launch work, and which arg of the work refers to it.  The kind is in the two highest
 * bits. */
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
	uint64_t otherwise; /* the launcher if `launcher` is not in the trace; 0: none */
	int64_t ns;	    /* time on the device */
	uint32_t process;
	uint32_t group; /* of the span whose work it is, once that is known */
	bool seen, taken;
};

struct pfw_launches {
	struct pfw_spill launch; /* struct pfw_launch each */
	bool sorted;
	bool otherwise; /* some work may have another launcher */
	bool kinds[4];	/* which kinds of launchers have work */
};

#define PFW_LAUNCHES_EMPTY                                \
	{                                                 \
		.launch = PFW_SPILL_EMPTY, .sorted = true \
	}

/* Add one piece of work.  Errors: as pfw_spill_add(). */
int pfw_launches_add(struct pfw_launches *launches, const struct pfw_launch *launch,
		     struct pfw_spill_budget *budget);

/* Sort the work, after all is added. */
void pfw_launches_sort(struct pfw_launches *launches);

/* Where the last search of each kind of launcher ended; all zero at first. */
struct pfw_launches_hint {
	size_t at[4];
};

/* Note that a launcher is in the trace. */
void pfw_launches_see(struct pfw_launches *launches, uint32_t process, uint64_t launcher,
		      struct pfw_launches_hint *hint);

/* Assign work whose launcher is not in the trace to `otherwise`.  Errors: as pfw_spill_add(). */
int pfw_launches_settle(struct pfw_launches *launches, struct pfw_spill_budget *budget);

/* The device time of a launcher, only once: a runtime call and the driver call inside it have the
 * same correlation.  The work is that of a span of this group. */
int64_t pfw_launches_take(struct pfw_launches *launches, uint32_t process, uint64_t launcher,
			  uint32_t group, struct pfw_launches_hint *hint);

/* The group of the span whose work it is, or `none`: of the work of a launcher, or, if no span has that one,
 * of `otherwise`. */
uint32_t pfw_launches_taker(const struct pfw_launches *launches, const struct pfw_launch *launch,
			    uint32_t none, struct pfw_launches_hint *hint);
