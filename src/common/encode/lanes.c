/* common/encode/lanes.c - lanes: the tid and the thread name of each GPU stream. */
#include "common/encode/internal.h"

/* Lanes are numbered (device_index + 1) * 10^7 + context * 1000 + stream. */
#define LANE_DEVICE 10000000u
#define LANE_CONTEXT 1000u
#define LANE_DEVICES_MAX 100000u

#define DEVICE UINT64_MAX /* in place of a context: the device itself */
#define NAME_MAX_BYTES 256u

static bool lane_tid_taken(const struct pfw_json_cache *cache, uint64_t tid)
{
	unsigned int i;

	for (i = 0; i < PFW_JSON_LANES; i++)
		if (cache->lane[i].tid == tid)
			return true;
	return false;
}

static bool has(const struct pfw_json_pp *pp, enum pfw_pp_bit bit)
{
	return pp->mask & 1ull << bit;
}

/* Whether the event belongs to a lane; fills in device, context and stream. */
static bool lane_wanted(const struct pfw_json_source *source, const struct pfw_json_pp *pp,
			struct pfw_json_lane *lane)
{
	const uint64_t needs = 1ull << PFW_PP_BIT_device_index | 1ull << PFW_PP_BIT_stream;

	if (source->json->disable_tids || source->record->value[2] || (pp->mask & needs) != needs)
		return false;
	if (has(pp, PFW_PP_BIT_device) && !pp->value[PFW_PP_BIT_device])
		return false; /* the CPU */
	lane->device_index = pp->value[PFW_PP_BIT_device_index];
	lane->context = has(pp, PFW_PP_BIT_context) ? pp->value[PFW_PP_BIT_context] : 0;
	lane->stream = pp->value[PFW_PP_BIT_stream];
	return lane->device_index < LANE_DEVICES_MAX;
}

/* The entry of the lane, or the free entry that it will get.  NULL if the table is full (256
 * streams): then the lane has no name, and its number may not be unique. */
static struct pfw_json_lane *lane_find(struct pfw_json_cache *cache,
				       const struct pfw_json_lane *wanted)
{
	uint64_t hash = wanted->device_index * 31 + wanted->context * 7 + wanted->stream;
	unsigned int i;

	for (i = 0; i < PFW_JSON_LANES; i++) {
		struct pfw_json_lane *lane = &cache->lane[(hash + i) % PFW_JSON_LANES];

		if (!lane->tid ||
		    (lane->device_index == wanted->device_index &&
		     lane->context == wanted->context && lane->stream == wanted->stream))
			return lane;
	}
	return NULL;
}

/* The entry of the lane, made with a unique number if it is new.  NULL: the table is full. */
static struct pfw_json_lane *lane_take(struct pfw_json_cache *cache, struct pfw_json_lane *wanted)
{
	struct pfw_json_lane *lane = lane_find(cache, wanted);
	uint64_t number = (wanted->device_index + 1) * LANE_DEVICE +
			  wanted->context % (LANE_DEVICE / LANE_CONTEXT) * LANE_CONTEXT +
			  wanted->stream % LANE_CONTEXT;

	wanted->tid = number;
	if (!lane || lane->tid)
		return lane;
	while (lane_tid_taken(cache, wanted->tid))
		wanted->tid++;
	wanted->name = 0;
	wanted->named = false;
	*lane = *wanted;
	return lane;
}

/* ---- names ---- */

/* The entry for the name of a device or of a context.  NULL: the table is full. */
static struct pfw_json_place *place_find(struct pfw_json_cache *cache, uint64_t device_index,
					 uint64_t context)
{
	for (unsigned int i = 0; i < PFW_JSON_PLACES; i++) {
		struct pfw_json_place *place = &cache->place[i];

		if (!place->name ||
		    (place->device_index == device_index && place->context == context))
			return place;
	}
	return NULL;
}

/* Append a name in parentheses, within a string. */
static char *put_name(struct pfw_json_source *source, char *out, uint32_t ref)
{
	uint32_t bytes = 0;
	char *end;

	if (!ref || !pfw_string_text(source->json->strings, ref, &bytes) || bytes > NAME_MAX_BYTES)
		return out;
	end = pfw_json_put_ref(source, out + 1, ref, "\"\"");
	if (!end)
		return out;
	out[0] = ' ';
	out[1] = '(';
	end[-1] = ')';
	return end;
}

static char *lane_line(struct pfw_json_source *source, char *out, const struct pfw_json_lane *lane,
		       uint64_t ns)
{
	struct pfw_json_cache *cache = source->json->cache;
	const struct pfw_json_place *device = place_find(cache, lane->device_index, DEVICE);
	const struct pfw_json_place *context = place_find(cache, lane->device_index, lane->context);

	out = pfw_json_begin(source->json, out, "thread_name", "M", lane->tid, ns);
	out = pfw_append(out, "\"name\":\"GPU ");
	out = pfw_append_u64(out, lane->device_index);
	out = put_name(source, out, device ? device->name : 0);
	if (context && context->name) {
		out = pfw_append_u64(pfw_append(out, " context "), lane->context);
		out = put_name(source, out, context->name);
	}
	out = pfw_append(out, " stream ");
	out = pfw_append_u64(out, lane->stream);
	out = put_name(source, out, lane->name);
	*out++ = '"';
	return pfw_json_end(source->json, out);
}

char *pfw_json_name_lane(struct pfw_json_source *source, const struct pfw_json_pp *pp, char *out,
			 uint64_t ns)
{
	uint32_t name = (uint32_t)source->record->value[0];
	struct pfw_json_lane wanted, *lane;
	struct pfw_json_place *place;

	if (lane_wanted(source, pp, &wanted)) {
		lane = lane_take(source->json->cache, &wanted);
		if (!lane)
			return out;
		lane->name = name;
		return lane->named ? lane_line(source, out, lane, ns) : out;
	}
	if (!has(pp, PFW_PP_BIT_device_index) || has(pp, PFW_PP_BIT_stream))
		return out;
	wanted.device_index = pp->value[PFW_PP_BIT_device_index];
	wanted.context = has(pp, PFW_PP_BIT_context) ? pp->value[PFW_PP_BIT_context] : DEVICE;
	place = place_find(source->json->cache, wanted.device_index, wanted.context);
	if (place)
		*place = (struct pfw_json_place){ wanted.device_index, wanted.context, name };
	return out;
}

/* ---- numbers ---- */

char *pfw_json_pp_tid(struct pfw_json_source *source, const struct pfw_json_pp *pp, char *out,
		      uint64_t *tid, uint64_t ns)
{
	struct pfw_json_lane wanted, *lane;

	if (source->record->value[2])
		*tid = source->record->value[2];
	if (!lane_wanted(source, pp, &wanted))
		return out;
	lane = lane_take(source->json->cache, &wanted);
	*tid = lane ? lane->tid : wanted.tid;
	if (PFW_LIKELY(!lane || lane->named))
		return out;
	lane->named = true;
	return lane_line(source, out, lane, ns);
}
