/* common/settings/schedule.h - when to record: schedules as pure functions, and their text.
 *
 * Rules and words are those of torch.profiler.schedule() of PyTorch 2.15.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include <pfw/pfw.h>

#define PFW_SCHEDULE_MAX 0x7fffffffu /* largest value of a key */

/* What changes the phase. */
enum pfw_plan_kind {
	PFW_PLAN_ALWAYS, /* nothing: always record */
	PFW_PLAN_STEPS,	 /* the program's steps */
	PFW_PLAN_TIME,	 /* the clock */
	PFW_PLAN_RANGE,	 /* cudaProfilerStart and cudaProfilerStop */
};

struct pfw_plan {
	enum pfw_plan_kind kind;
	struct pfw_schedule steps; /* STEPS */
	/* TIME: record for duration_ns after delay_ns, again every every_ns (0 = once). */
	uint64_t delay_ns, duration_ns, every_ns;
};

/* Read the value of PFW_SCHEDULE: "wait=1,warmup=1,active=3,repeat=2" (also skip_first,
 * skip_first_wait=0|1, discard_warmup=0|1), "delay=60s,duration=30s,every=10m" or "range".
 * Times take the units of common/base/units.h.  False: it is none of these, and *plan is unchanged.
 * Thread: any. */
bool pfw_plan_parse(struct pfw_plan *plan, const char *text);

/* Whether active > 0 and all values are at most PFW_SCHEDULE_MAX.  Thread: any. */
bool pfw_schedule_valid(const struct pfw_schedule *schedule);

/* Whether a TIME plan records `elapsed_ns` after its start; *until_ns gets the time of the next
 * change, UINT64_MAX = never.  Thread: any. */
bool pfw_plan_records_at(const struct pfw_plan *plan, uint64_t elapsed_ns, uint64_t *until_ns);

/* Torch's messages for a wrong or doubtful schedule. */
#define PFW_SCHEDULE_INVALID "Invalid profiler schedule arguments"
#define PFW_SCHEDULE_NO_WARMUP "Profiler won't be using warmup, this can skew profiler results"
