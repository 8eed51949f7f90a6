/* stepper.h - the schedule in force: counts the program's steps and switches the recording. */
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
	/* Where steps are noted for the writer; NULL = no room for it. */
	struct pfw_steps_chunk *(*marks)(void);
	/* The marks are all in use: get events written, so that some are not.  False: in vain. */
	bool (*drain)(void);
	/* Write all that was recorded, and a `segment` line.  What it fills in: path, ids, counts. */
	int (*segment)(struct pfw_segment *segment);
};
extern struct pfw_stepper_host pfw_stepper_host;

/* Put a plan in force; step 0 begins.  Thread: init.  Signal: unsafe. */
void pfw_stepper_begin(const struct pfw_plan *plan);

/* The trace is about to end: a cycle that is being recorded gets its step and its segment.  With
 * `call` the hook is called for it.  Thread: app.  Signal: unsafe. */
void pfw_stepper_end(bool call);

/* A forked child steps no more: what of its parent's steps it records is its parent's business.
 * Thread: the child's first. */
void pfw_stepper_forked(void);

#endif
