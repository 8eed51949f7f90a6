/* store/table/spans.c - keeps the spans of a block; see spans.h. */
#include "store/table/spans.h"

#include <stdlib.h>

#include "store/kit/grow.h"

/* I/O calls nest only in each other, not in spans. */
#define IO_THREAD (1ull << 63)

int64_t pfw_table_spans_thread(struct pfw_table_spans *spans, uint64_t process, uint64_t tid)
{
	struct pfw_table_thread *last = spans->threads ? &spans->thread[spans->last] : NULL;
	int64_t number;

	if (last && last->process == process && last->tid == tid)
		return (int64_t)spans->last;
	number = pfw_pair_ids_of(&spans->numbers, process, tid);
	if (number < 0 || PFW_REACH(spans->thread, (size_t)number, spans->thread_room))
		return -ENOMEM;
	spans->last = (size_t)number;
	last = &spans->thread[number];
	if (spans->last == spans->threads) {
		spans->threads++;
		last->process = process;
		last->tid = tid;
		last->spans = 0;
	}
	return number;
}

int pfw_table_spans_extra(struct pfw_table_spans *spans, const struct pfw_entry *entry,
			  const struct pfw_table_line *line, uint32_t *extra)
{
	*extra = pfw_table_extra(entry, line);
	if (!line->has_extra)
		return 0;
	if (PFW_PUSH(spans->extra, spans->extras, spans->extra_room, line->extra))
		return -ENOMEM;
	*extra = (uint32_t)spans->extras;
	return 0;
}

int pfw_table_spans_add(struct pfw_table_spans *spans, const struct pfw_entry *entry,
			const struct pfw_table_line *line, uint32_t group, uint32_t note)
{
	bool call = line->section == PFW_TABLE_IO || line->section == PFW_TABLE_HIDDEN_IO;
	int64_t thread =
		pfw_table_spans_thread(spans, entry->process, entry->tid ^ (call ? IO_THREAD : 0));
	struct pfw_span *span = NULL;
	uint32_t extra;

	if (thread >= 0 && !pfw_table_spans_extra(spans, entry, line, &extra))
		span = pfw_table_spans_push(spans, (size_t)thread);
	if (!span)
		return -ENOMEM;
	pfw_table_span_set(span, entry, line);
	span->group = group;
	span->note = note;
	span->extra = extra;
	return 0;
}

int pfw_table_spans_launch(struct pfw_table_spans *spans, const struct pfw_entry *entry,
			   const struct pfw_table_line *line, uint32_t group)
{
	const struct pfw_table_launch launch = { .process = entry->process,
						 .start_ns = line->start_ns,
						 .group = group,
						 .launch = { .launcher = line->launched_by,
							     .otherwise = line->otherwise,
							     .ns = line->dur_ns } };

	return PFW_PUSH(spans->launch, spans->launches, spans->launch_room, launch);
}

/* Their extra figures get other numbers. */
static int keep_extras(const struct pfw_table_spans *spans, struct pfw_nesting *nesting)
{
	uint32_t number = 0;
	int error = 0;

	for (size_t i = 0; i < spans->extras && !error; i++)
		error = pfw_nesting_extra(nesting, &spans->extra[i], &number);
	for (size_t i = 0; spans->extras && i < spans->threads; i++) {
		const struct pfw_table_thread *thread = &spans->thread[i];

		for (size_t j = 0; j < thread->spans; j++) {
			uint32_t *extra = &thread->span[j].extra;

			if (*extra && *extra != PFW_EXTRA_UNKNOWN)
				*extra += number - (uint32_t)spans->extras;
		}
	}
	return error;
}

static int keep_spans(const struct pfw_table_spans *spans, struct pfw_nesting *nesting)
{
	int error = keep_extras(spans, nesting);

	for (size_t i = 0; i < spans->threads && !error; i++) {
		const struct pfw_table_thread *thread = &spans->thread[i];
		int64_t process = pfw_nesting_process(nesting, thread->process), number;

		if (process < 0)
			return (int)process;
		number = pfw_nesting_thread(nesting, (uint32_t)process, thread->tid);
		error = number < 0 ? (int)number
				   : pfw_nesting_add(nesting, (uint32_t)number, thread->span,
						     thread->spans);
	}
	return error;
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

void pfw_table_spans_clear(struct pfw_table_spans *spans)
{
	pfw_pair_ids_release(&spans->numbers);
	spans->threads = spans->launches = spans->extras = spans->last = 0;
}

void pfw_table_spans_release(struct pfw_table_spans *spans)
{
	for (size_t i = 0; i < spans->thread_room; i++)
		free(spans->thread[i].span);
	free(spans->thread);
	free(spans->launch);
	free(spans->extra);
	pfw_pair_ids_release(&spans->numbers);
	*spans = (struct pfw_table_spans){ 0 };
}
