/* store/merge/units.c - units: the blocks of all files, their keys and a heap of them. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "store/kit/grow.h"
#include "store/kit/heap.h"
#include "store/merge/internal.h"
#include "store/read/input.h"

struct merge_unit *pfw_merge_units(struct merge_run *run, size_t count)
{
	struct merge_unit *units = calloc(count, sizeof(*units));

	if (units && !PFW_APPEND(run->all, run->slabs, units))
		return units;
	free(units);
	return NULL;
}

/* ---- the heap ---- */

bool pfw_merge_before(const struct merge_unit *a, const struct merge_unit *b)
{
	return pfw_merge_is_before(a->ts_ns, a->order, b->ts_ns, b->order);
}

static bool before(struct merge_unit *const *a, struct merge_unit *const *b, const void *user)
{
	(void)user;
	return pfw_merge_before(*a, *b);
}

PFW_HEAP(units, struct merge_unit *, before)

int pfw_merge_heap_push(struct merge_heap *heap, struct merge_unit *unit)
{
	if (PFW_ROOM(heap->unit, heap->count, heap->room))
		return -ENOMEM;
	units_rise(heap->unit, heap->count++, unit, NULL);
	return 0;
}

void pfw_merge_heap_sink(struct merge_heap *heap)
{
	units_sink(heap->unit, heap->count, 0, heap->unit[0], NULL);
}

struct merge_unit *pfw_merge_heap_pop(struct merge_heap *heap)
{
	struct merge_unit *first = heap->unit[0];

	heap->unit[0] = heap->unit[--heap->count];
	if (heap->count)
		pfw_merge_heap_sink(heap);
	return first;
}

const struct merge_unit *pfw_merge_heap_second(const struct merge_heap *heap)
{
	if (heap->count < 2)
		return NULL;
	if (heap->count > 2 && pfw_merge_before(heap->unit[2], heap->unit[1]))
		return heap->unit[2];
	return heap->unit[1];
}

void pfw_merge_heap_remove(struct merge_heap *heap, const struct merge_unit *unit)
{
	size_t count = 0;

	for (size_t i = 0; i < heap->count; i++) {
		if (heap->unit[i] != unit)
			heap->unit[count++] = heap->unit[i];
	}
	heap->count = 0;
	for (size_t i = 0; i < count; i++)
		pfw_merge_heap_push(heap, heap->unit[i]); /* the array has room for it */
}

/* ---- progress ---- */

void pfw_merge_tell(struct merge_run *run, const struct merge_unit *unit, bool half)
{
	const struct pfw_blocks *blocks;
	uint64_t bytes;

	if (!run->merge->progress || unit->file == MERGE_UNIT_SPILLED || unit->unseekable)
		return;
	blocks = run->merge->file[unit->file].blocks;
	bytes = blocks->block[unit->number].bytes;
	if (half)
		bytes /= 2;
	else if (unit->surveyed)
		bytes -= bytes / 2;
	run->merge->progress(run->merge->user, bytes);
}

/* ---- keys ---- */

/* Whether the unit has no selected line: another process, or outside the window without metadata. */
static bool is_outside(const struct pfw_merge_file *file, const struct pfw_block *block,
		       const struct pfw_sorted_mark *mark)
{
	if (file->pid && mark->pid && file->pid != mark->pid)
		return true;
	return !mark->metadata &&
	       (mark->least_ns >= file->until_ns || block->greatest_ns < file->since_ns);
}

/* The first member of a cut must be written anew, because its mark says that it is the first. */
static bool is_inside(const struct pfw_merge_file *file, const struct pfw_sorted_mark *mark)
{
	bool cut = file->since_ns != INT64_MIN || file->until_ns != INT64_MAX;

	return mark->least_ns >= file->since_ns && mark->greatest_ns < file->until_ns &&
	       !(cut && mark->first) && (!file->pid || file->pid == mark->pid);
}

bool pfw_merge_find_mark(const struct merge_run *run, const struct merge_unit *unit, int fd,
			 struct pfw_sorted_mark *mark)
{
	unsigned char header[PFW_MEMBER_HEADER_BYTES];
	const struct pfw_blocks *blocks = run->merge->file[unit->file].blocks;

	return blocks->layout == PFW_LAYOUT_MEMBERS && blocks->block[unit->number].summed &&
	       !run->merge->distrust &&
	       pread(fd, header, sizeof(header), (off_t)blocks->block[unit->number].at) ==
		       (ssize_t)sizeof(header) &&
	       pfw_sorted_mark_read(header, sizeof(header), mark) == 0;
}

