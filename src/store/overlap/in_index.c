/* store/overlap/in_index.c - stores a trace's overlaps in its index: docs/index_format.rst.
 *
 * The blocks of a compacted file are swept as they come.  Lines of other files may be late by as
 * long as their span takes, so all intervals are kept until the end.
 */
#include "store/overlap/in_index.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "store/index/db.h"
#include "store/kit/grow.h"
#include "store/kit/varint.h"
#include "store/overlap/internal.h"
#include "store/overlap/marks.h"
#include "store/overlap/overlap.h"

/* The sweep stays this long behind sorted lines.  A kernel that waits for longer comes too late: then the
 * last row is empty, and the lines must be read. */
#define LAG_NS 10000000000ll
/* The writer drains the ring of each thread twice a second, so that lines which a trace gets later
 * mostly begin at most this long before its end.  Otherwise its index is made anew. */
#define LATE_NS 2000000000ll
/* The most cells of steps that are kept in memory before they become a row. */
#define CELLS_A_ROW 8192u

/* ---- writing ---- */

static void put_steps(struct pfw_blob *blob, const struct pfw_overlap *overlap)
{
	for (size_t i = 0; i < overlap->steps; i++) {
		const struct pfw_overlap_step *step = &overlap->step[i];

		PFW_BLOB_PUT(blob, step->number, pfw_varint_fold(step->begin),
			     (uint64_t)(step->end - step->begin), step->cells);
		pfw_blob_put(blob, overlap->cell + step->first, step->cells);
	}
}

static void put_sets(struct pfw_blob *blob, const struct pfw_overlap *overlap)
{
	uint64_t value[2 * PFW_OVERLAP_SETS + 1], count = 0;

	for (unsigned i = 0; i < PFW_OVERLAP_SETS && overlap->sweep; i++) {
		if (!overlap->sweep->set_ns[i])
			continue;
		value[++count] = i;
		value[++count] = (uint64_t)overlap->sweep->set_ns[i];
	}
	for (size_t i = 0; i < overlap->times; i++) {
		value[++count] = overlap->time[i].set;
		value[++count] = (uint64_t)overlap->time[i].ns;
	}
	value[0] = count / 2;
	pfw_blob_put(blob, value, count + 1);
}

static void put_gaps(struct pfw_blob *blob, const struct pfw_launch_gaps *gaps)
{
	uint8_t sketch[PFW_SKETCH_BYTES_MAX];
	uint64_t bytes = pfw_sketch_encode(&gaps->gap, sketch);

	PFW_BLOB_PUT(blob, gaps->count, gaps->unmatched, (uint64_t)gaps->sum_ns,
		     (uint64_t)gaps->max_ns, bytes);
	/* A byte of the sketch takes one or two bytes as a varint. */
	for (uint64_t i = 0; i < bytes; i++)
		PFW_BLOB_PUT(blob, sketch[i]);
}

/* The sums, of the times up to `until_ns`. */
static void put_head(struct pfw_blob *blob, const struct pfw_overlap *overlap, int64_t until_ns)
{
	bool empty = overlap->least_ns > overlap->greatest_ns;
	uint64_t head[4 + PFW_OVERLAP_SUMS] = {
		empty ? 0 : pfw_varint_fold(overlap->least_ns),
		empty ? 0 : (uint64_t)until_ns - (uint64_t)overlap->least_ns,
		[2 + PFW_OVERLAP_SUMS] = overlap->steps_left_out,
		[3 + PFW_OVERLAP_SUMS] = overlap->owner.several,
	};

	memcpy(head + 2, overlap->sums.sum, sizeof(overlap->sums.sum));
	pfw_blob_put(blob, head, 4 + PFW_OVERLAP_SUMS);
	put_sets(blob, overlap);
	put_gaps(blob, &overlap->gaps);
}

/* ---- an index that is added to ---- */

static void put_intervals(struct pfw_blob *blob, const struct pfw_interval *at, size_t count,
			  int64_t since_ns)
{
	PFW_BLOB_PUT(blob, count);
	for (size_t i = 0; i < count; i++) {
		PFW_BLOB_PUT(blob, pfw_varint_fold(at[i].begin - since_ns),
			     (uint64_t)(at[i].end - at[i].begin));
		since_ns = at[i].end;
	}
}

