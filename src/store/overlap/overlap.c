/* store/overlap/overlap.c - the sweep over a rank's time; see overlap.h. */
#include "store/overlap/overlap.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "store/kit/grow.h"
#include "store/kit/saturate.h"
#include "store/overlap/internal.h"
#include "store/overlap/marks.h"
#include "store/overlap/window.h"

static void release_sweep(struct pfw_overlap *overlap)
{
	for (unsigned i = 0; i < PFW_ACTIVITIES && overlap->sweep; i++)
		pfw_union_release(&overlap->sweep->active[i]);
	free(overlap->sweep);
	overlap->sweep = NULL;
}

static int make_sweep(struct pfw_overlap *overlap)
{
	if (!overlap->sweep)
		overlap->sweep = calloc(1, sizeof(*overlap->sweep));
	return overlap->sweep ? 0 : -ENOMEM;
}

void pfw_overlap_init(struct pfw_overlap *overlap)
{
	*overlap = (struct pfw_overlap){ .least_ns = INT64_MAX,
					 .greatest_ns = INT64_MIN,
					 .gaps = PFW_LAUNCH_GAPS_EMPTY };
}

void pfw_overlap_release(struct pfw_overlap *overlap)
{
	release_sweep(overlap);
	pfw_intervals_release(&overlap->queued);
	pfw_launch_gaps_release(&overlap->gaps);
	free(overlap->spans.at);
	free(overlap->step);
	free(overlap->cell);
	free(overlap->time);
	pfw_overlap_marks_free(overlap->marks);
	pfw_overlap_init(overlap);
}

/* ---- steps ---- */

int pfw_overlap_end_step(struct pfw_overlap *overlap)
{
	struct pfw_overlap_step *now = &overlap->now;
	int64_t *now_ns = overlap->sweep->now_ns, ns;

	if (!overlap->stepping)
		return 0;
	overlap->stepping = false;
	now->end = overlap->at_ns;
	now->first = (uint32_t)overlap->cells;
	now->cells = 0;
	if (overlap->steps == PFW_OVERLAP_STEPS_MAX ||
	    overlap->cells > UINT32_MAX - PFW_OVERLAP_SETS) {
		overlap->steps_left_out++;
		memset(now_ns, 0, sizeof(overlap->sweep->now_ns));
		return 0;
	}
	for (unsigned i = 0; i < PFW_OVERLAP_SETS; i++) {
		if (!now_ns[i])
			continue;
		ns = now_ns[i] < PFW_OVERLAP_CELL_NS ? now_ns[i] : PFW_OVERLAP_CELL_NS;
		if (PFW_PUSH(overlap->cell, overlap->cells, overlap->cell_room,
			     (uint64_t)ns << PFW_ACTIVITIES | i))
			return -ENOMEM;
		now_ns[i] = 0;
		now->cells++;
	}
	return PFW_PUSH(overlap->step, overlap->steps, overlap->step_room, *now);
}

/*
 * Begin and end steps at the current time of the sweep.  *next: the time of the next such change.
 */
static int turn_steps(struct pfw_overlap *overlap, int64_t *next)
{
	const struct pfw_overlap_spans *spans = &overlap->spans;
	int error = 0;

	if (overlap->stepping && overlap->step_end_ns <= overlap->at_ns)
		error = pfw_overlap_end_step(overlap);
	while (!error && overlap->span < spans->count &&
	       spans->at[overlap->span].begin <= overlap->at_ns) {
		const struct pfw_overlap_span *span = &spans->at[overlap->span++];

		if (span->end <= overlap->at_ns)
			continue;
		error = pfw_overlap_end_step(overlap);
		overlap->stepping = true;
		overlap->now = (struct pfw_overlap_step){ .number = span->number,
							  .begin = overlap->at_ns };
		overlap->step_end_ns = span->end;
	}
	*next = overlap->span < spans->count ? spans->at[overlap->span].begin : INT64_MAX;
	if (overlap->stepping && overlap->step_end_ns < *next)
		*next = overlap->step_end_ns;
	return error;
}

static int compare_spans(const void *a, const void *b)
{
	const struct pfw_overlap_span *left = a, *right = b;

	if (left->begin != right->begin)
		return left->begin < right->begin ? -1 : 1;
	return left->number < right->number ? -1 : left->number > right->number;
}

void pfw_overlap_sort_steps(struct pfw_overlap *overlap)
{
	if (overlap->spans_loose)
		qsort(overlap->spans.at + overlap->span, overlap->spans.count - overlap->span,
		      sizeof(*overlap->spans.at), compare_spans);
	overlap->spans_loose = false;
}

/* ---- blocks ---- */

static int take_steps(struct pfw_overlap *overlap, const struct pfw_overlap_spans *from)
{
	struct pfw_overlap_spans *spans = &overlap->spans;

	if (overlap->span == spans->count)
		spans->count = overlap->span = 0;
	for (size_t i = 0; i < from->count; i++) {
		if (spans->count && compare_spans(&spans->at[spans->count - 1], &from->at[i]) > 0)
			overlap->spans_loose = true;
		if (PFW_PUSH(spans->at, spans->count, spans->room, from->at[i]))
			return -ENOMEM;
	}
	return 0;
}

