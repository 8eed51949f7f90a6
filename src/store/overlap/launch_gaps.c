/* store/overlap/launch_gaps.c - the delay from a launching call to the kernel's start. */
#include "store/overlap/launch_gaps.h"

#include <errno.h>
#include <stdlib.h>

#include "common/base/order.h"
#include "store/kit/grow.h"
#include "store/kit/nearly_sorted.h"
#include "store/kit/saturate.h"

/* After so many calls the ones before them are forgotten. */
#define CALLS_MAX (1u << 17)
#define EARLY_MAX 65536u
/* Memory for calls in any order, and for kernels, before the sorter uses a file. */
#define BUDGET_BYTES (16u << 20)

/* ---- stretches of time ---- */

static const struct pfw_gap_stretch no_gaps = { .reach_ns = INT64_MIN, .back_ns = INT64_MAX };

int pfw_gap_stretches_init(struct pfw_gap_stretches *stretches)
{
	*stretches = (struct pfw_gap_stretches){ .count = 0 };
	if (PFW_REACH(stretches->stretch, 0, stretches->room))
		return -ENOMEM;
	stretches->stretch[0] = no_gaps;
	return 0;
}

int pfw_gap_stretches_cut(struct pfw_gap_stretches *stretches, int64_t end_ns)
{
	if (PFW_REACH(stretches->stretch, stretches->count + 1, stretches->room) ||
	    PFW_PUSH(stretches->end, stretches->count, stretches->end_room, end_ns))
		return -ENOMEM;
	stretches->stretch[stretches->count] = no_gaps;
	return 0;
}

void pfw_gap_stretches_sort(struct pfw_gap_stretches *stretches, size_t kept)
{
	size_t count = kept;

	if (stretches->count > kept)
		qsort(stretches->end + kept, stretches->count - kept, sizeof(*stretches->end),
		      pfw_order_i64);
	for (size_t i = kept; i < stretches->count; i++) {
		if (!count || stretches->end[i] > stretches->end[count - 1])
			stretches->end[count++] = stretches->end[i];
	}
	stretches->count = count;
}

int pfw_gap_stretch_add(struct pfw_gap_stretch *into, const struct pfw_gap_stretch *from)
{
	into->count += from->count;
	into->unmatched += from->unmatched;
	pfw_saturate_sum(&into->sum_ns, from->sum_ns);
	PFW_RAISE(into->max_ns, from->max_ns);
	PFW_LOWER(into->back_ns, from->back_ns);
	return pfw_sketch_merge(&into->gap, &from->gap, true);
}

int pfw_gap_stretches_join(struct pfw_gap_stretches *stretches, size_t kept)
{
	int error = 0;

	for (; stretches->count > kept && !error; stretches->count--) {
		struct pfw_gap_stretch *from = &stretches->stretch[stretches->count];

		error = pfw_gap_stretch_add(from - 1, from);
		pfw_sketch_release(&from->gap);
	}
	return error;
}

void pfw_gap_stretches_release(struct pfw_gap_stretches *stretches)
{
	for (size_t i = 0; i <= stretches->count && stretches->stretch; i++)
		pfw_sketch_release(&stretches->stretch[i].gap);
	free(stretches->stretch);
	free(stretches->end);
	*stretches = (struct pfw_gap_stretches){ .count = 0 };
}

/* The number of the stretch of a time: mostly that of the time before. */
static size_t find_stretch(struct pfw_gap_stretches *stretches, int64_t ns)
{
	size_t i = stretches->recent;

	if (i > stretches->count || (i && ns < stretches->end[i - 1]) ||
	    (i < stretches->count && ns >= stretches->end[i]))
		i = PFW_BISECT(j, stretches->count, stretches->end[j] <= ns);
	stretches->recent = i;
	return i;
}

static bool counts(const struct pfw_launch_gaps *gaps, int64_t kernel_ns)
{
	return kernel_ns < gaps->from_ns || kernel_ns >= gaps->to_ns;
}