/* The marks that the sweep has not passed. */
static void put_marks_ahead(struct pfw_blob *blob, const struct pfw_overlap *overlap)
{
	const struct pfw_gap_stretches *stretches = &overlap->marks->stretches;
	size_t passed = overlap->marks->passed;

	PFW_BLOB_PUT(blob, stretches->count - passed);
	for (size_t i = passed; i < stretches->count; i++)
		PFW_BLOB_PUT(blob, (uint64_t)(stretches->end[i] - overlap->at_ns));
}

/* Sweep almost to the end, and keep the intervals after that. */
static int state(void *file, struct pfw_blob *data, size_t most)
{
	struct pfw_overlap *overlap = file;
	struct pfw_union *calls = pfw_overlap_calls(overlap);
	const struct pfw_interval *at;
	size_t count;
	int error;

	if (!calls || !overlap->sums.events || overlap->greatest_ns < INT64_MIN + LATE_NS)
		return 0;
	error = pfw_overlap_advance(overlap, overlap->greatest_ns - LATE_NS);
	error = error ? error : pfw_union_settle(calls, &at, &count);
	if (error || count > most / 2)
		return error;
	put_head(data, overlap, overlap->at_ns);
	pfw_overlap_marks_put(overlap, data);
	put_marks_ahead(data, overlap);
	PFW_BLOB_PUT(data, overlap->owner.known, pfw_varint_fold(overlap->owner.rank),
		     (uint64_t)overlap->greatest_ns - (uint64_t)overlap->at_ns);
	put_intervals(data, at, count, overlap->at_ns);
	if (data->bytes > most)
		data->bytes = 0;
	return 0;
}

/* ---- the kind ---- */

static int init_file(void *file)
{
	struct pfw_overlap *overlap = file;

	pfw_overlap_init(overlap);
	overlap->marks = pfw_overlap_marks_create();
	if (!overlap->marks)
		return -ENOMEM;
	overlap->gaps.stretches = &overlap->marks->stretches;
	return 0;
}

static void set_sorted(void *file)
{
	((struct pfw_overlap *)file)->sorted = true;
}

static void release_file(void *file)
{
	pfw_overlap_release(file);
}

static int take(void *file, void *taken, struct pfw_blob *data)
{
	const struct pfw_overlap_block *block = taken;
	struct pfw_overlap *overlap = file;
	int error;

	/* Without room for its launches the trace gets the rest of its index. */
	if (overlap->inexact)
		return 0;
	if (!overlap->sorted && overlap->swept && block->least_ns < overlap->at_ns)
		return -EAGAIN;
	error = pfw_overlap_take(overlap, taken);
	if (!overlap->sorted) {
		overlap->inexact = error && error != -ENOMEM;
		return overlap->inexact ? 0 : error;
	}
	if (!error && block->last_ns > INT64_MIN + LAG_NS)
		error = pfw_overlap_advance(overlap, block->last_ns - LAG_NS);
	if (!error && overlap->cells > CELLS_A_ROW) {
		put_steps(data, overlap);
		overlap->steps = overlap->cells = 0;
	}
	return error;
}

void pfw_overlap_put_row(const struct pfw_overlap *overlap, struct pfw_blob *row)
{
	struct pfw_blob marks = { .data = NULL };

	put_head(row, overlap, overlap->greatest_ns);
	/* The end alone is of no use. */
	if (overlap->marks && overlap->marks->passed > 1)
		pfw_overlap_marks_put(overlap, &marks);
	pfw_blob_part(row, &marks);
	put_steps(row, overlap);
}

static int end(void *file, struct pfw_blob *data)
{
	struct pfw_overlap *overlap = file;
	int error = overlap->inexact ? 0 : pfw_overlap_end(overlap);

	/* An empty last row: no answer. */
	if (overlap->inexact || error)
		return error == -ENOMEM ? error : 0;
	pfw_overlap_put_row(overlap, data);
	return 0;
}

/* ---- reading ---- */

