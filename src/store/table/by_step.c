/* store/table/by_step.c - adds events to the rows of their steps; see by_step.h. */
#include "store/table/by_step.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "store/kit/grow.h"
#include "store/kit/saturate.h"
#include "store/table/code.h"

/* The most rows that an index keeps; a trace with more has no rows of steps. */
#define ROWS_MAX 65536u
#define NO_STEP UINT64_MAX

/* The rows of a step that are cached: of calls, of CPU spans, of the first device's work.  Other rows
 * are not. */
enum { OF_CALLS, OF_CPU, OF_DEVICE, OF_OTHERS, SLOTS };

#define CELLS 64u

struct pfw_table_by_step {
	struct pfw_spill run, event; /* struct pfw_table_run and pfw_table_event each */
	struct pfw_spill_budget budget;
	struct pfw_table_sum *sum;
	struct pfw_step *step;
	size_t sums, steps, sum_room, step_room;
	struct pfw_steps *found;
	struct pfw_averages rows;
	struct pfw_table_by_arg *by_arg;
	const struct pfw_averages *all; /* rows of events, for their kinds */
	bool followers; /* some event takes its step from another process, or would if that had one */
	bool any;	/* there are steps, or lines that say one */
	bool none;
	struct place *place; /* all rows in order, once they are written */
	/* Caches of rows (plus 1; 0: not known): by process and time, and by step. */
	struct at {
		bool known;
		uint64_t process;
		struct pfw_in_step in;
		uint32_t row[SLOTS];
	} at[CELLS];
	struct of {
		uint64_t step;
		uint32_t row[SLOTS];
	} of[CELLS];
};

/* ---- a block ---- */

int pfw_table_events_begin(struct pfw_table_events *events, int64_t start_ns, uint64_t process,
			   uint32_t said)
{
	events->said |= said != 0;
	return PFW_PUSH(events->run, events->runs, events->run_room,
			(struct pfw_table_run){ .since_ns = (uint64_t)start_ns - INT32_MAX,
						.process = process,
						.said = said });
}

int pfw_table_events_wide(struct pfw_table_events *events, struct pfw_table_call call,
			  uint64_t process, uint32_t said)
{
	events->said |= said != 0;
	return PFW_PUSH(events->sum, events->sums, events->sum_room,
			(struct pfw_table_sum){ .call = call, .process = process, .said = said });
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
	struct pfw_step step;

	return pfw_step_of(&step, entry)
		       ? PFW_PUSH(events->step, events->steps, events->step_room, step)
		       : 0;
}

void pfw_table_events_clear(struct pfw_table_events *events)
{
	events->runs = events->events = events->sums = events->steps = 0;
	events->said = false;
}

void pfw_table_events_release(struct pfw_table_events *events)
{
	free(events->run);
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
		by_step->run = by_step->event = (struct pfw_spill)PFW_SPILL_EMPTY;
		by_step->budget.bytes = pfw_spill_share();
	}
	return by_step;
}

void pfw_table_by_step_free(struct pfw_table_by_step *by_step)
{
	if (!by_step)
		return;
	pfw_spill_free(&by_step->run, &by_step->budget);
	pfw_spill_free(&by_step->event, &by_step->budget);
	free(by_step->sum);
	free(by_step->step);
	pfw_steps_free(by_step->found);
	pfw_averages_release(&by_step->rows);
	free(by_step->place);
	free(by_step);
}

static int take_events(struct pfw_table_by_step *by_step, const struct pfw_table_events *events,
		       struct pfw_nesting *nesting)
{
	size_t bytes = events->runs * sizeof(struct pfw_table_run);
	int error = pfw_spill_reserve(&by_step->run, bytes, &by_step->budget);
	struct pfw_table_run *run = pfw_spill_end(&by_step->run);
	int64_t process = 0;

