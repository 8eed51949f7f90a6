/* store/overlap/marks.c - keeps where the sweep stood, writes and reads it; see marks.h. */
#include "store/overlap/marks.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/order.h"
#include "store/index/db.h"
#include "store/kit/grow.h"
#include "store/kit/saturate.h"
#include "store/kit/varint.h"
#include "store/overlap/internal.h"

/* There is a mark in so many events, so that a file of small blocks has no more marks than it needs. */
#define EVENTS_A_MARK 256u
/* The sums of a block that an index has: those of the tracer's own lines are in no window. */
#define PART_SUMS 6u

struct pfw_overlap_marks *pfw_overlap_marks_create(void)
{
	struct pfw_overlap_marks *marks = calloc(1, sizeof(*marks));

	if (marks && pfw_gap_stretches_init(&marks->stretches)) {
		free(marks);
		marks = NULL;
	}
	return marks;
}

void pfw_overlap_marks_free(struct pfw_overlap_marks *marks)
{
	if (!marks)
		return;
	pfw_gap_stretches_release(&marks->stretches);
	free(marks->mark);
	free(marks->time);
	free(marks->part);
	free(marks);
}

void pfw_overlap_times_add(const struct pfw_overlap_marks *marks,
			   const struct pfw_overlap_times *times, int64_t *set_ns, int sign)
{
	for (size_t i = times->first; i < times->first + times->count; i++) {
		int64_t *ns = &set_ns[marks->time[i].set];

		*ns = pfw_saturate_add(*ns, sign * marks->time[i].ns);
	}
}

/* ---- by the sweep ---- */

int pfw_overlap_marks_take(struct pfw_overlap *overlap, const struct pfw_overlap_block *block)
{
	struct pfw_overlap_marks *marks = overlap->marks;
	const struct pfw_overlap_part part = { .sums = block->sums,
					       .least_ns = block->least_ns,
					       .greatest_ns = block->greatest_ns };
	uint64_t events = overlap->sums.events, before = events - block->sums.events;
	struct pfw_gap_stretches *stretches;

	if (!marks)
		return 0;
	if (PFW_PUSH(marks->part, marks->parts, marks->part_room, part))
		return -ENOMEM;
	stretches = &marks->stretches;
	if (before / EVENTS_A_MARK == events / EVENTS_A_MARK || block->last_ns == INT64_MAX)
		return 0;
	if (overlap->sorted && stretches->count &&
	    stretches->end[stretches->count - 1] > block->last_ns)
		return 0;
	return pfw_gap_stretches_cut(stretches, block->last_ns + 1);
}

void pfw_overlap_marks_sort(struct pfw_overlap *overlap)
{
	if (overlap->marks && !overlap->sorted)
		pfw_gap_stretches_sort(&overlap->marks->stretches, overlap->marks->passed);
}

static int add_times(struct pfw_overlap_marks *marks, struct pfw_overlap_times *times,
		     const int64_t *set_ns, const int64_t *before_ns)
{
	times->first = marks->times;
	for (unsigned i = 0; i < PFW_OVERLAP_SETS; i++) {
		const struct pfw_overlap_time time = { i,
						       set_ns[i] - (before_ns ? before_ns[i] : 0) };

		if (time.ns && PFW_PUSH(marks->time, marks->times, marks->time_room, time))
			return -ENOMEM;
	}
	times->count = marks->times - times->first;
	return 0;
}

/* Pass the next mark. */
static int pass(struct pfw_overlap *overlap)
{
	struct pfw_overlap_marks *marks = overlap->marks;
	struct pfw_overlap_mark mark = { .stepping = overlap->stepping };
	const int64_t *set_ns = overlap->sweep->set_ns;
	int error = add_times(marks, &mark.since, set_ns, marks->set_ns);

	memcpy(marks->set_ns, set_ns, sizeof(marks->set_ns));
	if (mark.stepping) {
		mark.number = overlap->now.number;
		mark.step_end_ns = overlap->step_end_ns;
		error = error ? error : add_times(marks, &mark.own, overlap->sweep->now_ns, NULL);
	}
	return error ? error : PFW_PUSH(marks->mark, marks->passed, marks->room, mark);
}

