/* store/math/sampled.c - a sample of calls that is the same however they were split; see
 * sampled.h. */
#include "store/math/sampled.h"

#include <stdlib.h>

#include "common/base/order.h"
#include "store/kit/grow.h"
#include "store/math/log.h"
#include "store/math/stats.h"

static void raise_level(struct pfw_sampled *sampled, uint32_t level)
{
	uint32_t kept = 0;

	for (uint32_t i = 0; i < sampled->count; i++) {
		if (pfw_sample_get_level(&sampled->sample[i]) >= level)
			sampled->sample[kept++] = sampled->sample[i];
	}
	sampled->count = kept;
	sampled->level = level;
}

void pfw_sampled_limit(struct pfw_sampled *sampled, uint32_t most)
{
	while (sampled->count > most && sampled->level < PFW_SAMPLE_LEVELS)
		raise_level(sampled, sampled->level + 1);
}

int pfw_sampled_reserve(struct pfw_sampled *sampled, size_t more)
{
	return PFW_RESERVE(sampled->sample, sampled->count + more, sampled->room);
}

int pfw_sampled_add_more(struct pfw_sampled *sampled, struct pfw_sample sample, uint32_t most)
{
	if (PFW_PUSH(sampled->sample, sampled->count, sampled->room, sample))
		return -ENOMEM;
	pfw_sampled_limit(sampled, most);
	return 0;
}

int pfw_sampled_merge(struct pfw_sampled *into, const struct pfw_sampled *from, uint32_t most)
{
	if (from->level > into->level)
		raise_level(into, from->level);
	if (pfw_sampled_reserve(into, from->count))
		return -ENOMEM;
	/* Without a branch, which nothing could predict. */
	for (uint32_t i = 0; i < from->count; i++) {
		into->sample[into->count] = from->sample[i];
		into->count += pfw_sample_get_level(&from->sample[i]) >= into->level;
	}
	pfw_sampled_limit(into, most);
	return 0;
}

/* Calls of one time by what decides their place in the mean. */
static int by_time(const void *a, const void *b)
{
	const struct pfw_sample *x = a, *y = b;

	return PFW_ORDER(x->ts_ns, y->ts_ns)
		       ?: PFW_ORDER(pfw_sample_get_ns(x), pfw_sample_get_ns(y));
}

void pfw_sampled_sort(struct pfw_sampled *sampled)
{
	if (sampled->count)
		qsort(sampled->sample, sampled->count, sizeof(*sampled->sample), by_time);
}

void pfw_sampled_parts(const struct pfw_sampled *sampled, size_t parts, double *mean)
{
	double value[PFW_SAMPLED_MAX];

	for (size_t part = 0; part < parts; part++) {
		size_t first = part * sampled->count / parts;
		size_t end = (part + 1) * sampled->count / parts;

		for (size_t i = first; i < end; i++)
			value[i - first] = (double)pfw_log_ns((int64_t)pfw_sample_get_ns(
						   &sampled->sample[i])) /
					   PFW_LOG_UNIT;
		mean[part] = pfw_trimmed_mean(value, end - first);
	}
}

void pfw_sampled_release(struct pfw_sampled *sampled)
{
	free(sampled->sample);
	*sampled = (struct pfw_sampled){ 0 };
}
