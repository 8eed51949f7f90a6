/* store/summary/merge.c - merges two summaries; see summary.h. */
#include <errno.h>

#include "common/base/order.h"
#include "store/summary/rows.h"
#include "store/summary/summary.h"

/* How many files ahead merging prefetches. */
#define FETCH_AHEAD 4u

static int merge_durations(struct pfw_summary *into, struct pfw_sketch *to,
			   const struct pfw_sketch *from)
{
	uint32_t before = to->capacity;
	int error = pfw_sketch_merge(to, from, into->cells < PFW_SUMMARY_CELLS_MAX);

	into->cells += to->capacity - before;
	return error;
}

void pfw_summary_merge_name(struct pfw_summary_name *into, const struct pfw_summary_name *from)
{
	pfw_saturate_u64(&into->count, from->count);
	into->sum_ns += from->sum_ns;
	pfw_summary_add_transfers(into, from->transfers, from->transfer_ns, from->bytes);
	PFW_LOWER(into->min_ns, from->min_ns);
	PFW_RAISE(into->max_ns, from->max_ns);
}

static int merge_names(struct pfw_summary *into, struct pfw_summary *from)
{
	for (uint32_t i = 0; i < from->names; i++) {
		struct pfw_summary_name *name = &from->name[i], *to;
		const struct pfw_summary_key key = { .cat = name->cat,
						     .name = name->name,
						     .cat_bytes = name->cat_bytes,
						     .name_bytes = name->name_bytes,
						     .hash = name->hash,
						     .ph = name->ph };
		int64_t row = i ? pfw_summary_find_name(into, &key) : 0;

		if (row < 0)
			return (int)row;
		to = &into->name[row];
		name->merged = (uint32_t)row;
		pfw_summary_merge_name(to, name);
		if (merge_durations(into, &to->durations, &name->durations))
			return -ENOMEM;
	}
	return 0;
}

/* Prefetch the slots, rows and names of the next files: of many files few are still in the cache
 * when the next block names them. */
static inline void fetch_file(const struct pfw_summary *into, const struct pfw_summary *from,
			      uint32_t i)
{
	const struct pfw_hash_slots *table = &into->by_file;
	uint64_t slot;

	if (i + 3 * FETCH_AHEAD < from->files)
		__builtin_prefetch(
			&table->slot[from->file[i + 3 * FETCH_AHEAD].hash & table->mask]);
	if (i + 2 * FETCH_AHEAD < from->files) {
		slot = table->slot[from->file[i + 2 * FETCH_AHEAD].hash & table->mask];
		__builtin_prefetch(&into->file[(uint32_t)slot], 1);
		__builtin_prefetch((const char *)(&into->file[(uint32_t)slot] + 1) - 1, 1);
	}
	if (i + FETCH_AHEAD < from->files) {
		slot = table->slot[from->file[i + FETCH_AHEAD].hash & table->mask];
		for (uint32_t at = 0; at < into->file[(uint32_t)slot].name_bytes; at += 64)
			__builtin_prefetch(into->file[(uint32_t)slot].name + at);
	}
}

static int merge_files(struct pfw_summary *into, struct pfw_summary *from)
{
	for (uint32_t i = 0; i < from->files; i++) {
		struct pfw_summary_file *file = &from->file[i], *to;
		int64_t row;

		fetch_file(into, from, i);
		row = i ? pfw_summary_find_file(into, file->name, file->name_bytes, file->hash) : 0;
		if (row < 0)
			return (int)row;
		to = &into->file[row];
		file->merged = (uint32_t)row;
		for (unsigned j = 0; j < PFW_SUMMARY_FILE_SUMS; j++)
			pfw_saturate_u64(&to->sum[j], file->sum[j]);
	}
	return 0;
}

static int merge_threads(struct pfw_summary *into, struct pfw_summary *from)
{
	for (uint32_t i = 0; i < from->threads; i++) {
		struct pfw_summary_thread *thread = &from->thread[i], *to;
		int64_t row = i ? pfw_summary_thread_row(into, thread->pid, thread->tid) : 0;

		if (row < 0)
			return (int)row;
		to = &into->thread[row];
		thread->merged = (uint32_t)row;
		to->lines += thread->lines;
		PFW_LOWER(to->first_ns, thread->first_ns);
		PFW_RAISE(to->last_ns, thread->last_ns);
		pfw_summary_join_calls(into, (uint32_t)row, thread->call_ns, thread->calls_end_ns);
		if (thread->name_bytes &&
		    pfw_summary_name_thread(into, (uint32_t)row, thread->name, thread->name_bytes))
			return -ENOMEM;
	}
	return 0;
}

static int merge_lists(struct pfw_summary *into, const struct pfw_summary *from)
{
	int error = 0;

	for (uint32_t i = 0; i < from->processes && !error; i++) {
		const struct pfw_summary_process *process = &from->process[i];

		error = process->start_ns == PFW_SUMMARY_NO_START
				? pfw_summary_update_process(into, process)
				: pfw_summary_add_process(into, process);
	}
	for (uint32_t i = 0; i < from->steps && !error; i++)
		error = pfw_summary_add_step(into, &from->step[i]);
	for (uint32_t i = 0; i < from->losses && !error; i++)
		error = pfw_summary_add_loss(into, &from->loss[i]);
	into->left_out += from->left_out;
	return error;
}

void pfw_summary_merge_times(struct pfw_summary *into, const struct pfw_summary *from)
{
	into->lines += from->lines;
	into->events += from->events;
	PFW_LOWER(into->least_ns, from->least_ns);
	PFW_RAISE(into->greatest_ns, from->greatest_ns);
	into->sorted = into->sorted && from->sorted;
	into->nested = into->nested || from->nested;
	into->untimed = into->untimed || from->untimed;
	if (from->first_ns == INT64_MAX)
		return;
	if (into->first_ns == INT64_MAX)
		into->first_ns = from->first_ns;
	else if (into->last_ns > from->first_ns)
		into->sorted = false;
	into->last_ns = from->last_ns;
}

int pfw_summary_merge(struct pfw_summary *into, struct pfw_summary *from)
{
	int error = merge_names(into, from);

	error = error ? error : merge_files(into, from);
	error = error ? error : merge_threads(into, from);
	error = error ? error : merge_lists(into, from);
	pfw_summary_merge_times(into, from);
	return error;
}