int pfw_overlap_marks_pass(struct pfw_overlap *overlap)
{
	int error = 0;

	while (!error && pfw_overlap_next_mark(overlap) <= overlap->at_ns) {
		overlap->marks->lost |= pfw_overlap_next_mark(overlap) < overlap->at_ns;
		error = pass(overlap);
	}
	return error;
}

int pfw_overlap_marks_end(struct pfw_overlap *overlap)
{
	struct pfw_overlap_marks *marks = overlap->marks;
	int error;

	if (!marks || overlap->least_ns > overlap->greatest_ns)
		return 0;
	/* No event is after the end. */
	error = pfw_gap_stretches_join(&marks->stretches, marks->passed);
	error = error ? error : pfw_gap_stretches_cut(&marks->stretches, overlap->greatest_ns);
	return error ? error : pass(overlap);
}

/* ---- writing ---- */

static void put_times(struct pfw_blob *blob, const struct pfw_overlap_marks *marks,
		      const struct pfw_overlap_times *times)
{
	PFW_BLOB_PUT(blob, times->count);
	for (size_t i = times->first; i < times->first + times->count; i++)
		PFW_BLOB_PUT(blob, marks->time[i].set, (uint64_t)marks->time[i].ns);
}

static void put_part(struct pfw_blob *blob, const struct pfw_overlap_part *part, int64_t since_ns)
{
	PFW_BLOB_PUT(blob, part->sums.events);
	if (!part->sums.events)
		return;
	pfw_blob_put(blob, part->sums.sum + 1, PART_SUMS - 1);
	PFW_BLOB_PUT(blob, (uint64_t)(part->least_ns - since_ns),
		     (uint64_t)(part->greatest_ns - part->least_ns));
}

/* The kernels between the previous mark and this one; `reach` is after this mark, `back` before the previous. */
static void put_stretch(struct pfw_blob *blob, const struct pfw_gap_stretch *stretch,
			int64_t begin_ns, int64_t end_ns)
{
	uint8_t sketch[PFW_SKETCH_BYTES_MAX];
	bool reaches = stretch->reach_ns >= end_ns, returns = stretch->back_ns < begin_ns;

	PFW_BLOB_PUT(blob, stretch->count, stretch->unmatched,
		     reaches ? (uint64_t)(stretch->reach_ns - end_ns) + 1 : 0,
		     returns ? (uint64_t)(begin_ns - stretch->back_ns) : 0);
	if (!stretch->count)
		return;
	PFW_BLOB_PUT(blob, (uint64_t)stretch->sum_ns, (uint64_t)stretch->max_ns);
	pfw_blob_bytes(blob, sketch, pfw_sketch_encode_block(&stretch->gap, sketch));
}

static void put_mark(struct pfw_blob *blob, const struct pfw_overlap_marks *marks, size_t number,
		     int64_t begin_ns)
{
	const struct pfw_overlap_mark *mark = &marks->mark[number];
	int64_t end_ns = marks->stretches.end[number];

	PFW_BLOB_PUT(blob, (uint64_t)(end_ns - begin_ns), mark->stepping);
	put_times(blob, marks, &mark->since);
	put_stretch(blob, &marks->stretches.stretch[number], begin_ns, end_ns);
	if (!mark->stepping)
		return;
	PFW_BLOB_PUT(blob, mark->number, pfw_varint_fold(mark->step_end_ns - end_ns));
	put_times(blob, marks, &mark->own);
}

void pfw_overlap_marks_put(const struct pfw_overlap *overlap, struct pfw_blob *blob)
{
	const struct pfw_overlap_marks *marks = overlap->marks;
	uint64_t all = (uint64_t)overlap->greatest_ns - (uint64_t)overlap->least_ns;
	int64_t begin_ns = overlap->least_ns;

	/* Beyond that, differences of times do not fit in their numbers. */
	if (!marks || marks->lost || overlap->least_ns > overlap->greatest_ns ||
	    all > (uint64_t)PFW_OVERLAP_CELL_NS) {
		PFW_BLOB_PUT(blob, 0);
		return;
	}
	PFW_BLOB_PUT(blob, marks->passed + 1, marks->parts);
	for (size_t i = 0; i < marks->parts; i++)
		put_part(blob, &marks->part[i], overlap->least_ns);
	for (size_t i = 0; i < marks->passed; i++) {
		put_mark(blob, marks, i, begin_ns);
		begin_ns = marks->stretches.end[i];
	}
}