static int read_step(struct pfw_overlap *overlap, struct pfw_varints *reader)
{
	struct pfw_overlap_step step = { .first = (uint32_t)overlap->cells };
	uint64_t cells;

	step.number = pfw_varints_next(reader);
	step.begin = pfw_varint_unfold(pfw_varints_next(reader));
	if (__builtin_add_overflow(step.begin, pfw_varints_ns(reader), &step.end))
		reader->bad = true;
	cells = pfw_varints_next(reader);
	if (reader->bad || cells > PFW_OVERLAP_SETS || overlap->cells > UINT32_MAX - cells)
		return -EBADMSG;
	step.cells = (uint32_t)cells;
	if (PFW_RESERVE(overlap->cell, overlap->cells + cells, overlap->cell_room))
		return -ENOMEM;
	for (uint64_t i = 0; i < cells; i++) {
		uint64_t *cell = &overlap->cell[overlap->cells + i];
		/* Hundreds of thousands, of which few have one byte: not one by one. */
		bool whole = reader->end - reader->at >= (ptrdiff_t)PFW_VARINT_MAX
				     ? pfw_varint_get_wide(&reader->at, cell)
				     : pfw_varint_get(&reader->at, reader->end, cell);

		if (!whole || *cell > INT64_MAX)
			return -EBADMSG;
	}
	overlap->cells += cells;
	return PFW_PUSH(overlap->step, overlap->steps, overlap->step_room, step);
}

static int read_gaps(struct pfw_launch_gaps *gaps, struct pfw_varints *reader)
{
	uint8_t sketch[PFW_SKETCH_BYTES_MAX];
	uint64_t bytes;
	int error;

	gaps->count = pfw_varints_next(reader);
	gaps->unmatched = pfw_varints_next(reader);
	gaps->sum_ns = pfw_varints_ns(reader);
	gaps->max_ns = pfw_varints_ns(reader);
	bytes = pfw_varints_next(reader);
	if (bytes > PFW_SKETCH_BYTES_MAX)
		return -EBADMSG;
	for (uint64_t i = 0; i < bytes; i++)
		sketch[i] = (uint8_t)pfw_varints_next(reader);
	error = reader->bad ? -EBADMSG : pfw_sketch_decode(&gaps->gap, sketch, bytes);
	return error ? error : gaps->gap.total == gaps->count ? 0 : -EBADMSG;
}

/* The times of all sets add up to the whole time. */
static int read_sets(struct pfw_overlap *overlap, struct pfw_varints *reader, uint64_t all)
{
	uint64_t count = pfw_varints_next(reader), sum = 0;

	for (uint64_t i = 0; i < count && !reader->bad; i++) {
		uint64_t set = pfw_varints_next(reader);
		struct pfw_overlap_time time = { .set = (unsigned)set,
						 .ns = pfw_varints_ns(reader) };

		if (set >= PFW_OVERLAP_SETS ||
		    (overlap->times && set <= overlap->time[overlap->times - 1].set))
			return -EBADMSG;
		if (PFW_PUSH(overlap->time, overlap->times, overlap->time_room, time))
			return -ENOMEM;
		sum += (uint64_t)time.ns;
	}
	return reader->bad || sum != all ? -EBADMSG : 0;
}

static int read_head(struct pfw_overlap *overlap, struct pfw_varints *reader)
{
	int64_t least = pfw_varint_unfold(pfw_varints_next(reader));
	uint64_t all = pfw_varints_next(reader);
	int error;

	for (unsigned i = 0; i < PFW_OVERLAP_SUMS; i++)
		overlap->sums.sum[i] = pfw_varints_next(reader);
	if (overlap->sums.summed_ns < 0)
		return -EBADMSG;
	overlap->steps_left_out = pfw_varints_next(reader);
	overlap->owner.several = pfw_varints_next(reader) != 0;
	if (overlap->sums.events) {
		overlap->least_ns = least;
		overlap->greatest_ns = (int64_t)((uint64_t)least + all);
		if (overlap->greatest_ns < least)
			return -EBADMSG;
	}
	error = read_sets(overlap, reader, all);
	return error ? error : read_gaps(&overlap->gaps, reader);
}

/* What precedes the steps in the last row, which has no bytes if nothing was kept. */
static int read_last(struct pfw_overlap *overlap, struct pfw_varints *row)
{
	int error = row->at == row->end ? -ENOENT : read_head(overlap, row);
	struct pfw_varints marks = pfw_varints_part(row);

	if (!error && overlap->marks && marks.at < marks.end)
		error = pfw_overlap_marks_read(overlap, &marks);
	return error;
}

/* Of a long trace a step with its cells takes 70 bytes, 4.4 for each cell. */
#define CELL_BYTES 4u
#define STEP_BYTES 64u

