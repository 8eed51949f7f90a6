/* store/sys/sorter.c - external merge sort; see sorter.h. */
#include "store/sys/sorter.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "store/kit/grow.h"
#include "store/kit/heap.h"
#include "store/sys/full_io.h"
#include "store/sys/spill.h"

#define FIRST_ROOM 256u

/* A sorted run in the file, and the part of it that is in memory. */
struct pfw_sorter_run {
	uint64_t at, left; /* offset and count of the records that are not read yet */
	char *record;
	size_t next, count;
};

/* ---- runs ---- */

/* Read the next part of a run. */
static int refill(struct pfw_sorter *sorter, struct pfw_sorter_run *run)
{
	size_t count = sorter->room / sorter->runs;
	int error;

	if (count > run->left)
		count = (size_t)run->left;
	error = pfw_full_read_all(sorter->fd, run->record, count * sorter->size, run->at);
	if (error)
		return error;
	run->at += count * sorter->size;
	run->left -= count;
	run->next = 0;
	run->count = count;
	return 0;
}

static void sort_records(struct pfw_sorter *sorter)
{
	if (sorter->sort)
		sorter->sort(sorter->record, sorter->count);
	else if (sorter->count)
		qsort(sorter->record, sorter->count, sorter->size, sorter->compare);
}

/* Sort the records in memory and write them as a run. */
static int write_run(struct pfw_sorter *sorter)
{
	struct pfw_sorter_run run = { .at = sorter->bytes, .left = sorter->count };

	if (sorter->fd < 0)
		sorter->fd = pfw_spill_open();
	if (sorter->fd < 0)
		return sorter->fd;
	/* The merge needs room for at least one record of each run. */
	if (sorter->runs == sorter->room)
		return -EFBIG;
	if (PFW_APPEND(sorter->run, sorter->runs, run))
		return -ENOMEM;
	sort_records(sorter);
	sorter->count = 0;
	return pfw_full_write(sorter->fd, sorter->record, (size_t)run.left * sorter->size,
			      &sorter->bytes);
}

/* ---- the merge ---- */

static const void *in_hand(const struct pfw_sorter *sorter, uint32_t number)
{
	const struct pfw_sorter_run *run = &sorter->run[number];

	return run->record + run->next * sorter->size;
}

static bool before(const uint32_t *a, const uint32_t *b, const void *user)
{
	const struct pfw_sorter *sorter = user;

	return sorter->compare(in_hand(sorter, *a), in_hand(sorter, *b)) < 0;
}

PFW_HEAP(runs, uint32_t, before)

static void sink(struct pfw_sorter *sorter, size_t place)
{
	runs_sink(sorter->heap, sorter->heaped, place, sorter->heap[place], sorter);
}

/* The runs share the memory of the records. */
static int begin_merge(struct pfw_sorter *sorter)
{
	size_t most = sorter->room / sorter->runs;
	int error = 0;

	sorter->heap = calloc(sorter->runs, sizeof(*sorter->heap));
	if (!sorter->heap)
		return -ENOMEM;
	for (size_t i = 0; i < sorter->runs && !error; i++) {
		sorter->run[i].record = sorter->record + i * most * sorter->size;
		error = refill(sorter, &sorter->run[i]);
		sorter->heap[sorter->heaped++] = (uint32_t)i;
	}
	for (size_t i = sorter->heaped; i-- && !error;)
		sink(sorter, i);
	return error;
}

/* Advance past the least record. */
static int step(struct pfw_sorter *sorter)
{
	struct pfw_sorter_run *run = &sorter->run[sorter->heap[0]];
	int error = 0;

	if (++run->next == run->count) {
		if (run->left)
			error = refill(sorter, run);
		else
			sorter->heap[0] = sorter->heap[--sorter->heaped];
	}
	if (!error && sorter->heaped)
		sink(sorter, 0);
	return error;
}

/* ---- interface ---- */

/* Double the room, within the budget. */
static int grow(struct pfw_sorter *sorter)
{
	size_t most = sorter->budget / sorter->size, room = sorter->room * 2;
	char *bigger;

	most = most > FIRST_ROOM ? most : FIRST_ROOM;
	room = room < FIRST_ROOM ? FIRST_ROOM : room > most ? most : room;
	bigger = realloc(sorter->record, room * sorter->size);
	if (!bigger)
		return -ENOMEM;
	sorter->record = bigger;
	sorter->room = room;
	return 0;
}

static bool is_full(const struct pfw_sorter *sorter)
{
	return sorter->room >= FIRST_ROOM && (sorter->room + 1) * sorter->size > sorter->budget;
}

int pfw_sorter_add_all(struct pfw_sorter *sorter, const void *record, size_t count)
{
	const char *from = record;
	int error = 0;

	while (count && !error) {
		size_t some = sorter->room - sorter->count;

		some = count < some ? count : some;
		if (some)
			memcpy(sorter->record + sorter->count * sorter->size, from,
			       some * sorter->size);
		sorter->count += some;
		from += some * sorter->size;
		count -= some;
		if (count)
			error = is_full(sorter) ? write_run(sorter) : grow(sorter);
	}
	return error;
}

int pfw_sorter_begin(struct pfw_sorter *sorter)
{
	int error = 0;

	if (!sorter->runs) {
		sort_records(sorter);
		return 0;
	}
	if (sorter->count)
		error = write_run(sorter);
	return error ?: begin_merge(sorter);
}

const void *pfw_sorter_next(struct pfw_sorter *sorter)
{
	if (!sorter->runs)
		return sorter->next < sorter->count ? sorter->record + sorter->next++ * sorter->size
						    : NULL;
	if (sorter->taken && !sorter->error)
		sorter->error = step(sorter);
	sorter->taken = true;
	return sorter->heaped && !sorter->error ? in_hand(sorter, sorter->heap[0]) : NULL;
}

void pfw_sorter_release(struct pfw_sorter *sorter)
{
	if (sorter->fd >= 0)
		close(sorter->fd);
	free(sorter->record);
	free(sorter->run);
	free(sorter->heap);
	*sorter = (struct pfw_sorter)PFW_SORTER_EMPTY;
}
