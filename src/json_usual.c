/* json_usual.c - what the lines of GPU work leave out, since a reader knows it.
 *
 * A program makes millions of them, and on nearly all these are the same.  README.rst tells readers what
 * stands for what is not there; none of it depends on the order of the lines, but for the channel.
 */
#include "json_line.h"

static uint64_t bit(enum pfw_pp_bit which)
{
	return 1ull << which;
}

static uint64_t mix(uint64_t hash, uint64_t value)
{
	hash = (hash ^ value) * 0x9e3779b97f4a7c15ull;
	return hash ^ hash >> 29;
}

/*
 * Whether a kernel of this shape has been told how much of the device it fills: that follows from the
 * rest of the line.  64 bits of a hash stand for a shape; where two want one place both are told again.
 */
static bool occupancy_told(struct pfw_json_cache *cache, const struct pfw_json_pp *pp)
{
	static const uint8_t of[] = { PFW_PP_BIT_device_index, PFW_PP_BIT_grid,
				      PFW_PP_BIT_block,	       PFW_PP_BIT_registers,
				      PFW_PP_BIT_static_smem,  PFW_PP_BIT_dynamic_smem,
				      PFW_PP_BIT_occupancy };
	uint64_t hash = 1, *place;

	for (unsigned int i = 0; i < PFW_ARRAY_LEN(of); i++)
		hash = mix(hash, pp->mask & bit(of[i]) ? pp->value[of[i]] : 0);
	place = &cache->shape_told[hash % PFW_JSON_SHAPES];
	if (*place == hash)
		return true;
	*place = hash;
	return false;
}

/* Of its stream's kernel before this one. */
static bool same_channel(struct pfw_json_lane *lane, uint64_t channel)
{
	if (lane->channel == channel + 1)
		return true;
	lane->channel = channel + 1;
	return false;
}

static bool is(const struct pfw_json_pp *pp, enum pfw_pp_bit which, uint64_t value)
{
	return pp->mask & bit(which) && pp->value[which] == value;
}

uint64_t pfw_json_usual(const struct pfw_json_source *source, const struct pfw_json_pp *pp)
{
	bool gpu = !is(pp, PFW_PP_BIT_device, 0);
	uint64_t usual = bit(PFW_PP_BIT_device); /* its kind says that */

	if (!(source->record->flags & PFW_RECORD_TERSE))
		return 0;
	if (is(pp, PFW_PP_BIT_device_index, gpu ? 0 : (uint64_t)-1))
		usual |= bit(PFW_PP_BIT_device_index);
	if (is(pp, PFW_PP_BIT_context, 1))
		usual |= bit(PFW_PP_BIT_context);
	if (pp->lane && pp->lane->tells)
		usual |= bit(PFW_PP_BIT_stream);
	if (pp->lane && pp->mask & bit(PFW_PP_BIT_channel) &&
	    same_channel(pp->lane, pp->value[PFW_PP_BIT_channel]))
		usual |= bit(PFW_PP_BIT_channel);
	if (pp->mask & bit(PFW_PP_BIT_occupancy) && occupancy_told(source->json->cache, pp))
		usual |= bit(PFW_PP_BIT_occupancy);
	return usual;
}