/* Set the key of a unit from its header.  False: the unit must be read to find it. */
static bool find_key(const struct merge_run *run, struct merge_unit *unit, int fd, bool *wanted)
{
	const struct pfw_merge_file *file = &run->merge->file[unit->file];
	const struct pfw_blocks *blocks = file->blocks;
	const struct pfw_block *block = &blocks->block[unit->number];
	struct pfw_sorted_mark mark;

	*wanted = true;
	unit->order = pfw_row_order(unit->file, unit->number, 0);
	unit->ts_ns = INT64_MIN;
	unit->first = unit->number == 0;
	if (pfw_merge_find_mark(run, unit, fd, &mark)) {
		unit->first = mark.first;
		if (!mark.first)
			unit->ts_ns = mark.least_ns;
		*wanted = !is_outside(file, block, &mark);
		unit->copyable = run->merge->member && is_inside(file, &mark);
		unit->alone = run->merge->apart != NULL;
		if (unit->copyable && !mark.metadata)
			unit->state = MERGE_UNIT_COPY;
		return true;
	}
	if (blocks->layout != PFW_LAYOUT_MEMBERS || !block->summed || run->merge->distrust)
		return false;
	if (!unit->first && block->least_ns <= block->greatest_ns)
		unit->ts_ns = block->least_ns;
	return true;
}

struct survey {
	struct merge_unit *hand[32];
	size_t count, most;
};

/* Finish the oldest unit that was read to find its key. */
static int finish_first(struct merge_run *run, struct survey *survey)
{
	struct merge_unit *unit = survey->hand[0];
	int error = pfw_merge_finish(run, unit);

	memmove(survey->hand, survey->hand + 1, --survey->count * sizeof(survey->hand[0]));
	pfw_merge_tell(run, unit, true);
	unit->surveyed = true;
	if (error || !unit->load->rows.count) {
		pfw_merge_drop(run, unit);
		return error;
	}
	pfw_merge_keep(run, unit);
	return pfw_merge_heap_push(&run->pending, unit);
}

static int survey_unit(struct merge_run *run, struct survey *survey, struct merge_unit *unit)
{
	int error = 0;

	if (survey->count == survey->most)
		error = finish_first(run, survey);
	error = error ?: pfw_merge_load(run, unit);
	if (!error)
		survey->hand[survey->count++] = unit;
	return error;
}

static int add_blocks(struct merge_run *run, struct survey *survey, size_t file)
{
	const struct pfw_merge_file *input = &run->merge->file[file];
	size_t count = input->blocks->count;
	struct merge_unit *units;
	int fd = -1, error = 0;

	if (!count)
		return 0;
	units = pfw_merge_units(run, count);
	if (!units)
		return -ENOMEM;
	if (input->blocks->layout == PFW_LAYOUT_MEMBERS) {
		fd = pfw_input_open_fd(input->path);
		if (fd < 0)
			return fd;
	}
	for (size_t i = 0; i < count && !error; i++) {
		bool is_wanted;

		units[i].file = (uint32_t)file;
		units[i].number = (uint32_t)i;
		if (run->merge->stop && *run->merge->stop)
			error = -EINTR;
		else if (!find_key(run, &units[i], fd, &is_wanted))
			error = survey_unit(run, survey, &units[i]);
		else if (is_wanted)
			error = pfw_merge_heap_push(&run->pending, &units[i]);
	}
	if (fd >= 0)
		close(fd);
	return error;
}

int pfw_merge_add_files(struct merge_run *run)
{
	struct survey survey = { .most = 2 * pfw_pool_jobs(run->merge->pool) };
	int error = 0;

	if (survey.most > sizeof(survey.hand) / sizeof(survey.hand[0]))
		survey.most = sizeof(survey.hand) / sizeof(survey.hand[0]);
	for (size_t i = 0; i < run->merge->count && !error; i++) {
		run->where = run->merge->file[i].path;
		if (run->merge->file[i].blocks->layout == PFW_LAYOUT_STREAM)
			error = pfw_merge_stream(run, i);
		else
			error = add_blocks(run, &survey, i);
	}
	while (survey.count) {
		int result = finish_first(run, &survey);

		error = error ?: result;
	}
	return error;
}
