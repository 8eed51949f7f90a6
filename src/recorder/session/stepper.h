/* recorder/session/stepper.h - runs the schedule: counts steps and switches the recording.
 *
 * Recording is switched by the schedule (by the program's steps or by the clock), by requests from
 * outside on the control page (common/format/control.h), and, in a process that has not made a step
 * of its own, by the ancestor that it follows (the leader): it copies the state on the leader's
 * control page.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "common/format/spool.h"
#include "common/settings/schedule.h"

/*
 * Put a plan in force.  Step 0 begins, unless this process follows `leader`, the header of another
 * process that is mapped for good (NULL = none); it follows until it makes a step.  `named`: the
 * first step begins with the first pfw_stepper_named(); earlier events belong to no step and are
 * recorded if that step is.  Thread: init.  Signal: unsafe.
 */
void pfw_stepper_begin(const struct pfw_plan *plan, const struct pfw_spool_header *leader,
		       bool named);

/* pfw_start() has turned recording on: a schedule that was set before comes into force.  Thread: app.
 * Signal: unsafe. */
void pfw_stepper_started(void);

/* The program begins a span whose name counts as a step.  `automatic`: ignored once the program has
 * called pfw_step().  Keeps errno.  Thread: app. */
void pfw_stepper_named(bool automatic);

/* The automatic step that is open is none: the loader was asked for a batch and had none left.  The
 * next step gets its number; events until then belong to no step.  Keeps errno.  Thread: app. */
void pfw_stepper_none(void);

/*
 * The program enters or leaves a range of a RANGE plan.  Each range is a cycle, whose hook is
 * called here.  A repeated call changes nothing.  Under another plan: does nothing.  Keeps errno.
 * Thread: app.  Signal: unsafe.
 */
void pfw_stepper_range(bool inside);

/* Whether there was a range.  Thread: any. */
bool pfw_stepper_ranged(void);

/* Whether names begin steps (PFW_STEP), there were spans, and none of them had such a name. */
bool pfw_stepper_unnamed(void);

/* Set this process's control page.  Thread: init. */
void pfw_stepper_page(struct pfw_control *own);

/* Handle requests, the clock and the leader.  *watch gets the word to wait on until the next tick,
 * *nap_ns the longest wait (0 = no end).  Thread: drain. */
void pfw_stepper_tick(struct pfw_watch *watch, uint64_t *nap_ns);

/* The trace is about to end: a cycle that is being recorded gets its step and its segment.  `call`:
 * also call its hook.  Thread: app.  Signal: unsafe. */
void pfw_stepper_end(bool call);

/* An exec is about to begin: such a cycle gets its segment.  If the exec fails the cycle goes on,
 * and gets another one.  Thread: app.  Signal: unsafe. */
void pfw_stepper_exec(void);

/* A forked child follows its parent (`leader`; NULL = they share no memory) until it makes a step,
 * which then is step 0.  Thread: the child's first. */
void pfw_stepper_forked(const struct pfw_spool_header *leader);
