/* times.h - points in time as people give them, and what they are in given traces.
 *
 *   +12s  -5s      from the begin, from the end of all the traces
 *   50%            of the way from begin to end
 *   step:100       the begin of that step, in each rank its own
 *   1795230878627639.123   µs since the epoch
 *
 * Units: ns us µs ms s m h.  All is exact: int64 nanoseconds.
 */
#ifndef PFW_TIMES_H
#define PFW_TIMES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "traces.h"

enum pfw_time_kind {
	PFW_TIME_NONE,
	PFW_TIME_EPOCH,	  /* value: ns */
	PFW_TIME_BEGIN,	  /* ns behind the begin */
	PFW_TIME_END,	  /* ns before the end */
	PFW_TIME_PERCENT, /* thousandths of a percent */
	PFW_TIME_STEP,	  /* its number */
};

struct pfw_time {
	enum pfw_time_kind kind;
	int64_t value;
};

/* Read one.  Return 0, or -EINVAL with *why a constant text that says what is wanted. */
int pfw_time_parse(struct pfw_time *time, const char *text, const char **why);

/*
 * A decimal number with or without a unit, in thousandths: of a µs where the unit is one of time,
 * else of one (with `sizes`, also KiB MiB GiB TiB kB MB GB TB).  Return the bytes used, 0 where it is
 * no number of at most 22 digits that is whole in thousandths and fits.  *unit: whether there was one.
 */
size_t pfw_times_number(const char *text, size_t bytes, bool sizes, int64_t *thousandths,
			bool *unit);

/* ---- in traces ---- */

/* A step of one rank: its span. */
struct pfw_step_span {
	int64_t rank; /* -1: of no rank */
	int64_t step;
	int64_t begin_ns, end_ns;
};

/* From when to when traces go; least > greatest where no line has a time. */
struct pfw_extent {
	int64_t least_ns, greatest_ns;
	struct pfw_step_span *step; /* by rank, then step; only where they were asked for */
	size_t step_count;
};

struct pfw_extent_options {
	bool steps; /* find them, too */
	unsigned jobs;
	const volatile bool *stop;
	/* Hand lines that are in no file to take(), some whole ones at a time; 0 or what that said.
	 * NULL: there are none. */
	int (*more)(void *user,
		    int (*take)(void *search, size_t file, const char *text, size_t bytes),
		    void *search);
	void *user;
};

/*
 * Find it.  The summaries of blocks (members of ours, any indexed file) are believed; blocks without
 * one are read, all of them: nothing says in which line of a raw file the earliest begin or the
 * latest end is.  For steps everything is read.  Return 0, -ESPIPE for what can be read only once (a
 * pipe), -ENOMEM, -EINTR, or why a file cannot be read.  Damage is passed over here: who reads the
 * lines afterwards tells it.  Thread: any.
 */
int pfw_extent_find(struct pfw_extent *extent, const struct pfw_traces *traces,
		    const struct pfw_extent_options *options);
void pfw_extent_free(struct pfw_extent *extent);

/*
 * What `time` is for a trace of `rank` (-1: none: the least of any rank).  Return 0; -ENOENT where
 * there is no such step: *has gets the greatest one that there is, -1 for none; -ERANGE where no line
 * has a time.  A step's end is the begin of the next, whether that was recorded or not.
 */
int pfw_time_resolve(const struct pfw_time *time, const struct pfw_extent *extent, int64_t rank,
		     int64_t *ns, int64_t *has);

#endif
