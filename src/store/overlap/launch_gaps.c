/* store/overlap/launch_gaps.c - the delay from a launching call to the kernel's start. */
#include "store/overlap/launch_gaps.h"

#include <errno.h>
#include <stdlib.h>

#include "store/kit/grow.h"
#include "store/kit/nearly_sorted.h"
#include "store/kit/saturate.h"

/* After so many calls the ones before them are forgotten. */
#define CALLS_MAX (1u << 17)
#define EARLY_MAX 65536u
/* Memory for calls in any order, and for kernels, before the sorter uses a file. */
#define BUDGET_BYTES (16u << 20)

static int add_gap(struct pfw_launch_gaps *gaps, int64_t call_ns, int64_t kernel_ns,
		   struct pfw_intervals *queued)
{
	int64_t ns = kernel_ns > call_ns ? pfw_saturate_sub(kernel_ns, call_ns) : 0;

	gaps->count++;
	pfw_saturate_sum(&gaps->sum_ns, ns);
	if (ns > gaps->max_ns)
		gaps->max_ns = ns;
	if (pfw_sketch_add(&gaps->gap, ns))
		return -ENOMEM;
	return ns ? pfw_intervals_add(queued, call_ns, kernel_ns) : 0;
}

/* ---- lines in order of time ---- */

static void forget(struct pfw_gap_calls *calls)
{
	pfw_pair_ids_release(&calls->ids);
	free(calls->ns);
	*calls = (struct pfw_gap_calls){ .room = 0 };
}

/* The begin of a call; NULL: it is not known. */
static int64_t *find_call(const struct pfw_gap_calls *calls, const struct pfw_gap_end *end)
{
	int64_t number = pfw_pair_ids_find(&calls->ids, end->process, end->correlation);

	return number < 0 ? NULL : &calls->ns[number];
}

static int add_call(struct pfw_launch_gaps *gaps, const struct pfw_gap_end *call)
{
	const int64_t *older = find_call(&gaps->older, call);
	int64_t *known = find_call(&gaps->young, call), ns = call->ns, number;

	/* The driver's call is nested in the runtime's call: the earlier one counts. */
	if (known) {
		*known = ns < *known ? ns : *known;
		return 0;
	}
	if (older && *older < ns)
		ns = *older;
	if (gaps->young.ids.count == CALLS_MAX) {
		gaps->forgot |= gaps->older.ids.count != 0;
		forget(&gaps->older);
		gaps->older = gaps->young;
		gaps->young = (struct pfw_gap_calls){ .room = 0 };
	}
	number = pfw_pair_ids_of(&gaps->young.ids, call->process, call->correlation);
	if (number < 0 || PFW_REACH(gaps->young.ns, (size_t)number, gaps->young.room))
		return -ENOMEM;
	gaps->young.ns[number] = ns;
	return 0;
}

/* Return 1, 0 if the kernel's call is not known, or -ENOMEM. */
static int match(struct pfw_launch_gaps *gaps, const struct pfw_gap_end *kernel,
		 struct pfw_intervals *queued)
{
	const int64_t *call = find_call(&gaps->young, kernel);

	if (!call)
		call = find_call(&gaps->older, kernel);
	if (!call)
		return 0;
	return add_gap(gaps, *call, kernel->ns, queued) ? -ENOMEM : 1;
}

/* Keep a kernel for the next blocks. */
static int keep_early(struct pfw_launch_gaps *gaps, const struct pfw_gap_end *kernel)
{
	if (gaps->earlies < EARLY_MAX)
		return PFW_PUSH(gaps->early, gaps->earlies, gaps->early_room, *kernel);
	gaps->forgot_early = true;
	gaps->unmatched++;
	return 0;
}

/* Search again for the calls of early kernels. */
static int retry(struct pfw_launch_gaps *gaps, struct pfw_intervals *queued)
{
	size_t kept = 0;

	for (size_t i = 0; i < gaps->earlies; i++) {
		int matched = match(gaps, &gaps->early[i], queued);

		if (matched < 0)
			return matched;
		if (!matched)
			gaps->early[kept++] = gaps->early[i];
	}
	gaps->earlies = kept;
	return 0;
}

