/* table_steps.c - steps by their spans; see table_steps.h. */
#include "table_steps.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "store/entry.h"
#include "store/more.h"
#include "store/saturate.h"
#include "store/summary_lines.h"
#include "store/traces.h"

static int add(struct table_steps *steps, const struct table_step *step)
{
	struct table_step *more = pfw_more(steps->step, steps->count, &steps->room, sizeof(*more));

	if (!more)
		return -ENOMEM;
	steps->step = more;
	more[steps->count++] = *step;
	return 0;
}

int table_steps_take(struct table_steps *steps, size_t file, const struct pfw_entry *entry)
{
	struct table_step step = { .file = file, .pid = entry->pid, .start_ns = entry->ts_ns };
	struct pfw_value device;
	int64_t number;

	if (entry->ph != 'X' || entry->dur_ns < 0 ||
	    !pfw_summary_is_step(entry->name.at, entry->name.bytes, &step.number))
		return 0;
	/* torch shows each a second time, on the device. */
	if (pfw_entry_arg(entry, "device", &device) && pfw_value_i64(&device, &number) && number)
		return 0;
	step.end_ns = pfw_saturate_add(step.start_ns, entry->dur_ns);
	snprintf(step.text, sizeof(step.text), "%" PRIu64, step.number);
	return add(steps, &step);
}

int table_steps_join(struct table_steps *steps, const struct table_steps *more)
{
	int error = 0;

	for (size_t i = 0; i < more->count && !error; i++)
		error = add(steps, &more->step[i]);
	return error;
}

static int by_process(const void *a, const void *b)
{
	const struct table_step *x = a, *y = b;

	if (x->file != y->file)
		return x->file < y->file ? -1 : 1;
	if (x->pid != y->pid)
		return x->pid < y->pid ? -1 : 1;
	if (x->start_ns != y->start_ns)
		return x->start_ns < y->start_ns ? -1 : 1;
	return x->number < y->number ? -1 : x->number > y->number;
}

void table_steps_sort(struct table_steps *steps)
{
	if (steps->count)
		qsort(steps->step, steps->count, sizeof(*steps->step), by_process);
}

const struct table_step *table_steps_find(const struct table_steps *steps, size_t file,
					  uint64_t pid, int64_t ts_ns)
{
	const struct table_step wanted = {
		.file = file, .pid = pid, .number = UINT64_MAX, .start_ns = ts_ns
	};
	const struct table_step *last;
	size_t low = 0, high = steps->count;

	/* The first that begins later: the one before may be it, as steps of a process follow each other. */
	while (low < high) {
		size_t middle = low + (high - low) / 2;

		if (by_process(&steps->step[middle], &wanted) <= 0)
			low = middle + 1;
		else
			high = middle;
	}
	if (!low)
		return NULL;
	last = &steps->step[low - 1];
	return last->file == file && last->pid == pid && ts_ns < last->end_ns ? last : NULL;
}

int64_t table_steps_ns(const struct table_steps *steps, const struct pfw_traces *traces,
		       uint64_t number, int64_t rank, int64_t pid, uint64_t *processes)
{
	const struct table_step *last = NULL;
	int64_t most = 0, sum = 0;

	*processes = 0;
	for (size_t i = 0; i < steps->count; i++) {
		const struct table_step *step = &steps->step[i];

		if (step->number != number ||
		    (rank >= 0 && traces->file[step->file].head.rank != rank) ||
		    (pid >= 0 && step->pid != (uint64_t)pid))
			continue;
		if (!last || last->file != step->file || last->pid != step->pid) {
			++*processes;
			sum = 0;
		}
		last = step;
		sum = pfw_saturate_add(sum, step->end_ns - step->start_ns);
		most = sum > most ? sum : most;
	}
	return most;
}

void table_steps_release(struct table_steps *steps)
{
	free(steps->step);
	*steps = (struct table_steps){ 0 };
}
