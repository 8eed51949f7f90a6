/* schedule.h - when to record: torch.profiler's schedule as a pure function, and its text form.
 *
 * torch.profiler.schedule() of PyTorch 2.15 is the source of the rules and of the words.
 */
#ifndef PFW_SCHEDULE_H
#define PFW_SCHEDULE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <pfw/pfw.h>

#define PFW_SCHEDULE_MAX 0x7fffffffu /* most of one of its figures */

/* What decides when the phases change. */
enum pfw_plan_kind {
	PFW_PLAN_ALWAYS, /* nothing: record always */
	PFW_PLAN_STEPS,	 /* the program's steps */
	PFW_PLAN_TIME,	 /* the clock */
	PFW_PLAN_RANGE,	 /* cudaProfilerStart and cudaProfilerStop */
};

struct pfw_plan {
	enum pfw_plan_kind kind;
	struct pfw_schedule steps; /* STEPS */
	/* TIME: record from delay_ns on for duration_ns, again each every_ns (0 = once). */
	uint64_t delay_ns, duration_ns, every_ns;
};

/*
 * Read the value of PFW_SCHEDULE: "wait=1,warmup=1,active=3,repeat=2" (also skip_first,
 * skip_first_wait=0|1, discard_warmup=0|1), "delay=60s,duration=30s,every=10m" or "range".
 * False: it is none of these, and *plan is as it was.  Thread: any.
 */
bool pfw_plan_parse(struct pfw_plan *plan, const char *text);

/* Whether the figures make a schedule: active > 0, all at most PFW_SCHEDULE_MAX.  Thread: any. */
bool pfw_schedule_valid(const struct pfw_schedule *schedule);

/* What a TIME plan does `elapsed_ns` after its start; *until_ns gets when that ends, UINT64_MAX for
 * never.  Thread: any. */
bool pfw_plan_records_at(const struct pfw_plan *plan, uint64_t elapsed_ns, uint64_t *until_ns);

/* Torch's words for what is wrong, or doubtful, with a schedule. */
#define PFW_SCHEDULE_INVALID "Invalid profiler schedule arguments"
#define PFW_SCHEDULE_NO_WARMUP "Profiler won't be using warmup, this can skew profiler results"

#endif