	for (size_t i = 0; i < events->runs && !error; i++) {
		if (!i || events->run[i].process != events->run[i - 1].process)
			process = pfw_nesting_process(nesting, events->run[i].process);
		run[i] = events->run[i];
		run[i].process = (uint64_t)process;
		error = process < 0 ? (int)process : 0;
	}
	if (!error && events->events)
		error = pfw_spill_add(&by_step->event, events->event,
				      events->events * sizeof(*events->event), &by_step->budget);
	by_step->run.bytes += error ? 0 : bytes;
	return error;
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

/* A key is section, device and step. */
#define KEY_BYTES (2 + sizeof(uint64_t))

/* An event of which the row is wanted. */
struct wanted {
	unsigned slot, device;
	uint64_t process;
	int64_t ts_ns;
	uint32_t said;
};

static int64_t find_row(struct pfw_table_by_step *by_step, const struct wanted *wanted,
			uint64_t step)
{
	unsigned section = wanted->slot == OF_CALLS ? PFW_TABLE_IO : PFW_TABLE_COMPUTE;
	char key[KEY_BYTES] = { (char)section, (char)wanted->device };
	struct of *of = &by_step->of[step % CELLS];
	int64_t row;

	if (of->step != step)
		*of = (struct of){ .step = step };
	if (of->row[wanted->slot])
		return of->row[wanted->slot] - 1;
	memcpy(key + 2, &step, sizeof(step));
	row = pfw_averages_row(&by_step->rows, key, sizeof(key));
	if (row >= 0 && wanted->slot != OF_OTHERS)
		of->row[wanted->slot] = (uint32_t)row + 1;
	return row;
}

static bool is_at(const struct at *at, const struct wanted *wanted)
{
	return at->known && at->process == wanted->process && wanted->ts_ns >= at->in.begin_ns &&
	       wanted->ts_ns < at->in.end_ns;
}

/* The cell of a process, of that time. */
static struct at *find_at(struct pfw_table_by_step *by_step, const struct wanted *wanted)
{
	struct at *at = &by_step->at[wanted->process % CELLS];

