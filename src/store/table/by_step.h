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

/* Calls that follow each other: of one process, with one step that they say, begun within seconds. */
struct pfw_table_run {
	uint64_t since_ns; /* their begins are relative to it */
	uint64_t process;  /* of their entries; of a file, its number in the nesting */
	uint32_t said;	   /* as span->note */
	uint32_t calls;
};

/* One event's contribution to a step; there are millions, so the struct is small. */
struct pfw_table_event {
	uint32_t start_ns, dur_ns;
	uint32_t bytes; /* and PFW_TABLE_TRANSFER, if it moves bytes */
};
#define PFW_TABLE_TRANSFER ((uint32_t)1 << 31)

/* Many calls, of a `summed` line, or one that is too long for the others or moves too much. */
struct pfw_table_sum {
	struct pfw_table_call call;
	uint64_t process;
	uint32_t said;
};

/* Those of a block, and its spans of steps.  All zero: none.  Thread: one at a time, as all here. */
struct pfw_table_events {
	struct pfw_table_run *run;
	struct pfw_table_event *event; /* of all runs */
	struct pfw_table_sum *sum;
	struct pfw_step *step;
	size_t runs, events, sums, steps;
	bool said; /* some line says its step */
	/* Private to by_step.c. */
	size_t run_room, event_room, sum_room, step_room;
};

/* Add the calls of a `summed` line.  0 or -ENOMEM, as all here. */
int pfw_table_events_sum(struct pfw_table_events *events, const struct pfw_entry *entry,
			 const struct pfw_table_line *line);

/* Begin a run around this begin; add a call that is too long for a run, or moves too much. */
int pfw_table_events_begin(struct pfw_table_events *events, int64_t start_ns, uint64_t process,
			   uint32_t said);
int pfw_table_events_wide(struct pfw_table_events *events, struct pfw_table_call call,
			  uint64_t process, uint32_t said);

/* Add a call, of which the line has times, bytes and transfers. */
static inline int pfw_table_events_add(struct pfw_table_events *events,
				       const struct pfw_table_line *line, uint64_t process,
				       uint32_t said)
{
	struct pfw_table_run *run = events->runs ? &events->run[events->runs - 1] : NULL;
	struct pfw_table_event *event;

	if ((uint64_t)line->dur_ns > UINT32_MAX || (uint64_t)line->bytes >= PFW_TABLE_TRANSFER)
		return pfw_table_events_wide(events,
					     (struct pfw_table_call){ .start_ns = line->start_ns,
								      .dur_ns = line->dur_ns,
								      .bytes = line->bytes,
								      .calls = 1,
								      .transfers =
									      line->transfers },
					     process, said);
	if (((!run || run->process != process || run->said != said ||
	      (uint64_t)line->start_ns - run->since_ns > UINT32_MAX) &&
	     pfw_table_events_begin(events, line->start_ns, process, said)) ||
	    PFW_ROOM(events->event, events->events, events->event_room))
		return -ENOMEM;
	run = &events->run[events->runs - 1];
	run->calls++;
	event = &events->event[events->events++];
	event->start_ns = (uint32_t)((uint64_t)line->start_ns - run->since_ns);
	event->dur_ns = (uint32_t)line->dur_ns;
	event->bytes = (uint32_t)line->bytes | (line->transfers ? PFW_TABLE_TRANSFER : 0);
	return 0;
}

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