/* Reserve room for the steps of a row at once: memory that is not used costs nothing, copies do. */
static int reserve(struct pfw_overlap *overlap, size_t bytes)
{
	size_t cells = bytes / CELL_BYTES, room = overlap->cell_room;

	if (PFW_RESERVE(overlap->cell, overlap->cells + cells, overlap->cell_room) ||
	    PFW_RESERVE(overlap->step, overlap->steps + bytes / STEP_BYTES, overlap->step_room))
		return -ENOMEM;
	if (overlap->cell_room > room)
		pfw_grow_populate(overlap->cell + overlap->cells, cells * sizeof(*overlap->cell));
	return 0;
}

int pfw_overlap_read_row(void *user, struct pfw_varints *row, bool last)
{
	struct pfw_overlap *overlap = user;
	int error = last ? read_last(overlap, row) : 0;

	if (!error && row->at < row->end)
		error = reserve(overlap, (size_t)(row->end - row->at));
	while (!error && row->at < row->end)
		error = read_step(overlap, row);
	return error;
}

/* ---- an index that is added to ---- */

/* The state has all. */
static int resume(void *file, struct pfw_varints *row)
{
	(void)file;
	(void)row;
	return 0;
}

static int read_intervals(struct pfw_overlap *overlap, struct pfw_varints *reader)
{
	struct pfw_intervals found = { .at = NULL };
	uint64_t count = pfw_varints_next(reader);
	int64_t at = overlap->at_ns;
	int error = 0;

	while (count-- && !reader->bad && !error) {
		int64_t begin, end = at;

		if (__builtin_add_overflow(at, pfw_varint_unfold(pfw_varints_next(reader)),
					   &begin) ||
		    __builtin_add_overflow(begin, pfw_varints_ns(reader), &end))
			reader->bad = true;
		else
			error = pfw_intervals_add(&found, begin, end);
		at = end;
	}
	pfw_intervals_settle(&found);
	error = error	      ? error
		: reader->bad ? -EBADMSG
			      : pfw_union_add(pfw_overlap_calls(overlap), &found);
	pfw_intervals_release(&found);
	return error;
}

static int read_marks_ahead(struct pfw_overlap *overlap, struct pfw_varints *row)
{
	uint64_t count = pfw_varints_next(row);
	int error = 0;

	while (count-- && !row->bad && !error) {
		int64_t at_ns = overlap->at_ns;

		if (__builtin_add_overflow(at_ns, pfw_varints_ns(row), &at_ns))
			return -EBADMSG;
		error = pfw_gap_stretches_cut(&overlap->marks->stretches, at_ns);
	}
	return error;
}

static int resume_more(void *file, struct pfw_varints *row)
{
	struct pfw_overlap *overlap = file;
	int error = read_head(overlap, row);

	error = error ? error : pfw_overlap_begin(overlap, overlap->greatest_ns);
	error = error ? error : pfw_overlap_marks_read(overlap, row);
	error = error ? error : read_marks_ahead(overlap, row);
	if (error)
		return error;
	overlap->owner.known = pfw_varints_next(row) != 0;
	overlap->owner.rank = pfw_varint_unfold(pfw_varints_next(row));
	if (__builtin_add_overflow(overlap->at_ns, pfw_varints_ns(row), &overlap->greatest_ns))
		return -EBADMSG;
	return read_intervals(overlap, row);
}

const struct pfw_index_kind pfw_overlap_kind = {
	.name = "overlap",
	.number = 1,
	.version = 5,
	.block_bytes = sizeof(struct pfw_overlap_block),
	.block_clear = pfw_overlap_block_clear,
	.block_release = pfw_overlap_block_release,
	.wants = PFW_INDEX_LINES,
	.add = pfw_overlap_block_add,
	.file_bytes = sizeof(struct pfw_overlap),
	.file_init = init_file,
	.sorted = set_sorted,
	.file_release = release_file,
	.take = take,
	.end = end,
	.state = state,
	.resume = resume,
	.resume_more = resume_more,
	.many = true,
};

/* ---- a reader ---- */

int pfw_overlap_from_index(struct pfw_overlap *overlap, struct pfw_index *index)
{
	return pfw_index_parts(index, &pfw_overlap_kind, PFW_INDEX_END, overlap,
			       pfw_overlap_read_row);
}