int pfw_launch_gaps_add(struct pfw_launch_gaps *gaps, const struct pfw_gap_ends *calls,
			const struct pfw_gap_ends *kernels, struct pfw_intervals *queued)
{
	int error = 0;

	for (size_t i = 0; i < calls->count && !error; i++)
		error = add_call(gaps, &calls->at[i]);
	if (!error && calls->count)
		error = retry(gaps, queued);
	for (size_t i = 0; i < kernels->count && !error; i++) {
		int matched = match(gaps, &kernels->at[i], queued);

		error = matched < 0 ? matched : matched ? 0 : keep_early(gaps, &kernels->at[i]);
	}
	return error;
}

/* ---- lines in any order ---- */

static int compare_launch(const struct pfw_gap_end *x, const struct pfw_gap_end *y)
{
	if (x->process != y->process)
		return x->process < y->process ? -1 : 1;
	return x->correlation < y->correlation ? -1 : x->correlation > y->correlation;
}

/* Of calls of one correlation the earliest comes first. */
static int compare(const void *a, const void *b)
{
	const struct pfw_gap_end *x = a, *y = b;
	int order = compare_launch(x, y);

	return order ? order : (x->ns > y->ns) - (x->ns < y->ns);
}

static bool is_after(const struct pfw_gap_end *a, const struct pfw_gap_end *b)
{
	return compare(a, b) > 0;
}

PFW_NEARLY_SORTED(ends, struct pfw_gap_end, is_after)

/* Calls mostly come in order, and kernels. */
static void sort_ends(void *record, size_t count)
{
	struct pfw_gap_end *spare = malloc((count / 2 + 1) * sizeof(*spare));

	if (spare)
		ends_merge(record, count, spare);
	else
		qsort(record, count, sizeof(struct pfw_gap_end), compare);
	free(spare);
}

static int keep(struct pfw_sorter *all, const struct pfw_gap_ends *ends)
{
	int error = 0;

	all->size = sizeof(struct pfw_gap_end);
	all->budget = BUDGET_BYTES;
	all->compare = compare;
	all->sort = sort_ends;
	for (size_t i = 0; i < ends->count && !error; i++)
		error = pfw_sorter_add(all, &ends->at[i]);
	return error;
}

int pfw_launch_gaps_keep(struct pfw_launch_gaps *gaps, const struct pfw_gap_ends *calls,
			 const struct pfw_gap_ends *kernels)
{
	int error = keep(&gaps->calls, calls);

	return error ? error : keep(&gaps->kernels, kernels);
}

static int match_all(struct pfw_launch_gaps *gaps, struct pfw_intervals *queued)
{
	int error = pfw_sorter_begin(&gaps->calls);
	const struct pfw_gap_end *call, *kernel;

	error = error ? error : pfw_sorter_begin(&gaps->kernels);
	call = error ? NULL : pfw_sorter_next(&gaps->calls);
	while (!error && (kernel = pfw_sorter_next(&gaps->kernels))) {
		while (call && compare_launch(call, kernel) < 0)
			call = pfw_sorter_next(&gaps->calls);
		if (call && compare_launch(call, kernel) == 0)
			error = add_gap(gaps, call->ns, kernel->ns, queued);
		else
			gaps->unmatched++;
	}
	error = error ? error : gaps->calls.error;
	return error ? error : gaps->kernels.error;
}

int pfw_launch_gaps_end(struct pfw_launch_gaps *gaps, struct pfw_intervals *queued)
{
	bool calls = gaps->young.ids.count != 0;
	int error = match_all(gaps, queued);

	pfw_sorter_release(&gaps->calls);
	pfw_sorter_release(&gaps->kernels);
	gaps->unmatched += gaps->earlies;
	gaps->earlies = 0;
	gaps->inexact = gaps->unmatched && (gaps->forgot || (gaps->forgot_early && calls));
	return error;
}

void pfw_launch_gaps_release(struct pfw_launch_gaps *gaps)
{
	pfw_sketch_release(&gaps->gap);
	pfw_sorter_release(&gaps->calls);
	pfw_sorter_release(&gaps->kernels);
	forget(&gaps->young);
	forget(&gaps->older);
	free(gaps->early);
	*gaps = (struct pfw_launch_gaps)PFW_LAUNCH_GAPS_EMPTY;
}
