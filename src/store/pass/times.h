/* store/pass/times.h - times on the command line, and what they are in given traces.
 *
 *   +12s  -5s      after the begin, before the end of all traces
 *   50%            of the time from begin to end
 *   step:100       the begin of that step, in each rank its own
 *   1795230878627639.123   µs since the epoch
 *
 * Units: ns us µs ms s m h.  All is exact: int64 nanoseconds.
 */
#pragma once

#include "store/traces/traces.h"

enum pfw_time_kind {
	PFW_TIME_NONE,
	PFW_TIME_EPOCH,	  /* value: ns */
	PFW_TIME_BEGIN,	  /* ns after the begin */
	PFW_TIME_END,	  /* ns before the end */
	PFW_TIME_PERCENT, /* thousandths of a percent */
	PFW_TIME_STEP,	  /* its number */
};

struct pfw_time {
	enum pfw_time_kind kind;
	int64_t value;
};

/* Parse a time.  Return 0, or -EINVAL with the accepted forms, a constant text, in *why. */
int pfw_time_parse(struct pfw_time *time, const char *text, const char **why);

/* ---- in traces ---- */

/* A step of one rank: its span. */
struct pfw_step_span {
	int64_t rank; /* -1: of no rank */
	int64_t step;
	int64_t begin_ns, end_ns;
};

/* The time range of traces; least > greatest if no line has a time. */
struct pfw_extent {
	int64_t least_ns, greatest_ns;
	struct pfw_step_span *step; /* by rank, then step; only if requested */
	size_t step_count;
};

struct pfw_extent_options {
	bool steps; /* find the steps, too */
	unsigned jobs;
	const _Atomic bool *stop;
	/* Call take() for lines that are in no file, some whole lines at a time.  Return 0, or its
	 * error.  NULL: there are none. */
	int (*more)(void *user,
		    int (*take)(void *search, size_t file, const char *text, size_t bytes),
		    void *search);
	void *user;
	/* Of steps: whether to read a block; NULL: all. */
	bool (*want)(const void *select, size_t file, const struct pfw_block *block);
	const void *select;
};

/*
 * Find the time range.  Summaries of blocks (members of ours, any indexed file) are trusted; blocks
 * without one are read completely, because any line of a raw file may have the earliest begin or
 * the latest end.  For steps all blocks are read.  Return 0, -ESPIPE for a pipe, -ENOMEM, -EINTR,
 * or the error of a file.  Damage is ignored here: the pass over the lines reports it.  Thread:
 * any.
 */
int pfw_extent_find(struct pfw_extent *extent, const struct pfw_traces *traces,
		    const struct pfw_extent_options *options);
void pfw_extent_free(struct pfw_extent *extent);

/*
 * Resolve `time` for a trace of `rank` (-1, none: the least of any rank).  Return 0; -ENOENT if
 * there is no such step, with the greatest step (-1: none) in *has; -ERANGE if no line has a time.
 * A step lasts until the begin of the next, also if that was not recorded.
 */
int pfw_time_resolve(const struct pfw_time *time, const struct pfw_extent *extent, int64_t rank,
		     int64_t *ns, int64_t *has);
