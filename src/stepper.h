/* stepper.h - the schedule in force: counts the program's steps and switches the recording.
 *
 * Who switches it: the schedule, by the program's steps or by the clock; somebody outside, through the
 * control page (control.h); and, in a process that has not stepped itself, the process that it
 * descends from: it does what the other one's control page says.
 */
#ifndef PFW_STEPPER_H
#define PFW_STEPPER_H

#include <stdbool.h>
#include <stdint.h>

#include "schedule.h"
#include "spool.h"

/* What session does for the stepper. */
struct pfw_stepper_host {
	/* Whether this process records or could; false: pfw_step() does nothing. */
	bool (*ready)(void);
	/* Switch all probes on or off. */
	void (*record)(bool on);
	/* Whether the caller is the writer's thread, which records by no ring and runs no hook. */
	bool (*is_writer)(void);
	void (*put)(const struct pfw_compute *event);
	/* Where steps are noted for the writer; NULL = no room for it. */
	struct pfw_steps_chunk *(*marks)(void);
	/* The marks are all in use: get events written, so that some are not.  False: in vain. */
	bool (*drain)(void);
	/* Write all that was recorded, and a `segment` line.  What it fills in: path, ids, counts. */
	int (*segment)(struct pfw_segment *segment);
};
extern struct pfw_stepper_host pfw_stepper_host;

/* Put a plan in force: step 0 begins; but as long as this process does not step itself it follows
 * `leader`, a process's header that is mapped for good (NULL = none).  `named`: the first step begins
 * with the first pfw_stepper_named(); what comes before it is recorded where that step is, and is of
 * none.  Thread: init.  Signal: unsafe. */
void pfw_stepper_begin(const struct pfw_plan *plan, const struct pfw_spool_header *leader,
		       bool named);

/* The program begins something whose name counts as a step; `automatic`: only as long as it does not
 * call pfw_step().  Keeps errno.  Thread: app. */
void pfw_stepper_named(bool automatic);

/* The program is inside one of the ranges that a RANGE plan records, or no longer.  Each is a cycle,
 * whose hook is called here; to begin or end what is begun or ended changes nothing.  Under another
 * plan: does nothing.  Keeps errno.  Thread: app.  Signal: unsafe. */
void pfw_stepper_range(bool inside);

/* Whether there was one.  Thread: any. */
bool pfw_stepper_ranged(void);

/* Where this process's control page is from now on.  Thread: init. */
void pfw_stepper_page(struct pfw_control *own);

/* What is to be done without the program: requests, the clock, the leader.  *watch gets what to wait
 * for until the next tick, *nap_ns how long at most (0 = no end).  Thread: drain. */
void pfw_stepper_tick(struct pfw_watch *watch, uint64_t *nap_ns);

/* The trace is about to end: a cycle that is being recorded gets its step and its segment.  With
 * `call` the hook is called for it.  Thread: app.  Signal: unsafe. */
void pfw_stepper_end(bool call);

/* The process is about to become another program: such a cycle gets its segment.  Where that fails the
 * cycle goes on, and gets another one.  Thread: app.  Signal: unsafe. */
void pfw_stepper_exec(void);

/* A forked child follows its parent (`leader`; NULL where it shares no memory with it) until it steps
 * itself: then it begins at step 0.  Thread: the child's first. */
void pfw_stepper_forked(const struct pfw_spool_header *leader);

#endif
