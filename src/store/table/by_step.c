/* store/table/by_step.c - adds events to the rows of their steps; see by_step.h. */
#include "store/table/by_step.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "store/kit/grow.h"
#include "store/kit/saturate.h"
#include "store/line/step_name.h"
#include "store/table/code.h"

/* With more rows an index has none. */
#define ROWS_MAX 65536u
/* Events that take more go to temporary files. */
#define MEMORY (8u << 20)
#define NO_STEP UINT64_MAX

/* Rows that were used for a step: of calls, of the CPU's spans, of the first device's work. */
enum { OF_CALLS, OF_CPU, OF_DEVICE, SLOTS };

#define CELLS 64u

struct pfw_table_by_step {
	struct pfw_spill event; /* struct pfw_table_event each */
	struct pfw_spill_budget budget;
	struct pfw_table_sum *sum;
	struct pfw_step *step;
	size_t sums, steps, sum_room, step_room;
	struct pfw_steps *found;
	struct pfw_averages rows;
	bool followers; /* some event has its step from another process, or could */
	bool any;	/* there are steps, or lines that say one */
	bool none;
	/* Caches: of times by process, of rows by step (plus 1; 0: not known). */
	struct {
		bool known;
		uint64_t process;
		struct pfw_in_step in;
	} at[CELLS];
	struct {
		uint64_t step;
		uint32_t row[SLOTS];
	} of[CELLS];
};

/* ---- a block ---- */

uint32_t pfw_table_said(const struct pfw_entry *entry)
{
	uint64_t number;

	if (!pfw_says_step(entry, &number))
		return 0;
	return number < UINT32_MAX - 1 ? (uint32_t)number + 1 : UINT32_MAX;
}

int pfw_table_events_add(struct pfw_table_events *events, const struct pfw_entry *entry,
			 const struct pfw_table_event *event)
{
	struct pfw_table_event *added;

	if (PFW_ROOM(events->event, events->events, events->event_room))
		return -ENOMEM;
	added = &events->event[events->events++];
	*added = *event;
	added->process = entry->process;
	added->said = pfw_table_said(entry);
	events->said |= added->said != 0;
	return 0;
}

int pfw_table_events_sum(struct pfw_table_events *events, const struct pfw_entry *entry,
			 const struct pfw_table_line *line)
{
	return PFW_PUSH(events->sum, events->sums, events->sum_room,
			(struct pfw_table_sum){ .call = pfw_table_call_of(line),
						.process = entry->process,
						.said = pfw_table_said(entry) });
}

int pfw_table_events_step(struct pfw_table_events *events, const struct pfw_entry *entry)
{
	struct pfw_step step = { .process = entry->process,
				 .pid = entry->pid,
				 .start_ns = entry->ts_ns };

	if (!(entry->has & ~entry->wrong & PFW_ENTRY_TS) || !pfw_is_step(entry, &step.number))
		return 0;
	step.end_ns = pfw_saturate_add(entry->ts_ns, entry->dur_ns);
	return PFW_PUSH(events->step, events->steps, events->step_room, step);
}

void pfw_table_events_release(struct pfw_table_events *events)
{
	free(events->event);
	free(events->sum);
	free(events->step);
	*events = (struct pfw_table_events){ 0 };
}

/* ---- a file ---- */

struct pfw_table_by_step *pfw_table_by_step_create(void)
{
	struct pfw_table_by_step *by_step = calloc(1, sizeof(*by_step));

	if (by_step) {
		by_step->event = (struct pfw_spill)PFW_SPILL_EMPTY;
		by_step->budget.bytes = MEMORY;
	}
	return by_step;
}

void pfw_table_by_step_free(struct pfw_table_by_step *by_step)
{
	if (!by_step)
		return;
	pfw_spill_free(&by_step->event, &by_step->budget);
	free(by_step->sum);
	free(by_step->step);
	pfw_steps_free(by_step->found);
	pfw_averages_release(&by_step->rows);
	free(by_step);
}

static int take_events(struct pfw_table_by_step *by_step, const struct pfw_table_events *events,
		       struct pfw_nesting *nesting)
{
	size_t bytes = events->events * sizeof(struct pfw_table_event);
	int error = pfw_spill_reserve(&by_step->event, bytes, &by_step->budget);
	struct pfw_table_event *event;
	int64_t process = 0;

	if (error || !bytes)
		return error;
	event = (struct pfw_table_event *)((char *)by_step->event.at + by_step->event.bytes);
	memcpy(event, events->event, bytes);
	for (size_t i = 0; i < events->events && process >= 0; i++) {
		if (!i || events->event[i].process != events->event[i - 1].process)
			process = pfw_nesting_process(nesting, event[i].process);
		event[i].process = (uint64_t)process;
	}
	by_step->event.bytes += bytes;
	return process < 0 ? (int)process : 0;
}

int pfw_table_by_step_take(struct pfw_table_by_step *by_step, const struct pfw_table_events *events,
			   struct pfw_nesting *nesting)
{
	int error = take_events(by_step, events, nesting);

	by_step->any |= events->said || events->steps;
	for (size_t i = 0; i < events->sums && !error; i++) {
		struct pfw_table_sum sum = events->sum[i];
		int64_t process = pfw_nesting_process(nesting, sum.process);

		sum.process = (uint64_t)process;
		error = process < 0 ? (int)process
				    : PFW_PUSH(by_step->sum, by_step->sums, by_step->sum_room, sum);
	}
	for (size_t i = 0; i < events->steps && !error; i++) {
		struct pfw_step step = events->step[i];
		int64_t process = pfw_nesting_process(nesting, step.process);

		step.process = (uint64_t)process;
		error = process < 0
				? (int)process
				: PFW_PUSH(by_step->step, by_step->steps, by_step->step_room, step);
	}
	return error;
}

