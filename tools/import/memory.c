/* tools/import/memory.c - the memory of operators, from the times of allocations.
 *
 * As torch.profiler does: an operator has all allocations from its start to its end, of any thread.
 * An allocation outside all operators is a row of its own in torch's tables.
 */
#include <stdlib.h>

#include "common/base/order.h"
#include "import/import.h"

#define MEMORY (64u << 20) /* then a temporary file is used */

int import_memory_add(struct import_memory *memory, int64_t ts_ns, int64_t bytes, bool on_device)
{
	struct import_allocation one = { .ts_ns = ts_ns, .bytes = bytes, .on_device = on_device };
	int error;

	if (!memory->budget.bytes) {
		memory->record = (struct pfw_spill)PFW_SPILL_EMPTY;
		memory->budget.bytes = MEMORY;
	}
	error = pfw_spill_add(&memory->record, &one, sizeof(one), &memory->budget);
	memory->count += !error;
	return error;
}

static int by_time(const void *a, const void *b)
{
	int64_t x = ((const struct import_allocation *)a)->ts_ns;
	int64_t y = ((const struct import_allocation *)b)->ts_ns;

	return (x > y) - (x < y);
}

/* A sentinel at the end holds the sums over all records. */
int import_memory_sort(struct import_memory *memory)
{
	int64_t cpu = 0, device = 0;
	int error = import_memory_add(memory, INT64_MAX, 0, false);
	struct import_allocation *record = memory->record.at;

	if (error)
		return error;
	qsort(record, memory->count, sizeof(*record), by_time);
	for (size_t i = 0; i < memory->count; i++) {
		record[i].cpu_before = cpu;
		record[i].device_before = device;
		/* Invalid input may overflow; unsigned arithmetic makes that harmless. */
		if (record[i].on_device)
			device = (int64_t)((uint64_t)device + (uint64_t)record[i].bytes);
		else
			cpu = (int64_t)((uint64_t)cpu + (uint64_t)record[i].bytes);
	}
	memory->count--;
	return 0;
}

/* The first record at ts_ns or later. */
static size_t first_at(const struct import_memory *memory, int64_t ts_ns)
{
	const struct import_allocation *record = memory->record.at;

	return PFW_BISECT(at, memory->count, record[at].ts_ns < ts_ns);
}

void import_memory_sum(struct import_memory *memory, int64_t start_ns, int64_t end_ns, int64_t *cpu,
		       int64_t *device)
{
	struct import_allocation *record = memory->record.at;
	size_t first = first_at(memory, start_ns);
	size_t end = end_ns == INT64_MAX ? memory->count : first_at(memory, end_ns + 1);

	*cpu = *device = 0;
	if (!memory->count || end <= first)
		return;
	*cpu = (int64_t)((uint64_t)record[end].cpu_before - (uint64_t)record[first].cpu_before);
	*device = (int64_t)((uint64_t)record[end].device_before -
			    (uint64_t)record[first].device_before);
	record[first].covered++;
	record[end].covered--;
}

void import_memory_settle(struct import_memory *memory)
{
	struct import_allocation *record = memory->record.at;
	int64_t covered = 0;

	for (size_t i = 0; i < memory->count; i++)
		record[i].covered = covered += record[i].covered;
}

bool import_memory_used(const struct import_memory *memory, int64_t ts_ns)
{
	const struct import_allocation *record = memory->record.at;
	size_t at = first_at(memory, ts_ns);

	return at < memory->count && record[at].ts_ns == ts_ns && record[at].covered > 0;
}

void import_memory_free(struct import_memory *memory)
{
	if (memory->budget.bytes)
		pfw_spill_free(&memory->record, &memory->budget);
}
