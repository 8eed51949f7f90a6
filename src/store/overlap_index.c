/* overlap_index.c - the overlaps of a compacted trace as rows of its index; see docs/index.rst. */
#include "overlap_index.h"

#include <errno.h>
#include <stdlib.h>

#include "index_db.h"
#include "overlap.h"
#include "varint.h"

/* The sweep stays that far behind the lines: a kernel that began so long after its launch was
 * recorded is the only thing that may come late. */
#define LAG_NS 10000000000ll
/* Cells of steps that are kept before they become a row. */
#define CELLS_A_ROW 8192u

/* ---- writing ---- */

/* Append numbers, each as a varint. */
static int put(struct pfw_blob *blob, const uint64_t *value, size_t count)
{
	uint8_t *at;

	if (pfw_blob_reserve(blob, count * PFW_VARINT_MAX))
		return -ENOMEM;
	at = blob->data + blob->bytes;
	for (size_t i = 0; i < count; i++)
		at = pfw_varint_put(at, value[i]);
	blob->bytes = (size_t)(at - blob->data);
	return 0;
}

static int put_steps(struct pfw_blob *blob, struct pfw_overlap *overlap)
{
	int error = 0;

	for (size_t i = 0; i < overlap->steps && !error; i++) {
		const struct pfw_overlap_step *step = &overlap->step[i];
		const uint64_t head[] = { step->number, pfw_varint_fold(step->begin),
					  (uint64_t)(step->end - step->begin), step->cells };

		error = put(blob, head, 4);
		error = error ? error : put(blob, overlap->cell + step->first, step->cells);
	}
	pfw_overlap_forget_steps(overlap);
	return error;
}

static int put_sets(struct pfw_blob *blob, const int64_t set_ns[PFW_OVERLAP_SETS])
{
	uint64_t value[2 * PFW_OVERLAP_SETS + 1], count = 0;

	for (unsigned i = 0; i < PFW_OVERLAP_SETS; i++) {
		if (!set_ns[i])
			continue;
		value[++count] = i;
		value[++count] = (uint64_t)set_ns[i];
	}
	value[0] = count / 2;
	return put(blob, value, count + 1);
}

static int put_gaps(struct pfw_blob *blob, const struct pfw_launch_gaps *gaps)
{
	uint8_t *sketch = malloc(PFW_SKETCH_BYTES_MAX);
	uint64_t head[] = { gaps->count, gaps->unmatched, (uint64_t)gaps->sum_ns,
			    (uint64_t)gaps->max_ns, 0 };
	int error = sketch ? 0 : -ENOMEM;

	if (!error)
		head[4] = pfw_sketch_encode(&gaps->gap, sketch);
	error = error ? error : put(blob, head, 5);
	/* A byte is a varint, or two. */
	for (uint64_t i = 0; i < head[4] && !error; i++)
		error = put(blob, &(uint64_t){ sketch[i] }, 1);
	free(sketch);
	return error;
}

static int put_head(struct pfw_blob *blob, const struct pfw_overlap *overlap)
{
	const struct pfw_overlap_sums *sums = &overlap->sums;
	bool empty = overlap->least_ns > overlap->greatest_ns;
	const uint64_t head[] = {
		empty ? 0 : pfw_varint_fold(overlap->least_ns),
		empty ? 0 : (uint64_t)overlap->greatest_ns - (uint64_t)overlap->least_ns,
		sums->events,
		sums->io_calls,
		sums->io_bytes,
		sums->kernels,
		sums->copies,
		sums->copy_bytes,
		sums->summed_calls,
		(uint64_t)sums->summed_ns,
		overlap->steps_left_out,
		overlap->owner.several,
	};
	int error = put(blob, head, sizeof(head) / sizeof(head[0]));

	error = error ? error : put_sets(blob, overlap->set_ns);
	return error ? error : put_gaps(blob, &overlap->gaps);
}

/* ---- the kind ---- */

static void *create_block(void)
{
	return pfw_overlap_block_create();
}

static void clear_block(void *block)
{
	pfw_overlap_block_clear(block);
}

static void free_block(void *block)
{
	pfw_overlap_block_free(block);
}

static int add(void *block, const struct pfw_entry *entry, const struct pfw_fnames *fnames)
{
	(void)fnames;
	return pfw_overlap_block_add(block, entry);
}

static void *create_file(void)
{
	struct pfw_overlap *overlap = malloc(sizeof(*overlap));

	if (overlap)
		pfw_overlap_init(overlap);
	return overlap;
}

static void free_file(void *file)
{
	pfw_overlap_release(file);
	free(file);
}

static int take(void *file, void *taken, struct pfw_blob *data)
{
	const struct pfw_overlap_block *block = taken;
	struct pfw_overlap *overlap = file;
	int error = pfw_overlap_take(overlap, taken);

	if (!error && block->last_ns > INT64_MIN + LAG_NS)
		error = pfw_overlap_advance(overlap, block->last_ns - LAG_NS);
	if (!error && overlap->cells > CELLS_A_ROW)
		error = put_steps(data, overlap);
	return error;
}

static int end(void *file, struct pfw_blob *data)
{
	struct pfw_overlap *overlap = file;
	int error = pfw_overlap_end(overlap);

	error = error ? error : put_head(data, overlap);
	return error ? error : put_steps(data, overlap);
}

