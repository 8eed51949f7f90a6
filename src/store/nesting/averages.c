/* store/nesting/averages.c - sums of events by group; see averages.h. */
#include "store/nesting/averages.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "store/kit/grow.h"
#include "store/kit/saturate.h"

/* ---- sums ---- */

void pfw_tally_begin(struct pfw_tally *sums, int64_t start_ns, int64_t dur_ns, bool inside)
{
	bool tied = sums->count && start_ns == sums->first_ns;

	if (sums->count && (start_ns > sums->first_ns || (tied && dur_ns < sums->first_dur_ns)))
		return;
	tied = tied && dur_ns == sums->first_dur_ns;
	sums->first_ns = start_ns;
	sums->first_dur_ns = dur_ns;
	sums->first_inside = inside && (!tied || sums->first_inside);
}

void pfw_tally_untimed(struct pfw_tally *sums, int64_t start_ns)
{
	pfw_tally_begin(sums, start_ns, 0, false);
	sums->count++;
}

void pfw_tally_device(struct pfw_tally *sums, int64_t start_ns, int64_t dur_ns)
{
	int64_t total = sums->total_ns;

	pfw_tally_call(sums, start_ns, dur_ns);
	sums->total_ns = total; /* total_ns is CPU time only */
	pfw_saturate_sum(&sums->device_ns, dur_ns);
	pfw_saturate_sum(&sums->self_device_ns, dur_ns);
}

void pfw_tally_nested(struct pfw_tally *sums, const struct pfw_nested *nested)
{
	const struct pfw_span *span = nested->span;

	pfw_tally_begin(sums, span->start_ns, span->dur_ns, nested->inside);
	pfw_tally_time(sums, span->dur_ns);
	pfw_saturate_sum(&sums->self_ns, nested->self_ns);
	if (!nested->more)
		return;
	pfw_saturate_sum(&sums->device_ns, nested->device_ns);
	pfw_saturate_sum(&sums->self_device_ns, nested->self_device_ns);
	pfw_saturate_sum(&sums->cpu_memory, nested->extra.cpu_memory);
	pfw_saturate_sum(&sums->device_memory, nested->extra.device_memory);
	pfw_saturate_sum(&sums->self_cpu_memory, nested->self_cpu_memory);
	pfw_saturate_sum(&sums->self_device_memory, nested->self_device_memory);
	pfw_saturate_sum(&sums->flops, nested->extra.flops > INT64_MAX
					       ? INT64_MAX
					       : (int64_t)nested->extra.flops);
}

/* Whether there is more than the first two sums. */
static bool has_more(const struct pfw_tally *sums)
{
	return (sums->device_ns | sums->self_device_ns | sums->cpu_memory | sums->self_cpu_memory |
		sums->device_memory | sums->self_device_memory | sums->flops | sums->bytes |
		sums->transfer_ns | (int64_t)sums->transfers) != 0;
}

void pfw_tally_merge(struct pfw_tally *into, const struct pfw_tally *from)
{
	if (from->count)
		pfw_tally_begin(into, from->first_ns, from->first_dur_ns, from->first_inside);
	if (from->timed && (!into->timed || from->min_ns < into->min_ns))
		into->min_ns = from->min_ns;
	if (from->timed && (!into->timed || from->max_ns > into->max_ns))
		into->max_ns = from->max_ns;
	pfw_saturate_u64(&into->count, from->count);
	into->timed += from->timed;
	pfw_saturate_sum(&into->total_ns, from->total_ns);
	pfw_saturate_sum(&into->self_ns, from->self_ns);
	/* Most rows have nothing but times of the CPU. */
	if (!has_more(from))
		return;
	pfw_saturate_u64(&into->transfers, from->transfers);
	for (unsigned i = 2; i < PFW_TALLY_SUMS; i++)
		pfw_saturate_sum(&into->sum[i], from->sum[i]);
}

/* ---- rows ---- */

void pfw_averages_release(struct pfw_averages *averages)
{
	for (uint32_t i = 0; i < averages->count; i++)
		pfw_sketch_release(&averages->row[i].durations);
	PFW_FREE_MAPPED(averages->row, averages->room);
	pfw_text_ids_release(&averages->keys);
	*averages = (struct pfw_averages){ .row = NULL };
}

static bool is_next(const struct pfw_averages *averages, const char *key, size_t bytes)
{
	const struct pfw_average *row;

	if (averages->next >= averages->count)
		return false;
	row = &averages->row[averages->next];
	return row->key_bytes == bytes && memcmp(row->key, key, bytes) == 0;
}

int64_t pfw_averages_row(struct pfw_averages *averages, const char *key, size_t bytes)
{
	int64_t number = PFW_REACH_MAPPED(averages->row, averages->count, averages->room);

	if (!number && is_next(averages, key, bytes))
		return averages->next++;
	if (!number)
		number = pfw_text_ids_of(&averages->keys, 0, key, bytes);
	if (number == averages->count)
		averages->row[averages->count++] =
			(struct pfw_average){ .key = averages->keys.name[number].text,
					      .key_bytes = (uint32_t)bytes };
	averages->next = (uint32_t)(number + 1);
	return number;
}

int64_t pfw_averages_find(struct pfw_averages *averages, const char *key, size_t bytes)
{
	int64_t number;

	if (is_next(averages, key, bytes))
		return averages->next++;
	number = pfw_text_ids_find(&averages->keys, 0, key, bytes);
	averages->next = (uint32_t)(number + 1);
	return number;
}

int pfw_averages_merge(struct pfw_averages *into, struct pfw_averages *from)
{
	for (uint32_t i = 0; i < from->count; i++) {
		struct pfw_average *row = &from->row[i];
		int64_t number = pfw_averages_row(into, row->key, row->key_bytes);

		if (number < 0)
			return (int)number;
		row->merged = (uint32_t)number;
		pfw_tally_merge(&into->row[number].sums, &row->sums);
		if (row->durations.total &&
		    pfw_sketch_merge(&into->row[number].durations, &row->durations, true))
			return -ENOMEM;
	}
	return 0;
}

int pfw_averages_shorten(struct pfw_averages *averages,
			 size_t (*bytes)(void *user, const struct pfw_average *row), void *user)
{
	uint32_t count = averages->count;
	int error = 0;

	averages->count = 0;
	pfw_text_ids_forget(&averages->keys);
	for (uint32_t i = 0; i < count; i++) {
		struct pfw_average row = averages->row[i], *into;

		row.key_bytes = (uint32_t)bytes(user, &row);
		into = &averages->row[pfw_text_ids_again(&averages->keys, row.key, row.key_bytes)];
		if (into == &averages->row[averages->count]) {
			averages->row[averages->count++] = row;
			continue;
		}
		pfw_tally_merge(&into->sums, &row.sums);
		error = pfw_sketch_merge(&into->durations, &row.durations, true) ?: error;
		pfw_sketch_release(&row.durations);
	}
	averages->next = 0;
	return error;
}
