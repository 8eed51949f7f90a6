/* recorder/probe/call_filter.c - selects the calls to record, and sums the short ones. */
#include "recorder/probe/call_filter.h"

#include <string.h>

#include "common/base/globs.h"
#include "common/format/clock.h"
#include "common/settings/config.h"
#include "recorder/probe/probe.h"
#include "recorder/spool/short_sums.h"

uint16_t pfw_call_filter[PFW_CALLS_MAX];
uint64_t pfw_short_ticks, pfw_wait_ticks, pfw_slow_ticks;

/* By call: the first row with the same name in the trace, and the bytes that it moves. */
static struct {
	uint16_t first;
	uint8_t moves; /* enum pfw_call_moves */
} as[PFW_CALLS_MAX];

static bool is_sync(const struct pfw_call_info *call)
{
	return !memcmp(call->category, "SYNC", sizeof("SYNC"));
}

/* Whether the text is the name of the category in small letters. */
static bool is_group(const char *text, size_t bytes, const char *category)
{
	for (size_t i = 0; i < bytes; i++)
		if (i >= strlen(category) || text[i] != (category[i] | 32))
			return false;
	return bytes == strlen(category);
}

/* Whether an item of PFW_CALLS names the call: a glob, or +GLOB or +CATEGORY. */
static bool names(const char *item, size_t bytes, const struct pfw_call_info *call)
{
	bool adds = *item == '+';

	item += adds;
	bytes -= adds;
	return pfw_glob_match(item, bytes, call->canonical, strlen(call->canonical)) ||
	       pfw_glob_match(item, bytes, call->name, strlen(call->name)) ||
	       (adds && is_group(item, bytes, call->category));
}

/* Whether PFW_CALLS selects the call.  Items with a + add to what the others select, or if there
 * are no others, to all calls but those that wait, which only a + selects. */
static bool is_listed(const char *list, const struct pfw_call_info *call)
{
	bool all = true, listed = false;
	size_t bytes;

	for (; list && *list; list += bytes + (list[bytes] == ',')) {
		bytes = strcspn(list, ",");
		if (*list == '+' && names(list, bytes, call))
			return true;
		all &= *list == '+' || !bytes;
		listed |= *list != '+' && names(list, bytes, call);
	}
	return (all || listed) && !is_sync(call);
}

static bool is_selected(const struct pfw_config *config, const struct pfw_call_info *call)
{
	const char *category = call->category;

	if (config->disable_io || (!strcmp(category, "POSIX") && config->disable_posix) ||
	    (!strcmp(category, "STDIO") && config->disable_stdio) ||
	    (!strcmp(category, "NET") && (config->disable_posix || !config->net)))
		return false;
	return is_listed(config->calls, call);
}

bool pfw_call_filter_sums(const struct pfw_config *config)
{
	return config->min_dur_ns || (config->sync_min_ns && pfw_calls_adds(config->calls));
}

/* All calls that do not wait, as in most programs: spares a thousand comparisons of names at each
 * start. */
static bool all_are_selected(const struct pfw_config *config)
{
	return !config->disable_io && !config->disable_posix && !config->disable_stdio &&
	       config->net && !config->calls;
}

static void set_up_short(const struct pfw_config *config)
{
	size_t count, first;
	const struct pfw_call_info *call = pfw_calls_info(&count);

	if (config->keep.bytes && config->dump_on.call_ns)
		pfw_slow_ticks = pfw_clock_ticks_of(config->dump_on.call_ns);
	pfw_short_ticks = config->min_dur_ns ? pfw_clock_ticks_of(config->min_dur_ns) : 0;
	if (pfw_slow_ticks && pfw_short_ticks > pfw_slow_ticks) /* what is slow is not summed */
		pfw_short_ticks = pfw_slow_ticks;
	pfw_wait_ticks = config->sync_min_ns ? pfw_clock_ticks_of(config->sync_min_ns) : 0;
	for (size_t i = 0; pfw_call_filter_sums(config) && i < count; i++) {
		for (first = 0; strcmp(call[first].canonical, call[i].canonical); first++)
			;
		as[i].first = (uint16_t)first;
		as[i].moves = call[i].moves;
	}
}

bool pfw_call_filter_init(const struct pfw_config *config)
{
	size_t count;
	const struct pfw_call_info *call = pfw_calls_info(&count);
	bool all = all_are_selected(config), any = false;

	set_up_short(config);
	for (size_t i = 0; i < count; i++) {
		bool selected = all ? !is_sync(&call[i]) : is_selected(config, &call[i]);

		pfw_call_filter[i] = selected ? (uint16_t)i : PFW_CALL_NONE;
		any |= pfw_call_filter[i] != PFW_CALL_NONE;
	}
	return any;
}

static bool matches_any(const char *glob, size_t bytes)
{
	size_t count;
	const struct pfw_call_info *call = pfw_calls_info(&count);

	for (size_t i = 0; i < count; i++)
		if (names(glob, bytes, &call[i]))
			return true;
	return false;
}

const char *pfw_call_filter_unmatched(const char *globs, size_t *bytes)
{
	for (; globs && *globs; globs += *bytes + (globs[*bytes] == ',')) {
		*bytes = strcspn(globs, ",");
		if (*bytes && !matches_any(globs, *bytes))
			return globs;
	}
	return NULL;
}

bool pfw_call_waits(unsigned call)
{
	size_t count;

	return is_sync(&pfw_calls_info(&count)[call]);
}

bool pfw_call_filter_wraps(unsigned call)
{
	size_t count;

	return pfw_calls_info(&count)[call].keeps || pfw_call_filter[call] != PFW_CALL_NONE;
}

/* ---- short calls ---- */

static uint64_t bytes_of(uint16_t call, const uint64_t *value)
{
	if (as[call].moves == PFW_MOVES_COUNT)
		return value[2];
	if ((int64_t)value[0] <= 0 || as[call].moves == PFW_MOVES_NOTHING)
		return 0;
	return as[call].moves == PFW_MOVES_ITEMS ? value[0] * value[2] : value[0];
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
	/* As for a record: the trace may have ended meanwhile. */
	if (atomic_load_explicit(&pfw_switches->api, memory_order_relaxed) & PFW_SWITCH_ENDED)
		pfw_probe_write_direct();
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
