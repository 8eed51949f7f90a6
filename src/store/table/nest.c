/* store/table/nest.c - nests the spans of a file that is indexed; see nest.h. */
#include "store/table/nest.h"

#include <errno.h>
#include <stdlib.h>

#include "store/kit/grow.h"
#include "store/table/key.h"

/* A row while spans are nested. */
struct pfw_table_nest_row {
	struct pfw_tally sums; /* of spans of one thread and step: most follow each other */
	uint32_t name;	       /* rows of one name have one number */
	bool shown;
};

void pfw_table_nest_release(struct pfw_table_nest *nest)
{
	pfw_pair_ids_release(&nest->threads);
	free(nest->lane);
	free(nest->row);
	free(nest->summed);
	*nest = (struct pfw_table_nest){ 0 };
}

int pfw_table_nest_lanes(struct pfw_table_nest *nest, const struct pfw_table_spans *spans,
			 const struct pfw_table_by_thread *block, struct pfw_nesting *nesting)
{
	for (size_t i = 0; i < spans->threads; i++) {
		const struct pfw_table_thread *thread = &spans->thread[i];
		int64_t process = pfw_nesting_process(nesting, thread->process), number;

		if (process < 0)
			return -ENOMEM;
		number = pfw_pair_ids_of(&nest->threads, (uint64_t)process, thread->tid);
		if (number < 0 || PFW_REACH(nest->lane, (size_t)number, nest->lane_room))
			return -ENOMEM;
		nest->lane[number] = block->lane[thread->lane].merged;
	}
	return 0;
}

/* Add the sums of a thread's spans in a step to their rows. */
static void settle(struct pfw_table_nest *nest)
{
	for (uint32_t i = 0; i < nest->sums; i++) {
		uint32_t row = nest->summed[i];
		struct pfw_tally *sums = &nest->row[row].sums;
		int64_t number = pfw_table_lane_row(nest->by_thread, row, nest->at_lane);

		nest->by_thread->none |= number < 0;
		pfw_tally_merge(number < 0 ? &nest->rows->row[row].sums
					   : &nest->by_thread->row[number].sums,
				sums);
		pfw_table_by_step_spans(nest->by_step, nest->step, row, sums);
		*sums = (struct pfw_tally){ 0 };
	}
	nest->sums = 0;
}

/* Find the step of a span; its thread goes on there. */
static void go_to(struct pfw_table_nest *nest, const struct pfw_span *span)
{
	nest->at = pfw_table_by_step_at(nest->by_step, nest->process, span);
	if (nest->at.step != nest->step)
		settle(nest);
	nest->step = nest->at.step;
}

static void begin_thread(void *user, uint32_t process, uint64_t tid)
{
	struct pfw_table_nest *nest = user;

	settle(nest);
	nest->at = (struct pfw_table_at){ 0 };
	nest->process = process;
	nest->at_lane = nest->lane[pfw_pair_ids_find(&nest->threads, process, tid)];
}

static void add_nested(void *user, unsigned worker, const struct pfw_nested *nested)
{
	struct pfw_table_nest *nest = user;
	struct pfw_table_nest_row *row = &nest->row[nested->span->group];

	(void)worker;
	if (!row->shown)
		return;
	if (!pfw_table_is_at(&nest->at, nested->span))
		go_to(nest, nested->span);
	if (!row->sums.count)
		nest->summed[nest->sums++] = nested->span->group;
	pfw_tally_nested(&row->sums, nested);
}

static bool same_name(void *user, uint32_t a, uint32_t b)
{
	const struct pfw_table_nest *nest = user;

	return nest->row[a].name == nest->row[b].name;
}

/* 0 or -ENOMEM. */
static int begin_rows(struct pfw_table_nest *nest)
{
	size_t count = (size_t)nest->rows->count + 1;
	struct pfw_text_ids names = { .count = 0 };
	int64_t number = 0;

	nest->row = calloc(count, sizeof(*nest->row));
	nest->summed = calloc(count, sizeof(*nest->summed));
	if (!nest->row || !nest->summed)
		return -ENOMEM;
	for (uint32_t i = 0; i < nest->rows->count && number >= 0; i++) {
		const char *key = nest->rows->row[i].key;
		size_t bytes;
		const char *name = pfw_table_key_field(key, PFW_TABLE_INDEX_NAME, &bytes);

		number = pfw_text_ids_of(&names, 0, name, bytes);
		nest->row[i].name = (uint32_t)number;
		nest->row[i].shown = key[0] == PFW_TABLE_COMPUTE;
	}
	pfw_text_ids_release(&names);
	return number < 0 ? (int)number : 0;
}

int pfw_table_nest_run(struct pfw_table_nest *nest, struct pfw_nesting *nesting, uint64_t *too_deep)
{
	const struct pfw_nesting_user user = {
		.user = nest, .thread = begin_thread, .span = add_nested, .same = same_name
	};
	int error = begin_rows(nest);

	error = error ? error : pfw_nesting_run(nesting, &user, 1, too_deep);
	settle(nest);
	return error;
}
