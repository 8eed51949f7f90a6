/* store/math/intervals.c - unions of time intervals; see intervals.h. */
#include "store/math/intervals.h"

#include <stdlib.h>
#include <string.h>

#include "common/base/order.h"
#include "store/kit/grow.h"
#include "store/kit/nearly_sorted.h"

/* ---- lists ---- */

/* Make room for so many.  0 or -ENOMEM. */
static int reserve(struct pfw_intervals *intervals, size_t count)
{
	return count ? PFW_REACH_MAPPED(intervals->at, count - 1, intervals->room) : 0;
}

int pfw_intervals_push(struct pfw_intervals *intervals, int64_t begin, int64_t end)
{
	if (reserve(intervals, intervals->count + 1))
		return -ENOMEM;
	intervals->at[intervals->count++] = (struct pfw_interval){ begin, end };
	return 0;
}

static int compare(const void *a, const void *b)
{
	const struct pfw_interval *left = a, *right = b;

	return left->begin < right->begin ? -1 : left->begin > right->begin;
}

static bool is_after(const struct pfw_interval *a, const struct pfw_interval *b)
{
	return a->begin > b->begin;
}

PFW_NEARLY_SORTED(intervals, struct pfw_interval, is_after)

void pfw_intervals_settle(struct pfw_intervals *intervals)
{
	struct pfw_interval *at = intervals->at;
	size_t kept = 0;

	if (!intervals->loose)
		return;
	/* Intervals arrive in order of their ends, so each is near its place. */
	if (!intervals_insert(at, intervals->count, 16 * intervals->count))
		qsort(at, intervals->count, sizeof(*at), compare);
	for (size_t i = 1; i < intervals->count; i++) {
		if (at[i].begin > at[kept].end)
			at[++kept] = at[i];
		else if (at[i].end > at[kept].end)
			at[kept].end = at[i].end;
	}
	intervals->count = kept + 1;
	intervals->loose = false;
}

void pfw_intervals_clear(struct pfw_intervals *intervals)
{
	intervals->count = 0;
	intervals->loose = false;
}

void pfw_intervals_release(struct pfw_intervals *intervals)
{
	PFW_FREE_MAPPED(intervals->at, intervals->room);
	*intervals = (struct pfw_intervals){ 0 };
}

/* ---- unions ---- */

/* Append a settled list that begins at or after the last interval's begin. */
static int append(struct pfw_intervals *run, const struct pfw_interval *at, size_t count)
{
	size_t touching = 0;

	if (reserve(run, run->count + count))
		return -ENOMEM;
	for (; touching < count && run->count && at[touching].begin <= run->at[run->count - 1].end;
	     touching++)
		pfw_intervals_add(run, at[touching].begin, at[touching].end);
	count -= touching;
	if (count)
		memcpy(run->at + run->count, at + touching, count * sizeof(*at));
	run->count += count;
	return 0;
}

/* Append both to `into`, in order. */
static int merge(struct pfw_intervals *into, const struct pfw_interval *a, size_t a_count,
		 const struct pfw_interval *b, size_t b_count)
{
	if (reserve(into, into->count + a_count + b_count))
		return -ENOMEM;
	while (a_count || b_count) {
		bool left = a_count && (!b_count || a->begin <= b->begin);
		const struct pfw_interval *next = left ? a : b;

		pfw_intervals_add(into, next->begin, next->end);
		a += left;
		b += !left;
		a_count -= left;
		b_count -= !left;
	}
	return 0;
}

/* The first interval that ends at or after `time`. */
static size_t find(const struct pfw_interval *at, size_t first, size_t count, int64_t time)
{
	return first + PFW_BISECT(i, count - first, at[first + i].end < time);
}

/* Merge a list into the tail of a run, from interval `first` on. */
static int merge_tail(struct pfw_intervals *run, size_t first, const struct pfw_intervals *from)
{
	struct pfw_intervals tail = { .count = run->count - first };
	int error;

	tail.at = malloc(tail.count * sizeof(*tail.at));
	if (!tail.at)
		return -ENOMEM;
	memcpy(tail.at, run->at + first, tail.count * sizeof(*tail.at));
	error = reserve(run, run->count + from->count);
	if (!error) {
		run->count = first;
		error = merge(run, tail.at, tail.count, from->at, from->count);
	}
	free(tail.at);
	return error;
}

/* Merge the last two runs. */
static int join_runs(struct pfw_union *set)
{
	struct pfw_intervals *a = &set->run[set->runs - 2], *b = &set->run[set->runs - 1];
	struct pfw_intervals both = { 0 };
	size_t first = set->runs == 2 ? set->first : 0;

	if (merge(&both, a->at + first, a->count - first, b->at, b->count))
		return -ENOMEM;
	pfw_intervals_release(a);
	pfw_intervals_release(b);
	*a = both;
	if (--set->runs == 1)
		set->first = 0;
	return 0;
}

/* Reuse the room of dropped intervals. */
static void forget(struct pfw_union *set)
{
	struct pfw_intervals *run = &set->run[0];

	run->count -= set->first;
	memmove(run->at, run->at + set->first, run->count * sizeof(*run->at));
	set->first = 0;
}

int pfw_union_add(struct pfw_union *set, const struct pfw_intervals *from)
{
	struct pfw_intervals *run = set->runs ? &set->run[set->runs - 1] : &set->run[0];
	size_t first = set->runs == 1 ? set->first : 0, touched;

	if (!from->count)
		return 0;
	set->runs += !set->runs;
	if (run->count == 0 || from->at[0].begin >= run->at[run->count - 1].begin)
		return append(run, from->at, from->count);
	touched = find(run->at, first, run->count, from->at[0].begin);
	if (first && touched == first) { /* it must not be joined with a dropped interval */
		forget(set);
		touched = 0;
	}
	if (run->count - touched <= 4 * from->count + 64)
		return merge_tail(run, touched, from);
	if (set->runs == PFW_UNION_RUNS && join_runs(set))
		return -ENOMEM;
	if (append(&set->run[set->runs], from->at, from->count))
		return -ENOMEM;
	set->runs++;
	while (set->runs > 1 && set->run[set->runs - 2].count < 2 * set->run[set->runs - 1].count) {
		if (join_runs(set))
			return -ENOMEM;
	}
	return 0;
}

int pfw_union_settle(struct pfw_union *set, const struct pfw_interval **at, size_t *count)
{
	static const struct pfw_interval none; /* a valid address for 0 intervals */

	while (set->runs > 1) {
		if (join_runs(set))
			return -ENOMEM;
	}
	*at = set->run[0].at ? set->run[0].at + set->first : &none;
	*count = set->run[0].count - set->first;
	return 0;
}

void pfw_union_drop(struct pfw_union *set, int64_t before)
{
	struct pfw_intervals *run = &set->run[0];

	set->first += PFW_BISECT(i, run->count - set->first, run->at[set->first + i].end <= before);
	if (set->first && set->first >= run->count / 2)
		forget(set);
}

void pfw_union_release(struct pfw_union *set)
{
	for (unsigned i = 0; i < set->runs; i++)
		pfw_intervals_release(&set->run[i]);
	*set = (struct pfw_union){ 0 };
}
