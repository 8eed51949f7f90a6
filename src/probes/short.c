/* short.c - calls shorter than PFW_MIN_DUR: added to a sum instead of recorded. */
#include "short.h"

#include <string.h>

#include "../clock.h"
#include "../config.h"
#include "../sums.h"
#include "calls_table.h"
#include "probe.h"

uint64_t pfw_short_ticks;

/* What a call has moved: value[0] bytes, value[0] items of value[2] bytes, or value[2] bytes. */
enum moves { NOTHING, RET, ITEMS, COUNT };

/* By call: the row that stands for all of the same name in the trace, and what it moves. */
static struct {
	uint16_t first;
	uint8_t moves;
} as[PFW_CALLS_MAX];

static enum moves moves_of(const char *name)
{
	static const char *const ret[] = { "read",    "pread",	  "readv",	     "preadv",
					   "preadv2", "write",	  "pwrite",	     "writev",
					   "pwritev", "pwritev2", "copy_file_range", "sendfile",
					   "splice",  "tee",	  "vmsplice",	     "fgets",
					   "gets",    "getline",  "getdelim",	     "printf",
					   "fprintf", "dprintf",  "vprintf",	     "vfprintf",
					   "vdprintf" };

	for (unsigned i = 0; i < PFW_ARRAY_LEN(ret); i++)
		if (!strcmp(name, ret[i]))
			return RET;
	if (!strcmp(name, "fread") || !strcmp(name, "fwrite"))
		return ITEMS;
	return strcmp(name, "fputs") && strcmp(name, "puts") ? NOTHING : COUNT;
}

void pfw_short_init(const struct pfw_config *config)
{
	size_t count, first;
	const struct pfw_call_info *call = pfw_calls_info(&count);

	pfw_short_ticks = config->min_dur_ns ? pfw_clock_ticks_of(config->min_dur_ns) : 0;
	for (size_t i = 0; pfw_short_ticks && i < count; i++) {
		for (first = 0; strcmp(call[first].canonical, call[i].canonical); first++)
			;
		as[i].first = (uint16_t)first;
		as[i].moves = (uint8_t)moves_of(call[i].canonical);
	}
}

static uint64_t bytes_of(uint16_t call, const uint64_t *value)
{
	if ((int64_t)value[0] <= 0 && as[call].moves != COUNT)
		return 0;
	switch ((enum moves)as[call].moves) {
	case RET:
		return value[0];
	case ITEMS:
		return value[0] * value[2];
	case COUNT:
		return value[2];
	case NOTHING:
		break;
	}
	return 0;
}

static bool sum(const struct pfw_probe *probe, uint64_t ticks, bool failed, const uint64_t *value,
		const struct pfw_sum_name *name)
{
	struct pfw_sum_call call = {
		.call = as[probe->call].first,
		.failed = failed,
		.ticks = ticks,
		.bytes = failed ? 0 : bytes_of(probe->call, value),
	};
	struct pfw_sums_chunk *sums = pfw_thread.ring->sums;

	if (!sums || !pfw_sums_add(sums, &call, name))
		return false;
	/* As for a record: the trace may have got its end meanwhile. */
	if (atomic_load_explicit(&pfw_live->api, memory_order_relaxed) & PFW_LIVE_ENDED)
		pfw_probe_straight();
	return true;
}

bool pfw_short_fd(const struct pfw_probe *probe, uint64_t ticks, bool failed, const uint64_t *value)
{
	const struct pfw_sum_name name = { .ref = probe->name };

	return probe->name != PFW_NAME_BY_LINK && sum(probe, ticks, failed, value, &name);
}

bool pfw_short_call(const struct pfw_probe *probe, uint64_t ticks, const struct pfw_ending *ending)
{
	struct pfw_sum_name name = { .ref = probe->name };

	if (ending->flags & PFW_RECORD_NO_RET || probe->name == PFW_NAME_BY_LINK)
		return false;
	if (ending->name) {
		name = (struct pfw_sum_name){ .directory = ending->name->directory,
					      .directory_bytes = ending->name->directory_bytes,
					      .text = ending->name->text,
					      .bytes = ending->name->text_bytes };
	}
	return sum(probe, ticks, ending->error != 0, ending->value, &name);
}
