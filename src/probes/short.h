/* short.h - calls shorter than PFW_MIN_DUR: added to a sum instead of recorded. */
#ifndef PFW_SHORT_H
#define PFW_SHORT_H

#include <stdbool.h>
#include <stdint.h>

struct pfw_config;
struct pfw_ending;
struct pfw_probe;

/* Calls of fewer ticks are short; 0 = none is. */
extern uint64_t pfw_short_ticks;

/* Set it from config->min_dur_ns.  Thread: init. */
void pfw_short_init(const struct pfw_config *config);

/*
 * Sum a short call on a descriptor, or any short call, as pfw_probe_end() and pfw_probe_end_full()
 * got it.  False: it is to be recorded after all, since it has not returned, or there is no room.
 * This thread has its ring.  Keeps errno.  Thread: app.  Signal: safe.
 */
bool pfw_short_fd(const struct pfw_probe *probe, uint64_t ticks, bool failed,
		  const uint64_t *value);
bool pfw_short_call(const struct pfw_probe *probe, uint64_t ticks, const struct pfw_ending *ending);

#endif
