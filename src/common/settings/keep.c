/* common/settings/keep.c - PFW_KEEP and PFW_DUMP_ON; see keep.h. */
#include "common/settings/keep.h"

#include <string.h>

#include "common/base/order.h"
#include "common/base/text.h"
#include "common/base/units.h"

#define MAX_USUAL 10u
#define MAX_MAX 1000000u

/* The length of the part at `text`: up to a comma or the end. */
static size_t part_bytes(const char *text)
{
	return strcspn(text, ",");
}

/* Go past this part and its comma.  NULL: it was the last. */
static const char *next_part(const char *text)
{
	text += part_bytes(text);
	return *text ? text + 1 : NULL;
}

bool pfw_keep_parse(struct pfw_keep *out, const char *text)
{
	struct pfw_keep keep = { 0 };

	for (const char *at = text; at; at = next_part(at)) {
		size_t bytes = part_bytes(at);
		uint64_t value;

		if (!keep.ns && pfw_units_ns(at, bytes, &value) && value >= PFW_KEEP_LEAST_NS)
			keep.ns = value;
		else if (!keep.bytes && pfw_units_size(at, bytes, &value) &&
			 value >= PFW_KEEP_LEAST_BYTES)
			keep.bytes = value;
		else
			return false;
	}
	keep.grows = !keep.bytes;
	if (keep.grows)
		keep.bytes = PFW_KEEP_USUAL_BYTES;
	*out = keep;
	return true;
}

/* Whether a part begins with `key`; *value gets the rest of it, and *bytes its length. */
static bool key_is(const char *part, const char *key, const char **value, size_t *bytes)
{
	size_t skip = strlen(key);

	if (strncmp(part, key, skip) != 0)
		return false;
	*value = part + skip;
	*bytes = part_bytes(part) - skip;
	return true;
}

/* "2x", "1.5x" */
static bool read_factor(const char *text, size_t bytes, uint64_t *thousandths)
{
	int64_t value;
	bool unit;

	if (bytes < 2 || text[bytes - 1] != 'x' ||
	    pfw_units_read(text, bytes - 1, 0, &value, &unit) != bytes - 1 || value <= 1000)
		return false;
	*thousandths = (uint64_t)value;
	return true;
}

bool pfw_dump_on_parse(struct pfw_dump_on *out, const char *text)
{
	struct pfw_dump_on on = { .max = MAX_USUAL };

	for (const char *at = text; at; at = next_part(at)) {
		const char *value;
		size_t bytes;
		bool good = false;

		if (key_is(at, "step>", &value, &bytes))
			good = read_factor(value, bytes, &on.step_thousandths);
		else if (key_is(at, "call>", &value, &bytes))
			good = pfw_units_ns(value, bytes, &on.call_ns) && on.call_ns;
		else if (key_is(at, "max=", &value, &bytes))
			good = pfw_text_read_u64(value, &on.max) == value + bytes && on.max &&
			       on.max <= MAX_MAX;
		if (!good)
			return false;
	}
	if (!on.step_thousandths && !on.call_ns)
		return false;
	*out = on;
	return true;
}

/* The place of the first step that is not shorter. */
static unsigned place_of(const struct pfw_step_times *times, unsigned count, uint64_t ns)
{
	return (unsigned)PFW_BISECT(at, count, times->sorted[at] < ns);
}

uint64_t pfw_step_times_add(struct pfw_step_times *times, uint64_t ns)
{
	uint64_t *newest = &times->newest[times->count % PFW_STEPS_MEDIAN], *sorted = times->sorted;
	unsigned count = times->count < PFW_STEPS_MEDIAN ? (unsigned)times->count
							 : PFW_STEPS_MEDIAN;
	uint64_t median = count < PFW_STEPS_LEAST ? 0 : sorted[count / 2];
	unsigned at;

	if (count == PFW_STEPS_MEDIAN) {
		at = place_of(times, count--, *newest);
		memmove(sorted + at, sorted + at + 1, (count - at) * sizeof(*sorted));
	}
	at = place_of(times, count, ns);
	memmove(sorted + at + 1, sorted + at, (count - at) * sizeof(*sorted));
	sorted[at] = *newest = ns;
	times->count++;
	return median;
}
