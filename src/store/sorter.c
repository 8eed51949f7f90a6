/* sorter.c - sorted runs in a temporary file, and one merge of them; see sorter.h. */
#include "sorter.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "spill.h"
#include "whole.h"

#define FIRST_ROOM 256u

/* A sorted stretch of the file, and what of it is in memory. */
struct pfw_sorter_run {
	uint64_t at, left; /* the byte where the rest begins, and records of it that are not read */
	char *record;
	size_t next, count;
};

/* ---- runs ---- */

/* Where the next piece of a run goes, and how much that is. */
static int refill(struct pfw_sorter *sorter, struct pfw_sorter_run *run)
{
	size_t count = sorter->room / sorter->runs;
	int error;

	if (count > run->left)
		count = (size_t)run->left;
	error = pfw_read_whole(sorter->fd, run->record, count * sorter->size, run->at);
	if (error)
		return error;
	run->at += count * sorter->size;
	run->left -= count;
	run->next = 0;
	run->count = count;
	return 0;
}

/* Write what is in memory as a run. */
static int write_run(struct pfw_sorter *sorter)
{
	struct pfw_sorter_run *run;

	if (sorter->fd < 0)
		sorter->fd = pfw_spill_open();
	if (sorter->fd < 0)
		return sorter->fd;
	/* Each is merged by way of one record in memory at least. */
	if (sorter->runs == sorter->room)
		return -EFBIG;
	run = realloc(sorter->run, (sorter->runs + 1) * sizeof(*run));
	if (!run)
		return -ENOMEM;
	sorter->run = run;
	run += sorter->runs++;
	*run = (struct pfw_sorter_run){ .at = sorter->bytes, .left = sorter->count };
	qsort(sorter->record, sorter->count, sorter->size, sorter->compare);
	sorter->count = 0;
	return pfw_write_whole(sorter->fd, sorter->record, (size_t)run->left * sorter->size,
			       &sorter->bytes);
}

/* ---- the merge ---- */

static const void *in_hand(const struct pfw_sorter *sorter, size_t place)
{
	const struct pfw_sorter_run *run = &sorter->run[sorter->heap[place]];

	return run->record + run->next * sorter->size;
}

static void sink(struct pfw_sorter *sorter, size_t place)
{
	for (;;) {
		size_t least = place, child = 2 * place + 1;
		uint32_t run = sorter->heap[place];

		for (size_t i = child; i < child + 2 && i < sorter->heaped; i++) {
			if (sorter->compare(in_hand(sorter, i), in_hand(sorter, least)) < 0)
				least = i;
		}
		if (least == place)
			return;
		sorter->heap[place] = sorter->heap[least];
		sorter->heap[least] = run;
		place = least;
	}
}

/* Each run gets its part of the memory that the records had. */
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

/* The least one of all runs is gone. */
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

/* ---- from outside ---- */

/* Twice the room, up to what the budget allows. */
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

int pfw_sorter_add(struct pfw_sorter *sorter, const void *record)
{
	int error = 0;

	if (sorter->count == sorter->room)
		error = is_full(sorter) ? write_run(sorter) : grow(sorter);
	if (!error)
		memcpy(sorter->record + sorter->count++ * sorter->size, record, sorter->size);
	return error;
}

int pfw_sorter_begin(struct pfw_sorter *sorter)
{
	int error = 0;

	if (!sorter->runs) {
		if (sorter->count)
			qsort(sorter->record, sorter->count, sorter->size, sorter->compare);
		return 0;
	}
	if (sorter->count)
		error = write_run(sorter);
	return error ? error : begin_merge(sorter);
}

const void *pfw_sorter_next(struct pfw_sorter *sorter)
{
	if (!sorter->runs)
		return sorter->next < sorter->count ? sorter->record + sorter->next++ * sorter->size
						    : NULL;
	if (sorter->taken && !sorter->error)
		sorter->error = step(sorter);
	sorter->taken = true;
	return sorter->heaped && !sorter->error ? in_hand(sorter, 0) : NULL;
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