/* Add a kernel whose call is known. */
static int add_to_stretch(struct pfw_gap_stretches *stretches, int64_t call_ns, int64_t kernel_ns,
			  int64_t ns)
{
	size_t call = find_stretch(stretches, call_ns), own = find_stretch(stretches, kernel_ns);
	struct pfw_gap_stretch *stretch = &stretches->stretch[own];

	stretch->count++;
	pfw_saturate_sum(&stretch->sum_ns, ns);
	PFW_RAISE(stretch->max_ns, ns);
	if (call < own) {
		PFW_RAISE(stretches->stretch[call].reach_ns, kernel_ns);
		PFW_LOWER(stretch->back_ns, call_ns);
	} else if (call > own) {
		PFW_RAISE(stretch->reach_ns, call_ns);
		PFW_LOWER(stretches->stretch[call].back_ns, kernel_ns);
	}
	return pfw_sketch_add(&stretch->gap, ns);
}

static int add_gap(struct pfw_launch_gaps *gaps, int64_t call_ns, int64_t kernel_ns,
		   struct pfw_intervals *queued)
{
	int64_t ns = kernel_ns > call_ns ? pfw_saturate_sub(kernel_ns, call_ns) : 0;

	if (gaps->stretches && add_to_stretch(gaps->stretches, call_ns, kernel_ns, ns))
		return -ENOMEM;
	if (counts(gaps, kernel_ns)) {
		gaps->count++;
		pfw_saturate_sum(&gaps->sum_ns, ns);
		PFW_RAISE(gaps->max_ns, ns);
		/* Otherwise the stretches have all durations; pfw_launch_gaps_end() merges them. */
		if (!gaps->stretches && pfw_sketch_add(&gaps->gap, ns))
			return -ENOMEM;
	}
	return ns ? pfw_intervals_add(queued, call_ns, kernel_ns) : 0;
}

