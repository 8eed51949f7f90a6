/* store/math/sampled.h - the course of a series of calls, by a sample of bounded size.
 *
 * Successive durations are correlated, so the usual standard error of a mean is far too small.
 * Means of long enough parts of the series are nearly independent (batch means; Law and Carson
 * 1979).  The parts are cut from a sample of the calls: a call has the level n with the probability
 * 2^-(n+1), by a hash of what identifies it, not of its duration; the sample is all calls of the
 * least level, and of those above, that leaves at most so many (adaptive sampling: Wegman; Flajolet
 * 1990).  So the sample of a union is made from the samples of its parts, whatever the parts are,
 * in any order.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "store/kit/hash.h"

#define PFW_SAMPLED_MAX 1024u /* no sample has more calls */
#define PFW_SAMPLE_LEVELS 64u
#define PFW_SAMPLE_NS_MAX ((INT64_C(1) << 58) - 1)

struct pfw_sample {
	int64_t ts_ns;
	uint64_t packed; /* of pfw_sample_of(): a word, not two bit-fields, is stored at once */
};

/* level < PFW_SAMPLE_LEVELS; dur_ns: at most PFW_SAMPLE_NS_MAX. */
static inline struct pfw_sample pfw_sample_of(int64_t ts_ns, unsigned level, uint64_t dur_ns)
{
	return (struct pfw_sample){ .ts_ns = ts_ns, .packed = dur_ns << 6 | level };
}

static inline unsigned pfw_sample_get_level(const struct pfw_sample *sample)
{
	return sample->packed & (PFW_SAMPLE_LEVELS - 1);
}

static inline uint64_t pfw_sample_get_ns(const struct pfw_sample *sample)
{
	return sample->packed >> 6;
}

/* All zero: empty. */
struct pfw_sampled {
	struct pfw_sample *sample;
	uint32_t count;
	uint32_t level; /* the least of the sample */
	size_t room;	/* private */
};

/* The level of a call, from numbers that identify it.  Thread: any, as all here; one sample by one
 * thread at a time. */
static inline unsigned pfw_sample_level(uint64_t a, uint64_t b)
{
	uint64_t hash = pfw_hash_mix(pfw_hash_mix(a ^ 0x9e3779b97f4a7c15u, 0xd6e8feb86659fd93u) ^ b,
				     0xa0761d6478bd642fu);

	return hash ? (unsigned)__builtin_ctzll(hash) : 63;
}

/* Raise the level until at most `most` calls are left. */
void pfw_sampled_limit(struct pfw_sampled *sampled, uint32_t most);

/* Make room for `more` calls.  0 or -ENOMEM. */
int pfw_sampled_reserve(struct pfw_sampled *sampled, size_t more);

/* Add a call for which there may be no room. */
int pfw_sampled_add_more(struct pfw_sampled *sampled, struct pfw_sample sample, uint32_t most);

/* Add one call to a sample of at most `most` calls, which may become less, never more.  0 or
 * -ENOMEM. */
static inline int pfw_sampled_add(struct pfw_sampled *sampled, struct pfw_sample sample,
				  uint32_t most)
{
	if (pfw_sample_get_level(&sample) < sampled->level)
		return 0;
	if (sampled->count >= sampled->room || sampled->count >= most)
		return pfw_sampled_add_more(sampled, sample, most);
	sampled->sample[sampled->count++] = sample;
	return 0;
}

/* Add all of `from`.  0 or -ENOMEM. */
int pfw_sampled_merge(struct pfw_sampled *into, const struct pfw_sampled *from, uint32_t most);

/* Sort by time, as pfw_sampled_parts() needs. */
void pfw_sampled_sort(struct pfw_sampled *sampled);

/*
 * Store for each of `parts` equal parts of the sample the trimmed mean of the logarithms of its
 * durations in ns: without the greatest and the least fifth, because one call that waited would
 * dominate.  `parts` is at most the number of calls, of which there are at most PFW_SAMPLED_MAX.
 */
void pfw_sampled_parts(const struct pfw_sampled *sampled, size_t parts, double *mean);

void pfw_sampled_release(struct pfw_sampled *sampled);
