/* counters.h - what the process uses, sampled: memory, CPU, bytes, page faults, threads.
 *
 * The writer's thread samples between two looks at the rings.  What that thread uses itself is not the
 * program's, and is taken off.  Figures that the kernel counts up are written as what came since the
 * sample before, so they may be added up.
 */
#ifndef PFW_COUNTERS_H
#define PFW_COUNTERS_H

#include <stdbool.h>
#include <stdint.h>

#include "record.h"

#define PFW_COUNTER_TAIL_BYTES 192u

/* One counter line to be: a name and some numbers. */
struct pfw_counter_record {
	struct pfw_record head;
	unsigned char tail[PFW_COUNTER_TAIL_BYTES];
	uint32_t name_bytes, used;
};

/* Begin a line taken at ts_ns (of the epoch), add its numbers, and get how many slots it has.  What
 * does not fit is left out.  Thread: drain. */
void pfw_counter_begin(struct pfw_counter_record *line, const char *name, uint64_t ts_ns);
void pfw_counter_u64(struct pfw_counter_record *line, const char *key, uint64_t value);
void pfw_counter_f64(struct pfw_counter_record *line, const char *key, double value);
unsigned pfw_counter_end(struct pfw_counter_record *line);

/* What session does for the samples. */
struct pfw_counters_host {
	uint16_t template; /* of the API's records */
	/* Write a record. */
	void (*put)(const struct pfw_record *record, unsigned slots);
	/* Whether this thread may ask for the GPUs' figures. */
	bool (*gpu)(void);
	/* Threads of this process that are the recorder's. */
	unsigned (*threads)(void);
};

/* Sample every `period_ns` from the first tick on; 0 = never.  Thread: init. */
void pfw_counters_init(const struct pfw_counters_host *host, uint64_t period_ns);

/* Sample where it is time to; nothing is written while `on` is false.  How long until the next one
 * (0 = there is none).  Thread: drain. */
uint64_t pfw_counters_tick(bool on);

/* A forked child begins anew.  Thread: the child's first. */
void pfw_counters_forked(void);

#endif
