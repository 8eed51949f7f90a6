/* common/settings/keep.h - the flight recorder: how much to keep, and when to dump it.
 *
 * PFW_KEEP and PFW_DUMP_ON as pure functions, and the median that step>Kx is about.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#define PFW_KEEP_LEAST_BYTES (1ull << 20)
#define PFW_KEEP_USUAL_BYTES (256ull << 20) /* where only a time is given: to begin with */
#define PFW_KEEP_LEAST_NS 100000000ull

/* What PFW_KEEP says: bytes 0 = no flight recorder; ns 0 = of any age. */
struct pfw_keep {
	uint64_t bytes, ns;
	bool grows; /* beyond `bytes`, while memory is available */
};

/* The conditions of PFW_DUMP_ON; 0 = no such condition. */
struct pfw_dump_on {
	uint64_t step_thousandths; /* of the median step */
	uint64_t call_ns;
	uint64_t max; /* dumps on these conditions */
};

/* Read "30s", "64MiB" or "30s,64MiB"; "step>2x,call>1s,max=10", in any order.  False: it is no such
 * text, and *out is as before.  Thread: any.  Signal: safe. */
bool pfw_keep_parse(struct pfw_keep *out, const char *text);
bool pfw_dump_on_parse(struct pfw_dump_on *out, const char *text);

#define PFW_STEPS_MEDIAN 255u /* newest steps that the median is of */
#define PFW_STEPS_LEAST 5u    /* fewer have no median */

/* The times of the newest steps.  Begin with zeroes. */
struct pfw_step_times {
	uint64_t sorted[PFW_STEPS_MEDIAN], newest[PFW_STEPS_MEDIAN];
	uint64_t count; /* so far */
};

/* Add a step.  Return the median of those before it, 0 if they are fewer than PFW_STEPS_LEAST. */
uint64_t pfw_step_times_add(struct pfw_step_times *times, uint64_t ns);