static void add_unmatched(struct pfw_launch_gaps *gaps, int64_t kernel_ns)
{
	struct pfw_gap_stretches *stretches = gaps->stretches;

	gaps->unmatched += counts(gaps, kernel_ns);
	if (stretches)
		stretches->stretch[find_stretch(stretches, kernel_ns)].unmatched++;
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
	add_unmatched(gaps, kernel->ns);
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

/* ---- lines in any order: a table ---- */

/* The table is dense while it has so many cells for each end in it, besides the first ones. */
#define CELLS_AN_END 8u
#define CELLS_FREE (1u << 17)
/* With more it would take more memory than the sorters. */
#define CELLS_MAX (2 * BUDGET_BYTES / sizeof(struct pfw_gap_cell))
#define MORE_MAX (BUDGET_BYTES / sizeof(struct pfw_gap_end))

/* The first lines may be of any thread: others have lower numbers. */
static void begin_table(struct pfw_gap_table *table, const struct pfw_gap_end *first)
{
	table->process = first->process;
	table->base = first->correlation > CELLS_FREE / 2 ? first->correlation - CELLS_FREE / 2 : 0;
}

/* Return 1, 0 if the end does not fit in the table, or -ENOMEM. */
static inline int add_to_table(struct pfw_gap_table *table, const struct pfw_gap_end *end,
			       bool is_call)
{
	uint64_t number = end->correlation - table->base;
	struct pfw_gap_cell *cell;

	if (end->process != table->process || end->ns == -1 || number >= CELLS_MAX ||
	    number >= CELLS_FREE + CELLS_AN_END * table->ends || table->mores == MORE_MAX)
		return 0;
	if (PFW_REACH_MAPPED(table->cell, number, table->room))
		return -ENOMEM;
	/* A page that is read before it is written takes two faults. */
	while (number >= table->cells)
		table->cell[table->cells++] = (struct pfw_gap_cell){ 0 };
	table->ends++;
	cell = &table->cell[number];
	if (is_call && (!cell->call_ns || ~cell->call_ns > end->ns))
		cell->call_ns = ~end->ns;
	else if (!is_call && cell->kernel_ns)
		return PFW_PUSH(table->more, table->mores, table->more_room, *end) ? -ENOMEM : 1;
	else if (!is_call)
		cell->kernel_ns = ~end->ns;
	return 1;
}

static void free_table(struct pfw_gap_table *table)
{
	PFW_FREE_MAPPED(table->cell, table->room);
	free(table->more);
	*table = (struct pfw_gap_table){ .off = table->off };
}

static int match_cell(struct pfw_launch_gaps *gaps, const struct pfw_gap_cell *cell,
		      int64_t kernel_ns, struct pfw_intervals *queued)
{
	if (cell->call_ns)
		return add_gap(gaps, ~cell->call_ns, kernel_ns, queued);
	add_unmatched(gaps, kernel_ns);
	return 0;
}

static int match_table(struct pfw_launch_gaps *gaps, struct pfw_intervals *queued)
{
	const struct pfw_gap_table *table = &gaps->table;
	const struct pfw_gap_cell *cell = table->cell;
	int error = 0;

	for (size_t i = 0; i < table->cells && !error; i++) {
		if (cell[i].kernel_ns)
			error = match_cell(gaps, &cell[i], ~cell[i].kernel_ns, queued);
	}
	for (size_t i = 0; i < table->mores && !error; i++)
		error = match_cell(gaps, &cell[table->more[i].correlation - table->base],
				   table->more[i].ns, queued);
	return error;
}

/* ---- lines in any order: sorted ---- */

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

static void init_sorter(struct pfw_sorter *all)
{
	all->size = sizeof(struct pfw_gap_end);
	all->budget = BUDGET_BYTES;
	all->compare = compare;
	all->sort = sort_ends;
}

/* Sort what is in the table, and what comes from now on. */
static int leave_table(struct pfw_launch_gaps *gaps)
{
	struct pfw_gap_table *table = &gaps->table;
	int error;

	init_sorter(&gaps->calls);
	init_sorter(&gaps->kernels);
	error = pfw_sorter_add_all(&gaps->kernels, table->more, table->mores);
	for (size_t i = 0; i < table->cells && !error; i++) {
		const struct pfw_gap_cell *cell = &table->cell[i];
		struct pfw_gap_end end = { .process = table->process,
					   .correlation = table->base + i,
					   .ns = ~cell->call_ns };

		if (cell->call_ns)
			error = pfw_sorter_add(&gaps->calls, &end);
		end.ns = ~cell->kernel_ns;
		if (cell->kernel_ns && !error)
			error = pfw_sorter_add(&gaps->kernels, &end);
	}
	table->off = true;
	free_table(table);
	return error;
}

__attribute__((always_inline)) static inline int
keep(struct pfw_launch_gaps *gaps, const struct pfw_gap_ends *ends, bool are_calls)
{
	size_t i = 0;
	int added = 1;

	if (!gaps->table.ends && ends->count)
		begin_table(&gaps->table, &ends->at[0]);
	for (; i < ends->count && !gaps->table.off; i++) {
		added = add_to_table(&gaps->table, &ends->at[i], are_calls);
		if (added <= 0)
			break;
	}
	if (added < 0 || i == ends->count)
		return added < 0 ? added : 0;
	added = gaps->table.off ? 0 : leave_table(gaps);
	return added ? added
		     : pfw_sorter_add_all(are_calls ? &gaps->calls : &gaps->kernels, ends->at + i,
					  ends->count - i);
}

int pfw_launch_gaps_keep(struct pfw_launch_gaps *gaps, const struct pfw_gap_ends *calls,
			 const struct pfw_gap_ends *kernels)
{
	int error = keep(gaps, calls, true);

	return error ? error : keep(gaps, kernels, false);
}

static int match_sorted(struct pfw_launch_gaps *gaps, struct pfw_intervals *queued)
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
			add_unmatched(gaps, kernel->ns);
	}
	error = error ? error : gaps->calls.error;
	return error ? error : gaps->kernels.error;
}

int pfw_launch_gaps_end(struct pfw_launch_gaps *gaps, struct pfw_intervals *queued)
{
	bool calls = gaps->young.ids.count != 0;
	int error = gaps->table.off ? match_sorted(gaps, queued) : match_table(gaps, queued);

	free_table(&gaps->table);
	pfw_sorter_release(&gaps->calls);
	pfw_sorter_release(&gaps->kernels);
	for (size_t i = 0; i < gaps->earlies; i++)
		add_unmatched(gaps, gaps->early[i].ns);
	gaps->earlies = 0;
	for (size_t i = 0; gaps->stretches && i <= gaps->stretches->count && !error; i++)
		error = pfw_sketch_merge(&gaps->gap, &gaps->stretches->stretch[i].gap, true);
	gaps->inexact = gaps->unmatched && (gaps->forgot || (gaps->forgot_early && calls));
	return error;
}

void pfw_launch_gaps_release(struct pfw_launch_gaps *gaps)
{
	pfw_sketch_release(&gaps->gap);
	free_table(&gaps->table);
	pfw_sorter_release(&gaps->calls);
	pfw_sorter_release(&gaps->kernels);
	forget(&gaps->young);
	forget(&gaps->older);
	free(gaps->early);
	*gaps = (struct pfw_launch_gaps)PFW_LAUNCH_GAPS_EMPTY;
}