void pfw_overlap_add_sums(struct pfw_overlap_sums *into, const struct pfw_overlap_sums *from)
{
	int64_t summed_ns = pfw_saturate_add(into->summed_ns, from->summed_ns);

	for (unsigned i = 0; i < PFW_OVERLAP_SUMS; i++)
		pfw_saturate_u64(&into->sum[i], from->sum[i]);
	into->summed_ns = summed_ns;
}

void pfw_overlap_add_owner(struct pfw_overlap_owner *into, const struct pfw_overlap_owner *from)
{
	if (!from->known)
		return;
	into->several |= from->several || (into->known && into->rank != from->rank);
	into->known = true;
	into->rank = from->rank;
}

/* Find the gaps of a block, or keep it until all lines are known. */
static int take_launches(struct pfw_overlap *overlap, const struct pfw_overlap_block *block)
{
	struct pfw_intervals *queued = &overlap->queued;
	int error;

	pfw_intervals_clear(queued);
	if (!overlap->sorted)
		return pfw_launch_gaps_keep(&overlap->gaps, &block->launches, &block->kernels);
	error = pfw_launch_gaps_add(&overlap->gaps, &block->launches, &block->kernels, queued);
	for (size_t i = 0; i < queued->count && overlap->swept; i++)
		overlap->inexact |= queued->at[i].begin < overlap->at_ns;
	return error;
}

int pfw_overlap_take(struct pfw_overlap *overlap, struct pfw_overlap_block *block)
{
	int error;

	pfw_overlap_add_sums(&overlap->sums, &block->sums);
	pfw_overlap_add_owner(&overlap->owner, &block->owner);
	if (block->least_ns < overlap->least_ns)
		overlap->least_ns = block->least_ns;
	if (block->greatest_ns > overlap->greatest_ns)
		overlap->greatest_ns = block->greatest_ns;
	error = make_sweep(overlap);
	if (!error)
		error = take_launches(overlap, block);
	if (!error)
		error = take_steps(overlap, &block->steps);
	error = error ? error : pfw_overlap_marks_take(overlap, block);
	for (unsigned i = 0; i < PFW_ACTIVITIES && !error; i++) {
		struct pfw_intervals *from = i == PFW_ACTIVITY_QUEUED ? &overlap->queued
								      : &block->active[i];

		pfw_intervals_settle(from);
		error = pfw_union_add(&overlap->sweep->active[i], from);
	}
	return error;
}

/* ---- the sweep ---- */

/* The intervals of an activity from its current one on; it is active if its `bit` is in the set. */
struct active {
	const struct pfw_interval *at, *end;
	unsigned bit;
};

struct edges {
	struct active active[PFW_ACTIVITIES];
	/* When each activity begins or ends next, in order; what does not is at the last time, which also
	 * ends the list. */
	struct edge {
		int64_t ns;
		struct active *of;
	} next[PFW_ACTIVITIES + 1];
	unsigned set;
};

/* Move the first edge, whose time was changed, to its place. */
static inline void sort_first(struct edge *next, int64_t ns, struct active *of)
{
	unsigned to = 0;

	for (; next[to + 1].ns < ns; to++)
		next[to] = next[to + 1];
	next[to] = (struct edge){ ns, of };
}

static int begin_edges(struct pfw_overlap *overlap, struct edges *edges)
{
	int64_t now = overlap->at_ns;

	edges->set = 0;
	for (unsigned i = 0; i <= PFW_ACTIVITIES; i++)
		edges->next[i] = (struct edge){ INT64_MAX, NULL };
	for (unsigned i = 0; i < PFW_ACTIVITIES; i++) {
		struct active *active = &edges->active[i];
		size_t count;

		if (pfw_union_settle(&overlap->sweep->active[i], &active->at, &count))
			return -ENOMEM;
		active->end = active->at + count;
		active->bit = 1u << i;
		while (active->at < active->end && active->at->end <= now)
			active->at++;
		if (active->at == active->end)
			continue;
		if (active->at->begin <= now)
			edges->set |= active->bit;
		memmove(edges->next + 1, edges->next, i * sizeof(*edges->next));
		sort_first(edges->next,
			   edges->set & active->bit ? active->at->end : active->at->begin, active);
	}
	return 0;
}

/* Turn the first activity on or off. */
static inline void turn_first(struct edges *edges)
{
	struct active *active = edges->next[0].of;
	int64_t ns = INT64_MAX;

	edges->set ^= active->bit;
	if (edges->set & active->bit)
		ns = active->at->end;
	else if (++active->at < active->end)
		ns = active->at->begin;
	sort_first(edges->next, ns, active);
}

