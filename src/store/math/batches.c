/* store/math/batches.c - batch means of a series; see batches.h. */
#include "store/math/batches.h"

#include <errno.h>
#include <stdlib.h>

#include "store/kit/grow.h"
#include "store/math/stats.h"

/* Half as many batches, each twice as long. */
static void join_pairs(struct pfw_batches *batches)
{
	for (uint32_t i = 0; i < batches->used / 2; i++)
		batches->sum[i] = batches->sum[2 * i] + batches->sum[2 * i + 1];
	batches->used /= 2;
	batches->size *= 2;
}

static int close_batch(struct pfw_batches *batches)
{
	if (PFW_APPEND(batches->sum, batches->used, (float)batches->open))
		return -ENOMEM;
	batches->open = 0;
	batches->in_open = 0;
	if (batches->used == PFW_BATCHES_MAX)
		join_pairs(batches);
	return 0;
}

int pfw_batches_add(struct pfw_batches *batches, double value)
{
	batches->size += !batches->size;
	batches->open += value;
	batches->in_open++;
	batches->count++;
	return batches->in_open == batches->size ? close_batch(batches) : 0;
}

double pfw_batches_mean(const struct pfw_batches *batches)
{
	double sum = batches->open;

	for (uint32_t i = 0; i < batches->used; i++)
		sum += (double)batches->sum[i];
	return batches->count ? sum / (double)batches->count : 0;
}

void pfw_batches_parts(const struct pfw_batches *batches, size_t parts, double *mean)
{
	double value[PFW_BATCHES_MAX];

	for (size_t part = 0; part < parts; part++) {
		size_t first = part * batches->used / parts;
		size_t end = (part + 1) * batches->used / parts;

		for (size_t i = first; i < end; i++)
			value[i - first] = (double)batches->sum[i] / (double)batches->size;
		mean[part] = pfw_trimmed_mean(value, end - first);
	}
}

void pfw_batches_release(struct pfw_batches *batches)
{
	free(batches->sum);
	*batches = (struct pfw_batches){ 0 };
}
