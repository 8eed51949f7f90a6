/* store/table/by_step.h - the rows of steps of a trace that is indexed.
 *
 * The step of an event is known only when the spans of all steps are, and the last of these may be at
 * the end of the trace.  So calls and GPU work are kept until then, like spans.
 */
#pragma once

#include "store/index/db.h"
#include "store/kit/grow.h"
#include "store/pass/steps.h"
#include "store/sys/spill.h"
#include "store/table/by_arg.h"
#include "store/table/line.h"

/* A call: one of millions, so it is small. */
struct pfw_table_event {
	int64_t start_ns, dur_ns, bytes;
	uint32_t said; /* as span->note */
	/* Its process: of a block, its number in `processes`; of a file, in the nesting. */
	uint32_t process : 31, transfer : 1; /* it moves bytes */
};

/* Many calls, of a `summed` line. */
struct pfw_table_sum {
	struct pfw_table_call call;
	uint64_t process;
	uint32_t said;
};

/* Those of a block, and its spans of steps.  All zero: none.  Thread: one at a time, as all here. */
struct pfw_table_events {
	struct pfw_table_event *event;
	struct pfw_table_sum *sum;
	struct pfw_step *step;
	size_t events, sums, steps;
	bool said; /* some line says its step */
	/* Private to by_step.c. */
	struct pfw_pair_ids processes;
	uint64_t *process;
	uint64_t last_process; /* of number `last`, if there are any */
	uint32_t last;
	size_t event_room, sum_room, step_room, process_room;
};

/* Number the process of a call.  0 or -ENOMEM. */
int pfw_table_events_process(struct pfw_table_events *events, uint64_t process);

/* Add a call, of which the caller sets the times and the bytes.  NULL: no memory.  A copy of a whole event
 * would wait for the stores of its members. */
static inline struct pfw_table_event *pfw_table_events_add(struct pfw_table_events *events,
							   uint64_t process, uint32_t said)
{
	struct pfw_table_event *added;

	if (((process != events->last_process || !events->processes.count) &&
	     pfw_table_events_process(events, process)) ||
	    PFW_ROOM(events->event, events->events, events->event_room))
		return NULL;
	added = &events->event[events->events++];
	added->said = said;
	added->process = events->last & INT32_MAX;
	events->said |= said != 0;
	return added;
}

/* Add the calls of a `summed` line.  0 or -ENOMEM, as the next. */
int pfw_table_events_sum(struct pfw_table_events *events, const struct pfw_entry *entry,
			 const struct pfw_table_line *line);
/* Note the span of a step; of other lines nothing. */
int pfw_table_events_step(struct pfw_table_events *events, const struct pfw_entry *entry);
void pfw_table_events_clear(struct pfw_table_events *events);
void pfw_table_events_release(struct pfw_table_events *events);

struct pfw_table_by_step;

/* NULL: no memory. */
struct pfw_table_by_step *pfw_table_by_step_create(void);
void pfw_table_by_step_free(struct pfw_table_by_step *by_step);

/* Keep the events and steps of the next block; `nesting` numbers the processes.  0, or as pfw_spill_add(). */
int pfw_table_by_step_take(struct pfw_table_by_step *by_step, const struct pfw_table_events *events,
			   struct pfw_nesting *nesting);

/* After the last block: add all calls, and the GPU work that `by_arg` has, to the rows of their steps; then
 * the spans that count.  `by_arg` adds up their kinds; `rows` are those of work and spans. */
int pfw_table_by_step_begin(struct pfw_table_by_step *by_step, struct pfw_table_by_arg *by_arg,
			    const struct pfw_averages *rows);

/* The step of a span, and of those like it.  All zero: of no span. */
struct pfw_table_at {
	uint64_t step;
	int64_t begin_ns, end_ns;
	uint32_t said;
};

struct pfw_table_at pfw_table_by_step_at(struct pfw_table_by_step *by_step, uint32_t process,
					 const struct pfw_span *span);

/* Whether a span of the same process is in it, too. */
static inline bool pfw_table_is_at(const struct pfw_table_at *at, const struct pfw_span *span)
{
	return span->note == at->said && span->start_ns >= at->begin_ns &&
	       span->start_ns < at->end_ns;
}

/* Add the sums of spans of a row that are in a step, by at->step. */
void pfw_table_by_step_spans(struct pfw_table_by_step *by_step, uint64_t step, uint32_t row,
			     const struct pfw_tally *sums);

/* Append the rows; after that the durations of the calls, which are read for the steps that are shown, and the
 * kinds.  Nothing if there are no steps, too many rows, or no memory was left for a span.  0 or -ENOMEM. */
int pfw_table_by_step_put(struct pfw_table_by_step *by_step, unsigned says, struct pfw_blob *data);
int pfw_table_by_step_put_durations(const struct pfw_table_by_step *by_step, struct pfw_blob *data);
int pfw_table_by_step_put_kinds(const struct pfw_table_by_step *by_step, struct pfw_blob *data);
