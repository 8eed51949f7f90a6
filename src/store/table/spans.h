/* store/table/spans.h - the spans and the GPU work of a block, until they are nested. */
#pragma once

#include <stddef.h>

#include "store/kit/grow.h"
#include "store/kit/pair_ids.h"
#include "store/table/line.h"

struct pfw_table_thread {
	uint64_t process, tid;
	uint32_t lane;	       /* of the caller */
	struct pfw_span *span; /* span->extra: the number of its extra figures here, plus 1 */
	size_t spans, room;
};

struct pfw_table_launch {
	uint64_t process;
	int64_t start_ns;
	struct pfw_launch launch;
	uint32_t group;
};

/* All zero: none.  Thread: one at a time. */
struct pfw_table_spans {
	struct pfw_table_thread *thread;
	struct pfw_table_launch *launch;
	size_t threads, launches;
	/* Private to spans.c. */
	struct pfw_pair_ids numbers; /* of the threads */
	struct pfw_span_extra *extra;
	size_t last, extras, thread_room, launch_room, extra_room;
};

/* Add a line of the CPU as a span with these numbers; or a line of a device whose launcher is known.  0 or
 * -ENOMEM. */
int pfw_table_spans_add(struct pfw_table_spans *spans, const struct pfw_entry *entry,
			const struct pfw_table_line *line, uint32_t group, uint32_t note);
int pfw_table_spans_launch(struct pfw_table_spans *spans, const struct pfw_entry *entry,
			   const struct pfw_table_line *line, uint32_t group);

/* The same in steps, for whoever remembers threads and what lines have in common.  The number of the thread of
 * spans that are no calls, or -ENOMEM. */
int64_t pfw_table_spans_thread(struct pfw_table_spans *spans, uint64_t process, uint64_t tid);

/* span->extra of a line without extra figures. */
static inline uint32_t pfw_table_extra(const struct pfw_entry *entry,
				       const struct pfw_table_line *line)
{
	/* A compute event without memory has none; a span of the program's own cannot say. */
	return line->has_memory || pfw_slice_is(&entry->cat, "PP") ? 0 : PFW_EXTRA_UNKNOWN;
}

/* The same of any line, whose figures are kept.  0 or -ENOMEM. */
int pfw_table_spans_extra(struct pfw_table_spans *spans, const struct pfw_entry *entry,
			  const struct pfw_table_line *line, uint32_t *extra);

/* A new span of a thread, to be filled; NULL: no memory. */
static inline struct pfw_span *pfw_table_spans_push(struct pfw_table_spans *spans, size_t number)
{
	struct pfw_table_thread *thread = &spans->thread[number];

	return PFW_ROOM(thread->span, thread->spans, thread->room) ? NULL
								   : &thread->span[thread->spans++];
}

/* Set what a line says; group, note and extra are the caller's. */
static inline void pfw_table_span_set(struct pfw_span *span, const struct pfw_entry *entry,
				      const struct pfw_table_line *line)
{
	span->start_ns = line->start_ns;
	span->dur_ns = line->dur_ns;
	span->launcher = line->launcher;
	span->outer = (uint32_t)pfw_entry_outer(entry);
	span->parent = (uint32_t)line->parent;
}

/* Give all to a nesting.  Errors: as pfw_nesting_add(). */
int pfw_table_spans_keep(const struct pfw_table_spans *spans, struct pfw_nesting *nesting);

/* Make it empty; its memory is kept. */
void pfw_table_spans_clear(struct pfw_table_spans *spans);

/* Free them; *spans is empty then. */
void pfw_table_spans_release(struct pfw_table_spans *spans);
