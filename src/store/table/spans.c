/* store/table/spans.c - keeps the spans of a block; see spans.h. */
#include "store/table/spans.h"

#include <stdlib.h>

#include "store/kit/grow.h"

/* I/O calls nest only in each other, not in spans. */
#define IO_THREAD (1ull << 63)

int pfw_table_spans_add(struct pfw_table_spans *spans, const struct pfw_entry *entry,
			const struct pfw_table_line *line, uint32_t group, uint32_t note)
{
	bool call = line->section == PFW_TABLE_IO || line->section == PFW_TABLE_HIDDEN_IO;
	/* A compute event without memory has none; a span of the program's own cannot say. */
	bool says = line->has_memory || pfw_slice_is(&entry->cat, "PP");
	uint32_t otherwise = says ? 0 : PFW_EXTRA_UNKNOWN;
	const struct pfw_table_span span = { .process = entry->process,
					     .tid = entry->tid ^ (call ? IO_THREAD : 0),
					     .span = { .start_ns = line->start_ns,
						       .dur_ns = line->dur_ns,
						       .launcher = line->launcher,
						       .outer = (uint32_t)pfw_entry_outer(entry),
						       .parent = (uint32_t)line->parent,
						       .group = group,
						       .note = note,
						       .extra = line->has_extra ? 1 : otherwise },
					     .extra = line->extra };

	return PFW_PUSH(spans->span, spans->spans, spans->span_room, span);
}

int pfw_table_spans_launch(struct pfw_table_spans *spans, const struct pfw_entry *entry,
			   const struct pfw_table_line *line)
{
	const struct pfw_table_launch launch = { .process = entry->process,
						 .launch = { .launcher = line->launched_by,
							     .otherwise = line->otherwise,
							     .ns = line->dur_ns } };

	return PFW_PUSH(spans->launch, spans->launches, spans->launch_room, launch);
}

static int keep_spans(const struct pfw_table_spans *spans, struct pfw_nesting *nesting)
{
	int64_t process = -1, thread = -1;

	for (size_t i = 0; i < spans->spans; i++) {
		const struct pfw_table_span *at = &spans->span[i];
		bool same_process = i && at->process == at[-1].process;
		struct pfw_span span = at->span;
		int error = 0;

		if (!same_process)
			process = pfw_nesting_process(nesting, at->process);
		if (process < 0)
			return (int)process;
		if (!same_process || at->tid != at[-1].tid)
			thread = pfw_nesting_thread(nesting, (uint32_t)process, at->tid);
		if (thread < 0)
			return (int)thread;
		if (span.extra && span.extra != PFW_EXTRA_UNKNOWN)
			error = pfw_nesting_extra(nesting, &at->extra, &span.extra);
		if (!error)
			error = pfw_nesting_add(nesting, (uint32_t)thread, &span);
		if (error)
			return error;
	}
	return 0;
}

static int keep_launches(const struct pfw_table_spans *spans, struct pfw_nesting *nesting)
{
	for (size_t i = 0; i < spans->launches; i++) {
		struct pfw_launch launch = spans->launch[i].launch;
		int64_t process = pfw_nesting_process(nesting, spans->launch[i].process);
		int error;

		if (process < 0)
			return (int)process;
		launch.process = (uint32_t)process;
		error = pfw_nesting_launch(nesting, &launch);
		if (error)
			return error;
	}
	return 0;
}

int pfw_table_spans_keep(const struct pfw_table_spans *spans, struct pfw_nesting *nesting)
{
	int error = keep_spans(spans, nesting);

	return error ? error : keep_launches(spans, nesting);
}

void pfw_table_spans_release(struct pfw_table_spans *spans)
{
	free(spans->span);
	free(spans->launch);
	*spans = (struct pfw_table_spans){ 0 };
}
