/* recorder/probe/call_filter.h - which calls are recorded (PFW_CALLS, DFTRACER_DISABLE_*), and
 * which are summed instead (PFW_MIN_DUR).
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "common/calls/table.h"

struct pfw_config;
struct pfw_ending;
struct pfw_probe;

/* By enum pfw_call: the call itself if it is recorded, else PFW_CALL_NONE.  Only wrappers that must
 * always run (CALL_KEEPS) look here; other unrecorded calls have no wrapper in place. */
extern uint16_t pfw_call_filter[PFW_CALLS_MAX];

/* Fill it from the variables.  False: PFW_CALLS matches no call.  Thread: init. */
bool pfw_call_filter_init(const struct pfw_config *config);

/* The first glob of PFW_CALLS that no call matches, in *bytes bytes; NULL = each matches one.
 * Thread: init. */
const char *pfw_call_filter_unmatched(const char *globs, size_t *bytes);

/* Whether a call waits in a lock or sleeps (cat SYNC).  Thread: init. */
bool pfw_call_waits(unsigned call);

/* Whether a call needs its wrapper.  Thread: init. */
bool pfw_call_filter_wraps(unsigned call);

/* A call of fewer ticks is short; 0 = none.  Set by pfw_call_filter_init(). */
extern uint64_t pfw_short_ticks;

/* The same for a call that waits (PFW_SYNC_MIN).  Set as above. */
extern uint64_t pfw_wait_ticks;

/* Whether short calls are summed, which takes a table for each thread.  Thread: init. */
bool pfw_call_filter_sums(const struct pfw_config *config);

/* A call of more ticks is slow, and asks for a dump; 0 = none.  Set as above. */
extern uint64_t pfw_slow_ticks;

/*
 * Sum a short call on a descriptor, or any short call, with the arguments of pfw_probe_end() and
 * pfw_probe_end_full().  False: record it, since it has not returned or there is no room.  This
 * thread has its ring.  Keeps errno.  Thread: app.  Signal: safe.
 */
bool pfw_short_fd(const struct pfw_probe *probe, uint64_t ticks, bool failed,
		  const uint64_t *value);
bool pfw_short_call(const struct pfw_probe *probe, uint64_t ticks, const struct pfw_ending *ending);