/* ---- rows ---- */

static uint64_t step_of(struct pfw_table_by_step *by_step, uint64_t process, int64_t ts_ns,
			uint32_t said)
{
	size_t cell = process % CELLS;
	const struct pfw_in_step *in = &by_step->at[cell].in;

	if (said)
		return said - 1;
	if (!by_step->at[cell].known || by_step->at[cell].process != process ||
	    ts_ns < in->begin_ns || ts_ns >= in->end_ns) {
		by_step->at[cell].known = true;
		by_step->at[cell].process = process;
		by_step->at[cell].in = pfw_steps_at(by_step->found, 0, process, ts_ns);
		by_step->followers |= !in->own;
	}
	return in->in ? in->number : NO_STEP;
}

/* A key is section, device and step. */
#define KEY_BYTES (2 + sizeof(uint64_t))

static int64_t find_row(struct pfw_table_by_step *by_step, unsigned section, unsigned device,
			uint64_t step)
{
	char key[KEY_BYTES] = { (char)section, (char)device };

	memcpy(key + 2, &step, sizeof(step));
	return pfw_averages_row(&by_step->rows, key, sizeof(key));
}

/* The row; NULL: no memory. */
static struct pfw_average *row_of(struct pfw_table_by_step *by_step, unsigned section,
				  unsigned device, uint64_t step)
{
	unsigned slot = section == PFW_TABLE_IO ? OF_CALLS : device ? OF_DEVICE : OF_CPU;
	size_t cell = step % CELLS;
	int64_t row;

	if (by_step->of[cell].step != step) {
		by_step->of[cell].step = step;
		memset(by_step->of[cell].row, 0, sizeof(by_step->of[cell].row));
	}
	if (device <= 1 && by_step->of[cell].row[slot])
		return &by_step->rows.row[by_step->of[cell].row[slot] - 1];
	row = find_row(by_step, section, device, step);
	if (row < 0)
		return NULL;
	if (device <= 1)
		by_step->of[cell].row[slot] = (uint32_t)row + 1;
	return &by_step->rows.row[row];
}

static int add_call(struct pfw_table_by_step *by_step, const struct pfw_table_call *call,
		    uint64_t process, uint32_t said)
{
	uint64_t step = step_of(by_step, process, call->start_ns, said);
	struct pfw_average *row = row_of(by_step, PFW_TABLE_IO, 0, step);

	by_step->none |= said == UINT32_MAX;
	return row ? pfw_table_add_call(row, *call, true, true) : -ENOMEM;
}

static int add_event(struct pfw_table_by_step *by_step, const struct pfw_table_event *event)
{
	const struct pfw_table_call call = { .start_ns = event->start_ns,
					     .dur_ns = event->dur_ns,
					     .bytes = event->bytes,
					     .calls = 1,
					     .transfers = event->transfer };
	struct pfw_average *row;

	if (event->section == PFW_TABLE_IO)
		return add_call(by_step, &call, event->process, event->said);
	by_step->none |= event->said == UINT32_MAX;
	row = row_of(by_step, event->section, event->device,
		     step_of(by_step, event->process, event->start_ns, event->said));
	if (row)
		pfw_tally_device(&row->sums, event->start_ns, event->dur_ns);
	return row ? 0 : -ENOMEM;
}

int pfw_table_by_step_begin(struct pfw_table_by_step *by_step)
{
	const struct pfw_table_event *event = by_step->event.at;
	size_t count = by_step->event.bytes / sizeof(*event);
	int error;

	by_step->none = !by_step->any;
	if (by_step->none)
		return 0;
	error = pfw_steps_make(&by_step->found, by_step->step, by_step->steps);
	for (size_t i = 0; i < count && !error && by_step->rows.count <= ROWS_MAX; i++)
		error = add_event(by_step, &event[i]);
	for (size_t i = 0; i < by_step->sums && !error && by_step->rows.count <= ROWS_MAX; i++)
		error = add_call(by_step, &by_step->sum[i].call, by_step->sum[i].process,
				 by_step->sum[i].said);
	pfw_spill_free(&by_step->event, &by_step->budget);
	return error;
}

void pfw_table_by_step_span(struct pfw_table_by_step *by_step, const struct pfw_nested *nested)
{
	const struct pfw_span *span = &nested->span;
	struct pfw_average *row = NULL;
	uint64_t step;

	if (by_step->none)
		return;
	step = step_of(by_step, nested->process, span->start_ns, span->note);
	if (span->note != UINT32_MAX && by_step->rows.count <= ROWS_MAX)
		row = row_of(by_step, PFW_TABLE_COMPUTE, 0, step);
	if (row)
		pfw_tally_nested(&row->sums, nested);
	else
		by_step->none = true;
}

int pfw_table_by_step_put(const struct pfw_table_by_step *by_step, unsigned says,
			  struct pfw_blob *data)
{
	uint64_t head[3] = { says, by_step->followers };
	int error;

	if (by_step->none || by_step->rows.count > ROWS_MAX)
		return 0;
	head[2] = pfw_steps_leaders(by_step->found, 0);
	error = pfw_blob_put(data, head, 3);
	for (uint32_t i = 0; i < by_step->rows.count && !error; i++) {
		const struct pfw_average *row = &by_step->rows.row[i];
		uint64_t value[3] = { (uint8_t)row->key[0], (uint8_t)row->key[1] };

		memcpy(&value[2], row->key + 2, sizeof(value[2]));
		value[2]++; /* 0: no step */
		error = pfw_blob_put(data, value, 3);
		error = error ? error : pfw_table_put_tally(data, &row->sums);
		if (!error && row->key[0] == PFW_TABLE_IO)
			error = pfw_table_put_sketch(data, &row->durations);
	}
	return error;
}