/* Add the time of the current set until then. */
static inline void add_time(struct pfw_overlap *overlap, int64_t *now_ns, unsigned set,
			    int64_t at_ns, int64_t until_ns)
{
	int64_t ns = pfw_saturate_sub(until_ns, at_ns);

	pfw_saturate_sum(&overlap->sweep->set_ns[set], ns);
	if (now_ns)
		pfw_saturate_sum(&now_ns[set], ns);
	if (overlap->tell && ns)
		overlap->tell(overlap->user, at_ns, until_ns, set);
}

/* Add up the times of the sets until then, without a step or a mark between. */
static void sweep_sets(struct pfw_overlap *overlap, struct edges *edges, int64_t until_ns)
{
	int64_t *now_ns = overlap->stepping ? overlap->sweep->now_ns : NULL;
	int64_t at_ns = overlap->at_ns, ns;

	while ((ns = edges->next[0].ns) < until_ns) {
		/* Several edges may be at one time. */
		if (ns != at_ns)
			add_time(overlap, now_ns, edges->set, at_ns, ns);
		at_ns = ns;
		turn_first(edges);
	}
	add_time(overlap, now_ns, edges->set, at_ns, until_ns);
	while (edges->next[0].ns == until_ns && until_ns < INT64_MAX)
		turn_first(edges);
	overlap->at_ns = until_ns;
}

static int sweep(struct pfw_overlap *overlap, int64_t until_ns)
{
	struct edges edges;
	int64_t turn, next, mark = pfw_overlap_next_mark(overlap);
	int error = begin_edges(overlap, &edges);

	error = error ? error : turn_steps(overlap, &turn);
	while (!error && overlap->at_ns < until_ns) {
		next = turn < until_ns ? turn : until_ns;
		next = mark < next ? mark : next;
		sweep_sets(overlap, &edges, next);
		if (mark == next) {
			error = pfw_overlap_marks_pass(overlap);
			mark = pfw_overlap_next_mark(overlap);
		}
		/* A step that turns at until_ns turns when the sweep goes on. */
		if (turn == next && next < until_ns && !error)
			error = turn_steps(overlap, &turn);
	}
	return error;
}

int pfw_overlap_begin(struct pfw_overlap *overlap, int64_t at_ns)
{
	overlap->swept = true;
	overlap->at_ns = at_ns;
	if (make_sweep(overlap))
		return -ENOMEM;
	for (size_t i = 0; i < overlap->times; i++)
		overlap->sweep->set_ns[overlap->time[i].set] = overlap->time[i].ns;
	overlap->times = 0;
	return 0;
}

struct pfw_union *pfw_overlap_calls(const struct pfw_overlap *overlap)
{
	bool only = overlap->sweep && !overlap->sorted && !overlap->spans.count &&
		    !pfw_launch_gaps_kept(&overlap->gaps);

	for (unsigned i = 0; i < PFW_ACTIVITIES && only; i++)
		only = i == PFW_ACTIVITY_IO || !overlap->sweep->active[i].runs;
	return only ? &overlap->sweep->active[PFW_ACTIVITY_IO] : NULL;
}

int pfw_overlap_advance(struct pfw_overlap *overlap, int64_t until_ns)
{
	int error;

	if (overlap->least_ns > overlap->greatest_ns)
		return 0;
	if (!overlap->swept) {
		overlap->swept = true;
		overlap->at_ns = overlap->least_ns;
	}
	until_ns = until_ns < overlap->greatest_ns ? until_ns : overlap->greatest_ns;
	if (until_ns <= overlap->at_ns)
		return 0;
	pfw_overlap_sort_steps(overlap);
	pfw_overlap_marks_sort(overlap);
	error = sweep(overlap, until_ns);
	for (unsigned i = 0; i < PFW_ACTIVITIES && !error; i++)
		pfw_union_drop(&overlap->sweep->active[i], overlap->at_ns);
	return error;
}

/* Keep the times of the sweep. */
static int keep_times(struct pfw_overlap *overlap)
{
	for (unsigned i = 0; i < PFW_OVERLAP_SETS; i++) {
		const struct pfw_overlap_time time = { i, overlap->sweep->set_ns[i] };

		if (time.ns && PFW_PUSH(overlap->time, overlap->times, overlap->time_room, time))
			return -ENOMEM;
	}
	return 0;
}

int pfw_overlap_end(struct pfw_overlap *overlap)
{
	int error = make_sweep(overlap);

	if (error)
		return error;
	pfw_intervals_clear(&overlap->queued);
	pfw_overlap_marks_sort(overlap);
	error = pfw_launch_gaps_end(&overlap->gaps, &overlap->queued);
	pfw_intervals_settle(&overlap->queued);
	if (!error)
		error = pfw_union_add(&overlap->sweep->active[PFW_ACTIVITY_QUEUED],
				      &overlap->queued);
	if (!error && overlap->window)
		error = pfw_overlap_jump(overlap);
	error = error ? error : pfw_overlap_advance(overlap, overlap->greatest_ns);
	error = error ? error : pfw_overlap_marks_end(overlap);
	error = error ? error : pfw_overlap_end_step(overlap);
	error = error ? error : keep_times(overlap);
	overlap->inexact |= overlap->gaps.inexact;
	release_sweep(overlap);
	return error;
}