	if (!is_at(at, wanted)) {
		*at = (struct at){ .known = true,
				   .process = wanted->process,
				   .in = pfw_steps_at(by_step->found, 0, wanted->process,
						      wanted->ts_ns) };
		by_step->followers |= !at->in.own;
	}
	return at;
}

/* The same by time, if the line does not say its step. */
static __attribute__((noinline)) int64_t find_row_at(struct pfw_table_by_step *by_step,
						     const struct wanted *wanted)
{
	struct at *at;
	int64_t row;

	if (wanted->said)
		return find_row(by_step, wanted, wanted->said - 1);
	at = find_at(by_step, wanted);
	row = find_row(by_step, wanted, at->in.in ? at->in.number : NO_STEP);
	if (row >= 0 && wanted->slot != OF_OTHERS)
		at->row[wanted->slot] = (uint32_t)row + 1;
	return row;
}

/* The row; NULL: no memory. */
static inline struct pfw_average *row_of(struct pfw_table_by_step *by_step, struct wanted wanted)
{
	const struct at *at = &by_step->at[wanted.process % CELLS];
	int64_t row = -1;

	if (!wanted.said && is_at(at, &wanted))
		row = (int64_t)at->row[wanted.slot] - 1;
	if (row < 0)
		row = find_row_at(by_step, &wanted);
	return row < 0 ? NULL : &by_step->rows.row[row];
}

static int add_call(struct pfw_table_by_step *by_step, const struct pfw_table_call *call,
		    uint64_t process, uint32_t said)
{
	struct pfw_average *row = row_of(by_step, (struct wanted){ .slot = OF_CALLS,
								   .process = process,
								   .ts_ns = call->start_ns,
								   .said = said });

	by_step->none |= said == UINT32_MAX;
	return row ? pfw_table_add_call(row, call, true, true) : -ENOMEM;
}

static uint32_t number_of(const struct pfw_table_by_step *by_step, const struct pfw_average *row)
{
	return (uint32_t)(row - by_step->rows.row);
}

/* The sums of one kind of work in a step. */
struct of_work {
	uint32_t row;
	struct pfw_average *of_step;
	struct pfw_table_of_kind *of_kind; /* NULL: none will be kept */
};

/* 0 or -ENOMEM. */
static int find_work(struct pfw_table_by_step *by_step, const struct pfw_table_work *work,
		     struct of_work *found)
{
	*found = (struct of_work){
		.row = work->row,
		.of_step = row_of(by_step, (struct wanted){ .slot = work->device == 1 ? OF_DEVICE
										      : OF_OTHERS,
							    .device = work->device,
							    .process = work->process,
							    .ts_ns = work->start_ns,
							    .said = work->said }),
	};
	by_step->none |= work->said == UINT32_MAX;
	if (!found->of_step)
		return -ENOMEM;
	found->of_kind = pfw_table_by_arg_kind(by_step->by_arg, by_step->all->row, work->row,
					       number_of(by_step, found->of_step));
	return 0;
}

static int add_works(struct pfw_table_by_step *by_step, const struct pfw_table_work *work,
		     size_t count)
{
	const struct pfw_table_work *last = NULL;
	struct of_work into = { 0 };

	for (size_t i = 0; i < count && by_step->rows.count <= ROWS_MAX; i++, work++) {
		const struct at *at = &by_step->at[work->process % CELLS];

		if (work->hidden)
			continue;
		/* All work of a row is of one device. */
		if ((!last || work->row != into.row || work->process != last->process ||
		     (work->said | last->said) || work->start_ns < at->in.begin_ns ||
		     work->start_ns >= at->in.end_ns) &&
		    find_work(by_step, work, &into))
			return -ENOMEM;
		last = work;
		pfw_tally_device(&into.of_step->sums, work->start_ns, work->dur_ns);
		if (into.of_kind)
			pfw_table_kind_add(into.of_kind, &(struct pfw_table_of_kind){
								 .count = 1,
								 .self_device_ns = work->dur_ns,
								 .first_ns = work->start_ns,
								 .first_dur_ns = work->dur_ns });
	}
	return 0;
}

static int64_t start_of(const struct pfw_table_run *run, const struct pfw_table_event *event)
{
	return (int64_t)(run->since_ns + event->start_ns);
}

/* Add the calls that are in the step of the first one to its row, and set *count to their number. */
static int add_same(struct pfw_average *row, const struct pfw_in_step *in,
		    const struct pfw_table_run *run, const struct pfw_table_event *event,
		    uint32_t *count)
{
	int64_t total_ns = 0, bytes = 0, transfer_ns = 0;
	uint64_t transfers = 0;
	uint32_t i = 0;
	int error = 0;

	for (; i < *count && !error; i++) {
		int64_t start_ns = start_of(run, &event[i]), dur_ns = event[i].dur_ns;
		bool transfer = event[i].bytes & PFW_TABLE_TRANSFER;

		if (i && !run->said && (start_ns < in->begin_ns || start_ns >= in->end_ns))
			break;
		pfw_tally_call(&row->sums, start_ns, dur_ns);
		total_ns += dur_ns;
		transfers += transfer;
		bytes += transfer ? event[i].bytes & ~PFW_TABLE_TRANSFER : 0;
		transfer_ns += transfer ? dur_ns : 0;
		error = pfw_sketch_add(&row->durations, dur_ns);
	}
	pfw_saturate_sum(&row->sums.self_ns, total_ns);
	pfw_tally_transfers(&row->sums, transfers, bytes, transfer_ns);
	*count = i;
	return error;
}

static int add_run(struct pfw_table_by_step *by_step, const struct pfw_table_run *run,
		   const struct pfw_table_event *event)
{
	const struct at *at = &by_step->at[run->process % CELLS];
	int error = 0;

	by_step->none |= run->said == UINT32_MAX;
	for (uint32_t done = 0, count; done < run->calls && !error; done += count) {
		struct pfw_average *row =
			row_of(by_step, (struct wanted){ .slot = OF_CALLS,
							 .process = run->process,
							 .ts_ns = start_of(run, &event[done]),
							 .said = run->said });

		count = run->calls - done;
		error = row ? add_same(row, &at->in, run, &event[done], &count) : -ENOMEM;
	}
	return error;
}

static int add_runs(struct pfw_table_by_step *by_step)
{
	const struct pfw_table_run *run = by_step->run.at;
	const struct pfw_table_event *event = by_step->event.at;
	size_t runs = by_step->run.bytes / sizeof(*run);
	int error = 0;

	for (; runs && !error && by_step->rows.count <= ROWS_MAX; runs--, run++) {
		error = add_run(by_step, run, event);
		event += run->calls;
	}
	return error;
}

int pfw_table_by_step_begin(struct pfw_table_by_step *by_step, struct pfw_table_by_arg *by_arg,
			    const struct pfw_averages *rows)
{
	size_t works;
	const struct pfw_table_work *work = pfw_table_by_arg_works(by_arg, &works);
	int error;

	by_step->by_arg = by_arg;
	by_step->all = rows;
	by_step->none = !by_step->any;
	if (by_step->none)
		return 0;
	error = pfw_steps_make(&by_step->found, by_step->step, by_step->steps);
	error = error ? error : add_runs(by_step);
	error = error ? error : add_works(by_step, work, works);
	for (size_t i = 0; i < by_step->sums && !error && by_step->rows.count <= ROWS_MAX; i++)
		error = add_call(by_step, &by_step->sum[i].call, by_step->sum[i].process,
				 by_step->sum[i].said);
	pfw_spill_free(&by_step->run, &by_step->budget);
	pfw_spill_free(&by_step->event, &by_step->budget);
	return error;
}

struct pfw_table_at pfw_table_by_step_at(struct pfw_table_by_step *by_step, uint32_t process,
					 const struct pfw_span *span)
{
	struct pfw_table_at at = { .said = span->note,
				   .step = span->note - 1u,
				   .begin_ns = INT64_MIN,
				   .end_ns = INT64_MAX };
	const struct wanted wanted = { .process = process, .ts_ns = span->start_ns };
	const struct at *found;

	by_step->none |= at.said == UINT32_MAX;
	if (at.said || by_step->none)
		return at;
	found = find_at(by_step, &wanted);
	at.step = found->in.in ? found->in.number : NO_STEP;
	at.begin_ns = found->in.begin_ns;
	at.end_ns = found->in.end_ns;
	return at;
}

void pfw_table_by_step_spans(struct pfw_table_by_step *by_step, uint64_t step, uint32_t row,
			     const struct pfw_tally *sums)
{
	const struct wanted wanted = { .slot = OF_CPU };
	struct pfw_table_of_kind *kind;
	int64_t into = -1;

	if (by_step->none)
		return;
	if (by_step->rows.count <= ROWS_MAX)
		into = find_row(by_step, &wanted, step);
	by_step->none |= into < 0;
	if (into < 0)
		return;
	pfw_tally_merge(&by_step->rows.row[into].sums, sums);
	kind = pfw_table_by_arg_kind(by_step->by_arg, by_step->all->row, row, (uint32_t)into);
	if (kind)
		pfw_table_kind_add(
			kind, &(struct pfw_table_of_kind){ .count = sums->count,
							   .self_ns = sums->self_ns,
							   .self_device_ns = sums->self_device_ns,
							   .first_ns = sums->first_ns,
							   .first_dur_ns = sums->first_dur_ns });
}

/* ---- the index's row ---- */

/* Section, device and step; 0: no step. */
struct place {
	uint64_t value[3];
	const struct pfw_average *row;
};

static struct place place_of(const struct pfw_average *row)
{
	struct place place = { .value = { (uint8_t)row->key[0], (uint8_t)row->key[1] },
			       .row = row };