/* ---- reading ---- */

static int read_times(struct pfw_overlap_marks *marks, struct pfw_overlap_times *times,
		      struct pfw_varints *reader)
{
	uint64_t count = pfw_varints_next(reader);

	times->first = marks->times;
	while (count-- && !reader->bad) {
		struct pfw_overlap_time time = { .set = (unsigned)pfw_varints_next(reader) %
							PFW_OVERLAP_SETS };

		time.ns = pfw_varints_ns(reader);
		if (PFW_PUSH(marks->time, marks->times, marks->time_room, time))
			return -ENOMEM;
	}
	times->count = marks->times - times->first;
	return 0;
}

static int read_part(struct pfw_overlap_marks *marks, int64_t since_ns, struct pfw_varints *reader)
{
	struct pfw_overlap_part part = { .least_ns = INT64_MAX, .greatest_ns = INT64_MIN };

	part.sums.events = pfw_varints_next(reader);
	for (unsigned i = 1; i < PART_SUMS && part.sums.events; i++)
		part.sums.sum[i] = pfw_varints_next(reader);
	if (part.sums.events &&
	    (__builtin_add_overflow(since_ns, pfw_varints_ns(reader), &part.least_ns) ||
	     __builtin_add_overflow(part.least_ns, pfw_varints_ns(reader), &part.greatest_ns)))
		reader->bad = true;
	return PFW_PUSH(marks->part, marks->parts, marks->part_room, part);
}

static int read_stretch(struct pfw_gap_stretch *stretch, int64_t begin_ns, int64_t end_ns,
			struct pfw_varints *reader)
{
	struct pfw_varints sketch;
	int64_t reach, back;

	stretch->count = pfw_varints_next(reader);
	stretch->unmatched = pfw_varints_next(reader);
	reach = pfw_varints_ns(reader);
	back = pfw_varints_ns(reader);
	if ((reach && __builtin_add_overflow(end_ns, reach - 1, &stretch->reach_ns)) ||
	    (back && __builtin_sub_overflow(begin_ns, back, &stretch->back_ns)))
		reader->bad = true;
	if (!stretch->count || reader->bad)
		return 0;
	stretch->sum_ns = pfw_varints_ns(reader);
	stretch->max_ns = pfw_varints_ns(reader);
	sketch = pfw_varints_part(reader);
	return pfw_sketch_decode(&stretch->gap, sketch.at, (size_t)(sketch.end - sketch.at));
}

static int read_mark(struct pfw_overlap_marks *marks, int64_t *at_ns, struct pfw_varints *reader)
{
	struct pfw_overlap_mark mark = { .stepping = false };
	int64_t begin_ns = *at_ns;
	int error;

	reader->bad |= __builtin_add_overflow(begin_ns, pfw_varints_ns(reader), at_ns);
	mark.stepping = pfw_varints_next(reader) != 0;
	error = read_times(marks, &mark.since, reader);
	error = error ? error : pfw_gap_stretches_cut(&marks->stretches, *at_ns);
	error = error ? error
		      : read_stretch(&marks->stretches.stretch[marks->passed], begin_ns, *at_ns,
				     reader);
	if (mark.stepping && !error) {
		mark.number = pfw_varints_next(reader);
		reader->bad |= __builtin_add_overflow(
			*at_ns, pfw_varint_unfold(pfw_varints_next(reader)), &mark.step_end_ns);
		error = read_times(marks, &mark.own, reader);
	}
	return error ? error : PFW_PUSH(marks->mark, marks->passed, marks->room, mark);
}

int pfw_overlap_marks_read(struct pfw_overlap *overlap, struct pfw_varints *reader)
{
	struct pfw_overlap_marks *marks = overlap->marks;
	uint64_t count = pfw_varints_next(reader), parts;
	int64_t at_ns = overlap->least_ns;
	int error = 0;

	if (!count)
		return 0;
	for (parts = pfw_varints_next(reader); parts && !error && !reader->bad; parts--)
		error = read_part(marks, overlap->least_ns, reader);
	while (--count && !error && !reader->bad)
		error = read_mark(marks, &at_ns, reader);
	for (size_t i = 0; i < marks->passed; i++)
		pfw_overlap_times_add(marks, &marks->mark[i].since, marks->set_ns, 1);
	return reader->bad ? -EBADMSG : error;
}
