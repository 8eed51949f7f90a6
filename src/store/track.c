/* track.c - spans on lanes; see track.h. */
#include "track.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>

/* Whether a span nests in what is still open on the lane once what is over is taken off. */
static bool fits(struct pfw_track_lane *lane, int64_t start_ns, int64_t end_ns)
{
	while (lane->depth && lane->end_ns[lane->depth - 1] <= start_ns)
		lane->depth--;
	return !lane->depth || lane->end_ns[lane->depth - 1] >= end_ns;
}

static int push(struct pfw_track_lane *lane, int64_t end_ns)
{
	if (lane->depth == lane->room) {
		uint32_t room = lane->room ? lane->room * 2 : 8;
		int64_t *more = realloc(lane->end_ns, room * sizeof(*more));

		if (!more)
			return -ENOMEM;
		lane->end_ns = more;
		lane->room = room;
	}
	lane->end_ns[lane->depth++] = end_ns;
	return 0;
}

int pfw_track_place(struct pfw_track *track, int64_t start_ns, int64_t end_ns)
{
	uint32_t number = 0;
	int error;

	while (number < track->lanes && !fits(&track->lane[number], start_ns, end_ns))
		number++;
	if (number == PFW_TRACK_LANES)
		return (int)number - 1;
	if (number == track->lanes) {
		struct pfw_track_lane *more =
			realloc(track->lane, (number + 1) * sizeof(*track->lane));

		if (!more)
			return -ENOMEM;
		track->lane = more;
		track->lane[track->lanes++] = (struct pfw_track_lane){ 0 };
	}
	error = push(&track->lane[number], end_ns);
	return error ? error : (int)number;
}

void pfw_track_free(struct pfw_track *track)
{
	for (uint32_t i = 0; i < track->lanes; i++)
		free(track->lane[i].end_ns);
	free(track->lane);
	*track = (struct pfw_track){ 0 };
}
