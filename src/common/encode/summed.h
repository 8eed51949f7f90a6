/* common/encode/summed.h - the sums of short calls in the spool, as `summed` lines.
 *
 * recorder/spool/short_sums.h fills the entries; recovery reads those of a dead process.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "common/format/spool.h"

struct pfw_json;

/* The part of an entry that the trace does not have. */
struct pfw_sum_news {
	uint16_t call;
	uint32_t name;
	uint64_t count, failed, ticks, bytes;
};

/*
 * The difference between `sum` and `known`, without call and name.  False: there is none, or the
 * entry changes too fast to read.  Thread: any.
 */
bool pfw_summed_since(const struct pfw_sum *sum, const struct pfw_sum_figures *known,
		      struct pfw_sum_news *news);

/* The difference between an entry of a dead process and its last slot, which has this parity.
 * False: there is none, or the entry is damaged.  Thread: any. */
bool pfw_summed_left(const struct pfw_sum *sum, unsigned parity, struct pfw_sum_news *news);

/* Append the `summed` line: the calls since the previous one of this name and fname, which readers
 * add up.  Thread: drain. */
char *pfw_summed_line(struct pfw_json *json, char *out, const struct pfw_sum_news *news,
		      uint64_t ts_ns);
