/* averages.c - events added up by what they are grouped by; see averages.h. */
#include "averages.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "hash.h"
#include "saturate.h"

/* ---- sums ---- */

void pfw_sums_begin(struct pfw_sums *sums, int64_t start_ns, int64_t dur_ns, bool inside)
{
	if (sums->count && (start_ns > sums->first_ns ||
			    (start_ns == sums->first_ns && dur_ns <= sums->first_dur_ns)))
		return;
	sums->first_ns = start_ns;
	sums->first_dur_ns = dur_ns;
	sums->first_inside = inside;
}

static void add(int64_t *sum, int64_t more)
{
	*sum = pfw_saturate_add(*sum, more);
}

static void widen(struct pfw_sums *sums, int64_t min_ns, int64_t max_ns)
{
	if (!sums->timed || min_ns < sums->min_ns)
		sums->min_ns = min_ns;
	if (!sums->timed || max_ns > sums->max_ns)
		sums->max_ns = max_ns;
}

void pfw_sums_time(struct pfw_sums *sums, int64_t dur_ns)
{
	widen(sums, dur_ns, dur_ns);
	sums->timed++;
	sums->count++;
	add(&sums->total_ns, dur_ns);
}

void pfw_sums_nested(struct pfw_sums *sums, const struct pfw_nested *nested)
{
	const struct pfw_span *span = &nested->span;

	pfw_sums_begin(sums, span->start_ns, span->dur_ns, nested->inside);
	pfw_sums_time(sums, span->dur_ns);
	add(&sums->self_ns, nested->self_ns);
	add(&sums->device_ns, nested->device_ns);
	add(&sums->self_device_ns, nested->self_device_ns);
	add(&sums->cpu_memory, nested->extra.cpu_memory);
	add(&sums->device_memory, nested->extra.device_memory);
	add(&sums->self_cpu_memory, nested->self_cpu_memory);
	add(&sums->self_device_memory, nested->self_device_memory);
	add(&sums->flops,
	    nested->extra.flops > INT64_MAX ? INT64_MAX : (int64_t)nested->extra.flops);
}

void pfw_sums_merge(struct pfw_sums *into, const struct pfw_sums *from)
{
	if (from->count)
		pfw_sums_begin(into, from->first_ns, from->first_dur_ns, from->first_inside);
	if (from->timed)
		widen(into, from->min_ns, from->max_ns);
	into->count += from->count;
	into->timed += from->timed;
	into->transfers += from->transfers;
	add(&into->total_ns, from->total_ns);
	add(&into->self_ns, from->self_ns);
	add(&into->device_ns, from->device_ns);
	add(&into->self_device_ns, from->self_device_ns);
	add(&into->cpu_memory, from->cpu_memory);
	add(&into->self_cpu_memory, from->self_cpu_memory);
	add(&into->device_memory, from->device_memory);
	add(&into->self_device_memory, from->self_device_memory);
	add(&into->flops, from->flops);
	add(&into->bytes, from->bytes);
	add(&into->transfer_ns, from->transfer_ns);
}

/* ---- rows ---- */

void pfw_averages_init(struct pfw_averages *averages)
{
	*averages = (struct pfw_averages){ .seed = pfw_hash_seed() };
}

void pfw_averages_release(struct pfw_averages *averages)
{
	for (uint32_t i = 0; i < averages->count; i++)
		pfw_sketch_release(&averages->row[i].durations);
	free(averages->row);
	free(averages->slot);
	pfw_arena_release(&averages->texts);
	pfw_averages_init(averages);
}

/* The slot of that key, or the free one where it goes. */
static uint32_t *find_slot(const struct pfw_averages *averages, const char *key, size_t bytes,
			   uint64_t hash)
{
	for (uint64_t i = hash;; i++) {
		uint32_t *slot = &averages->slot[i & (averages->slots - 1)];
		const struct pfw_average *row;

		if (!*slot)
			return slot;
		row = &averages->row[*slot - 1];
		if (row->hash == hash && row->key_bytes == bytes &&
		    pfw_hash_same(row->key, key, bytes))
			return slot;
	}
}

static int grow(struct pfw_averages *averages)
{
	uint32_t room = averages->room ? averages->room * 2 : 64;
	struct pfw_average *row;
	uint32_t *slot;

	if (room > UINT32_MAX / 4)
		return -ENOMEM;
	row = realloc(averages->row, room * sizeof(*row));
	if (!row)
		return -ENOMEM;
	averages->row = row;
	slot = calloc((size_t)room * 2, sizeof(*slot));
	if (!slot)
		return -ENOMEM;
	free(averages->slot);
	averages->slot = slot;
	averages->slots = room * 2;
	averages->room = room;
	for (uint32_t i = 0; i < averages->count; i++)
		*find_slot(averages, row[i].key, row[i].key_bytes, row[i].hash) = i + 1;
	return 0;
}

int64_t pfw_averages_row(struct pfw_averages *averages, const char *key, size_t bytes)
{
	uint64_t hash = pfw_hash_text(averages->seed, key, bytes);
	uint32_t *slot;
	char *copy;

	if (averages->slots) {
		slot = find_slot(averages, key, bytes, hash);
		if (*slot)
			return *slot - 1;
	}
	if (averages->count == averages->room && grow(averages))
		return -ENOMEM;
	copy = pfw_arena_copy(&averages->texts, key, bytes);
	if (!copy)
		return -ENOMEM;
	averages->row[averages->count] =
		(struct pfw_average){ .key = copy, .key_bytes = (uint32_t)bytes, .hash = hash };
	slot = find_slot(averages, key, bytes, hash);
	*slot = averages->count + 1;
	return averages->count++;
}

int pfw_averages_merge(struct pfw_averages *into, struct pfw_averages *from)
{
	for (uint32_t i = 0; i < from->count; i++) {
		struct pfw_average *row = &from->row[i];
		int64_t number = pfw_averages_row(into, row->key, row->key_bytes);

		if (number < 0)
			return (int)number;
		row->merged = (uint32_t)number;
		pfw_sums_merge(&into->row[number].sums, &row->sums);
		if (row->durations.total &&
		    pfw_sketch_merge(&into->row[number].durations, &row->durations, true))
			return -ENOMEM;
	}
	return 0;
}
