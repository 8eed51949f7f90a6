/* recorder/sample/counters.h - samples the process: memory, CPU, bytes, page faults, threads.
 *
 * Room recorder/sample: Periodic samples of the process and its GPUs, as counter lines.  It may use
 * common, guest and spool.  Start at pfw_counters_tick(); nvml.h has the GPUs' part.
 *
 * The writer's thread samples between two passes over the rings.  Its own usage is subtracted.
 * Cumulative figures are written as the growth since the sample before, so they may be added up.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "common/format/record.h"

#define PFW_COUNTER_TAIL_BYTES 192u

/* A counter line under construction: a name and some numbers. */
struct pfw_counter_record {
	struct pfw_record head;
	unsigned char tail[PFW_COUNTER_TAIL_BYTES];
	uint32_t name_bytes, used;
};

/* Begin a line taken at ts_ns (since the epoch), add its numbers, and get its size in slots.
 * Numbers that do not fit are left out.  Thread: drain. */
void pfw_counter_begin(struct pfw_counter_record *line, const char *name, uint64_t ts_ns);
void pfw_counter_u64(struct pfw_counter_record *line, const char *key, uint64_t value);
void pfw_counter_f64(struct pfw_counter_record *line, const char *key, double value);
unsigned pfw_counter_end(struct pfw_counter_record *line);

/* Functions of the session that samples call. */
struct pfw_counters_host {
	uint16_t template; /* of the API's records */
	void (*put)(const struct pfw_record *record, unsigned slots);
	/* Whether this thread may call NVML. */
	bool (*gpu)(void);
	/* Threads of this process that belong to the recorder. */
	unsigned (*threads)(void);
};

/* Sample every `period_ns` from the first tick on; 0 = never.  Thread: init. */
void pfw_counters_init(const struct pfw_counters_host *host, uint64_t period_ns);

/* Sample if it is time; write nothing while `on` is false.  Return the time until the next sample
 * (0 = none).  Thread: drain. */
uint64_t pfw_counters_tick(bool on);

/* A forked child starts from zero.  Thread: the child's first. */
void pfw_counters_forked(void);
