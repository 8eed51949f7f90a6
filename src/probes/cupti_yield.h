/* cupti_yield.h - another client of CUPTI in the same process: torch.profiler, above all.
 *
 * Where we are alone, as before 13.3, CUPTI has one set of kinds and one pair of buffer callbacks: who
 * registers last gets all records, and who disables a kind takes it from all.  So the calls by which
 * another client begins and ends are led past us (their slots in loaded objects, as attach.c does it with
 * libc's): while it records we keep off, its profile is whole, and we come back when it has disabled what
 * it enabled.
 */
#ifndef PFW_CUPTI_YIELD_H
#define PFW_CUPTI_YIELD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* What the probe does then; set before the first look. */
struct pfw_cupti_yield_host {
	void (*yield)(void);	 /* another client registers, in this thread: leave CUPTI to it */
	void (*come_back)(void); /* it has disabled its last kind */
	bool (*ours)(uint32_t kind); /* recorded by us now: to be enabled again at once */
};
extern struct pfw_cupti_yield_host pfw_cupti_yield_host;

/* Whether a client is loaded that cannot be one of several: the clock that it brings is refused there (not
 * compatible), and without it torch.profiler drops what CUPTI tells it.  Thread: any.  Signal: unsafe. */
bool pfw_cupti_yield_expected(void);

/* Find the calls in what has been loaded since the last look.  Thread: any, one at a time.  Signal:
 * unsafe (dl_iterate_phdr). */
void pfw_cupti_yield_look(void);

/* Whether another client has kinds enabled, as far as was seen; whether it has this one. */
bool pfw_cupti_yield_taken(void);
bool pfw_cupti_yield_theirs(uint32_t kind);

/* Whether it has CUPTI ask a clock of its own, which no call takes back.  Thread: any. */
bool pfw_cupti_yield_clock(void);

/* A finished buffer that is not ours is the other client's: hand it over.  Thread: cupti. */
void pfw_cupti_yield_completed(void *context, uint32_t stream, uint8_t *buffer, size_t bytes,
			       size_t valid_bytes);

#endif
