/* track.h - the spans of a thread or a stream on lanes, so that on each lane they nest.
 *
 * Viewers draw one row a thread and drop, or draw wrongly, what begins in one span and ends behind
 * it.  The spans come in order of their begins, the longest first (ordered.h).
 */
#ifndef PFW_TRACK_H
#define PFW_TRACK_H

#include <stdint.h>

#define PFW_TRACK_LANES 1024u /* more that run at a time share the last one */

struct pfw_track_lane {
	int64_t *end_ns; /* of the spans that are not over, the innermost last */
	uint32_t depth, room;
};

/* All zero: empty. */
struct pfw_track {
	struct pfw_track_lane *lane;
	uint32_t lanes; /* that were used */
};

/* The lane of the next span, from 0 on, or -ENOMEM.  Thread: one at a time for one track. */
int pfw_track_place(struct pfw_track *track, int64_t start_ns, int64_t end_ns);
void pfw_track_free(struct pfw_track *track);

#endif
