/* tools/top/shares.c - what the processes of a rank do at the same time, interval by interval.
 *
 * A call is known when it has returned, and GPU work is delivered in buffers.  So an interval is
 * evaluated at the end of the next one: lines are cut to the interval that ends now, and to the one
 * before.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "store/kit/grow.h"
#include "store/kit/saturate.h"
#include "store/line/step_name.h"
#include "top/top.h"

/* More lines than that in an interval: its shares are not known.  They take 16 bytes each. */
#define LINES_MAX (4u << 20)

struct top_rank *top_rank_of(struct top *top, const char *run, int64_t rank)
{
	struct top_rank new = { .rank = rank, .step = -1, .per_step_ns = -1, .unhidden_ns = -1 };

	for (size_t i = 0; i < top->ranks; i++) {
		if (top->rank[i].rank == rank && !strcmp(top->rank[i].run, run))
			return &top->rank[i];
	}
	snprintf(new.run, sizeof(new.run), "%s", run);
	new.newer = pfw_overlap_block_create();
	new.older = pfw_overlap_block_create();
	if (new.newer &&new.older && !PFW_APPEND(top->rank, top->ranks, new)) {
		/* Until the next look nothing is in its intervals. */
		new.newer->until_ns = new.older->until_ns = INT64_MIN;
		new.newer->no_bytes = new.older->no_bytes = true;
		return &top->rank[top->ranks - 1];
	}
	pfw_overlap_block_free(new.newer);
	pfw_overlap_block_free(new.older);
	return NULL;
}

void top_ranks_begin(struct top *top)
{
	for (size_t i = 0; i < top->ranks; i++) {
		struct top_rank *rank = &top->rank[i];
		struct pfw_overlap_block *block = rank->older;

		pfw_overlap_block_clear(block);
		rank->older = rank->newer;
		rank->newer = block;
		/* The first look ends no interval. */
		block->since_ns = top->looks ? top->looked_ns[1] : top->looked_ns[0];
		block->until_ns = top->looked_ns[0];
		rank->added_before = rank->added;
		rank->added = 0;
		rank->steps = -rank->steps_in_rings;
		rank->steps_in_rings = 0;
		rank->processes = 0;
	}
}

int top_rank_add(struct top_rank *rank, const struct pfw_entry *entry, bool ring)
{
	uint64_t number;

	if (pfw_is_step(entry, &number)) {
		rank->steps++;
		rank->steps_in_rings += ring;
		rank->step = (int64_t)number;
	}
	/* Most lines begin after the interval before: they are not even looked at for it. */
	if (entry->ts_ns < rank->older->until_ns && rank->added_before < LINES_MAX &&
	    pfw_overlap_block_add(rank->older, entry, NULL))
		return -ENOMEM;
	/* Events in the rings are read again before the present interval is evaluated. */
	if (!ring && rank->added++ < LINES_MAX && pfw_overlap_block_add(rank->newer, entry, NULL))
		return -ENOMEM;
	return 0;
}

/* Unhidden I/O of the steps that ended: an interval without one counts for the next step. */
static void end_steps(struct top_rank *rank)
{
	int64_t unhidden = rank->figure[OVERLAP_IO_UNOVERLAPPED];

	if (!rank->wall_ns || unhidden == OVERLAP_UNKNOWN) {
		if (rank->wall_ns && rank->unhidden_ns > 0)
			unhidden = 0;
		else
			return;
	}
	if (rank->unhidden_ns >= 0)
		rank->unhidden_ns = pfw_saturate_add(rank->unhidden_ns, unhidden);
	if (rank->steps_before <= 0)
		return;
	if (rank->unhidden_ns >= 0)
		rank->per_step_ns = rank->unhidden_ns / rank->steps_before;
	rank->unhidden_ns = 0; /* before the first step nothing is known of its begin */
}

static int end_rank(struct top *top, struct top_rank *rank)
{
	struct pfw_overlap overlap;
	int error;

	pfw_overlap_init(&overlap);
	error = pfw_overlap_take(&overlap, rank->older) ?: pfw_overlap_end(&overlap);
	if (!error) {
		rank->known |= overlap_known(&overlap);
		overlap_measure(&overlap, overlap_unknown(rank->known), rank->figure);
		rank->wall_ns = top->looks >= 2 && rank->added_before < LINES_MAX
					? rank->older->until_ns - rank->older->since_ns
					: 0;
		if (rank->wall_ns < 0)
			rank->wall_ns = 0;
		end_steps(rank);
		rank->steps_before = rank->steps;
	}
	pfw_overlap_release(&overlap);
	return error ? -ENOMEM : 0;
}

int top_ranks_end(struct top *top)
{
	int error = 0;

	for (size_t i = 0; i < top->ranks && !error; i++)
		error = end_rank(top, &top->rank[i]);
	return error;
}

void top_ranks_release(struct top *top)
{
	for (size_t i = 0; i < top->ranks; i++) {
		pfw_overlap_block_free(top->rank[i].newer);
		pfw_overlap_block_free(top->rank[i].older);
	}
	free(top->rank);
}

static bool is_last(const struct top_tally *tally, int64_t of, const char *text, size_t bytes)
{
	const struct pfw_text_id *last;

	if (tally->last >= tally->names.count)
		return false;
	last = &tally->names.name[tally->last];
	return last->of == of && last->bytes == bytes && !memcmp(last->text, text, bytes);
}

int top_tally_add(struct top_tally *tally, int64_t of, const char *text, size_t bytes,
		  const struct top_sums *sums, int sign)
{
	int64_t number;

	if (is_last(tally, of, text, bytes)) {
		top_sums_add(&tally->sums[tally->last], sums, sign);
		return 0;
	}
	if (tally->names.count < TOP_NAMES_MAX) {
		number = pfw_text_ids_of(&tally->names, of, text, bytes);
		if (number < 0 || PFW_REACH(tally->sums, (size_t)number, tally->room))
			return -ENOMEM;
	} else {
		number = pfw_text_ids_find(&tally->names, of, text, bytes);
	}
	if (number >= 0)
		tally->last = (uint32_t)number;
	top_sums_add(number < 0 ? &tally->others : &tally->sums[number], sums, sign);
	return 0;
}

int top_tally_merge(struct top_tally *into, const struct top_tally *from, int sign)
{
	int error = 0;

	for (uint32_t i = 0; i < from->names.count && !error; i++) {
		const struct pfw_text_id *name = &from->names.name[i];

		error = top_tally_add(into, name->of, name->text, name->bytes, &from->sums[i],
				      sign);
	}
	top_sums_add(&into->others, &from->others, sign);
	return error;
}

struct top_sums top_tally_of(const struct top_tally *tally, const struct pfw_text_id *name)
{
	int64_t number = pfw_text_ids_find(&tally->names, name->of, name->text, name->bytes);

	return number < 0 ? (struct top_sums){ 0 } : tally->sums[number];
}

void top_tally_clear(struct top_tally *tally)
{
	if (tally->room)
		memset(tally->sums, 0, tally->room * sizeof(*tally->sums));
	pfw_text_ids_clear(&tally->names);
	tally->others = (struct top_sums){ 0 };
}

void top_tally_release(struct top_tally *tally)
{
	pfw_text_ids_release(&tally->names);
	free(tally->sums);
}