	memcpy(&place.value[2], row->key + 2, sizeof(place.value[2]));
	place.value[2]++;
	return place;
}

static int compare_places(const void *a, const void *b)
{
	const uint64_t *x = ((const struct place *)a)->value;
	const uint64_t *y = ((const struct place *)b)->value;
	unsigned i = 0;

	while (i < 2 && x[i] == y[i])
		i++;
	return (x[i] > y[i]) - (x[i] < y[i]);
}

/* In one order in all files, so that a reader finds most rows of a step at once. */
static int order_rows(struct pfw_table_by_step *by_step)
{
	uint32_t count = by_step->rows.count;

	by_step->place = calloc((size_t)count + 1, sizeof(*by_step->place));
	if (!by_step->place)
		return -ENOMEM;
	for (uint32_t i = 0; i < count; i++)
		by_step->place[i] = place_of(&by_step->rows.row[i]);
	qsort(by_step->place, count, sizeof(*by_step->place), compare_places);
	return 0;
}

/* The rows of a section and device: step, and sums. */
static int put_rows(const struct place *place, size_t rows, struct pfw_blob *data)
{
	uint64_t *value = malloc(rows * PFW_TABLE_COLUMNS * sizeof(*value));

	if (!value)
		return -ENOMEM;
	for (size_t i = 0; i < rows; i++) {
		value[i * PFW_TABLE_COLUMNS] = place[i].value[2];
		pfw_table_values(&place[i].row->sums, &value[i * PFW_TABLE_COLUMNS + 1]);
	}
	PFW_BLOB_PUT(data, place->value[0], place->value[1]);
	pfw_table_put_columns(data, value, PFW_TABLE_COLUMNS, rows);
	free(value);
	return 0;
}

int pfw_table_by_step_put(struct pfw_table_by_step *by_step, unsigned says, struct pfw_blob *data)
{
	uint32_t count = by_step->rows.count, begin = 0;
	int error;

	by_step->none |= count > ROWS_MAX;
	if (by_step->none)
		return 0;
	error = order_rows(by_step);
	PFW_BLOB_PUT(data, says, by_step->followers, pfw_steps_leaders(by_step->found, 0));
	for (uint32_t i = 1; i <= count && !error; i++) {
		const uint64_t *value = by_step->place[i].value,
			       *first = by_step->place[begin].value;

		if (i < count && value[0] == first[0] && value[1] == first[1])
			continue;
		error = put_rows(&by_step->place[begin], i - begin, data);
		begin = i;
	}
	return error;
}

int pfw_table_by_step_put_durations(const struct pfw_table_by_step *by_step, struct pfw_blob *data)
{
	uint32_t count = by_step->rows.count, rows = 0;
	struct pfw_blob sketches = { 0 };
	uint64_t *value;

	if (by_step->none)
		return 0;
	value = malloc((2 * (size_t)count + 1) * sizeof(*value));
	if (!value)
		return -ENOMEM;
	for (uint32_t i = 0; i < count; i++) {
		const struct place *place = &by_step->place[i];

		if (place->value[0] != PFW_TABLE_IO ||
		    pfw_blob_reserve(&sketches, PFW_SKETCH_BYTES_MAX))
			continue;
		value[2 * rows] = place->value[2];
		value[2 * rows + 1] =
			pfw_sketch_encode(&place->row->durations, sketches.data + sketches.bytes);
		sketches.bytes += value[2 * rows++ + 1];
	}
	pfw_table_put_columns(data, value, 2, rows);
	pfw_blob_part(data, &sketches);
	free(value);
	return 0;
}

int pfw_table_by_step_put_kinds(const struct pfw_table_by_step *by_step, struct pfw_blob *data)
{
	struct pfw_table_kinds_of of = { 0 };

	if (by_step->none || !pfw_table_by_arg_put_kinds(by_step->by_arg, data))
		return 0;
	for (uint32_t i = 0; i < by_step->rows.count; i++) {
		const struct place *place = &by_step->place[i];

		of.in = number_of(by_step, place->row);
		of.device = place->value[1];
		of.step = place->value[2];
		pfw_table_by_arg_put_kinds_of(by_step->by_arg, &of, data);
	}
	return 0;
}