const struct pfw_index_kind pfw_overlap_kind = {
	.name = "overlap",
	.number = 1,
	.version = 1,
	.sorted = true,
	.block_create = create_block,
	.block_clear = clear_block,
	.block_free = free_block,
	.add = add,
	.file_create = create_file,
	.file_free = free_file,
	.take = take,
	.end = end,
};

/* ---- reading ---- */

struct reading {
	struct pfw_overlap *overlap;
	uint64_t last; /* block, behind which there is none */
};

/* A time or sum that is never negative. */
static int64_t get_ns(struct pfw_varints *reader)
{
	uint64_t value = pfw_varints_next(reader);

	if (value > INT64_MAX)
		reader->bad = true;
	return (int64_t)value;
}

static int read_step(struct pfw_overlap *overlap, struct pfw_varints *reader)
{
	struct pfw_overlap_step step = { .first = (uint32_t)overlap->cells };
	uint64_t cells;
	int error = 0;

	step.number = pfw_varints_next(reader);
	step.begin = pfw_varint_unfold(pfw_varints_next(reader));
	if (__builtin_add_overflow(step.begin, get_ns(reader), &step.end))
		reader->bad = true;
	cells = pfw_varints_next(reader);
	if (reader->bad || cells > PFW_OVERLAP_SETS || overlap->cells > UINT32_MAX - cells)
		return -EBADMSG;
	step.cells = (uint32_t)cells;
	while (cells-- && !error) {
		uint64_t cell = pfw_varints_next(reader);

		error = pfw_overlap_add_cell(overlap, cell % PFW_OVERLAP_SETS,
					     (int64_t)(cell >> PFW_ACTIVITIES));
	}
	if (reader->bad)
		return -EBADMSG;
	return error ? error : pfw_overlap_add_step(overlap, &step);
}

static int read_gaps(struct pfw_launch_gaps *gaps, struct pfw_varints *reader)
{
	uint8_t *sketch;
	uint64_t bytes;
	int error;

	gaps->count = pfw_varints_next(reader);
	gaps->unmatched = pfw_varints_next(reader);
	gaps->sum_ns = get_ns(reader);
	gaps->max_ns = get_ns(reader);
	bytes = pfw_varints_next(reader);
	if (reader->bad || bytes > PFW_SKETCH_BYTES_MAX)
		return -EBADMSG;
	sketch = malloc(bytes + 1);
	if (!sketch)
		return -ENOMEM;
	for (uint64_t i = 0; i < bytes; i++)
		sketch[i] = (uint8_t)pfw_varints_next(reader);
	error = reader->bad ? -EBADMSG : pfw_sketch_decode(&gaps->gap, sketch, bytes);
	free(sketch);
	return error ? error : gaps->gap.total == gaps->count ? 0 : -EBADMSG;
}

/* All sets together are all of the time. */
static int read_sets(struct pfw_overlap *overlap, struct pfw_varints *reader, uint64_t all)
{
	uint64_t count = pfw_varints_next(reader), sum = 0;

	for (uint64_t i = 0; i < count && !reader->bad; i++) {
		uint64_t set = pfw_varints_next(reader);
		int64_t ns = get_ns(reader);

		if (set >= PFW_OVERLAP_SETS)
			return -EBADMSG;
		overlap->set_ns[set] = ns;
		sum += (uint64_t)ns;
	}
	return reader->bad || sum != all ? -EBADMSG : 0;
}

static int read_head(struct pfw_overlap *overlap, struct pfw_varints *reader)
{
	struct pfw_overlap_sums *sums = &overlap->sums;
	int64_t least = pfw_varint_unfold(pfw_varints_next(reader));
	uint64_t all = pfw_varints_next(reader);
	int error;

	sums->events = pfw_varints_next(reader);
	sums->io_calls = pfw_varints_next(reader);
	sums->io_bytes = pfw_varints_next(reader);
	sums->kernels = pfw_varints_next(reader);
	sums->copies = pfw_varints_next(reader);
	sums->copy_bytes = pfw_varints_next(reader);
	sums->summed_calls = pfw_varints_next(reader);
	sums->summed_ns = get_ns(reader);
	overlap->steps_left_out = pfw_varints_next(reader);
	overlap->owner.several = pfw_varints_next(reader) != 0;
	if (sums->events) {
		overlap->least_ns = least;
		overlap->greatest_ns = (int64_t)((uint64_t)least + all);
		if (overlap->greatest_ns < least)
			return -EBADMSG;
	}
	error = read_sets(overlap, reader, all);
	return error ? error : read_gaps(&overlap->gaps, reader);
}

int pfw_overlap_read_row(struct pfw_overlap *overlap, const uint8_t *data, size_t bytes, bool last)
{
	/* No bytes where nothing was to be kept. */
	struct pfw_varints reader = pfw_varints(data, bytes);
	int error = last ? read_head(overlap, &reader) : 0;

	while (!error && reader.at < reader.end)
		error = read_step(overlap, &reader);
	return error;
}

static int read_row(void *user, uint64_t block, const uint8_t *data, size_t bytes)
{
	struct reading *reading = user;

	return pfw_overlap_read_row(reading->overlap, data, bytes, block == reading->last);
}

int pfw_overlap_from_index(struct pfw_overlap *overlap, struct pfw_index *index)
{
	struct reading reading = { .overlap = overlap, .last = pfw_index_meta(index)->blocks };

	return pfw_index_parts(index, &pfw_overlap_kind, &reading, read_row);
}
