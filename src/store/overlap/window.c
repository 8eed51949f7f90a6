/* store/overlap/window.c - takes the middle of a window from an index; see window.h. */
#include "store/overlap/window.h"

#include <errno.h>
#include <stdlib.h>

#include "common/base/order.h"
#include "store/kit/grow.h"
#include "store/kit/saturate.h"
#include "store/overlap/in_index.h"
#include "store/overlap/internal.h"
#include "store/overlap/marks.h"

/* ---- marks by number: 0 is the begin ---- */

static int64_t mark_ns(const struct pfw_overlap *all, size_t number)
{
	return number ? all->marks->stretches.end[number - 1] : all->least_ns;
}

static bool is_end(const struct pfw_overlap *all, size_t number)
{
	return number == all->marks->passed;
}

/* Times that are in no step, and without kernels. */
static const struct pfw_overlap_mark begin_mark;

static const struct pfw_overlap_mark *mark_of(const struct pfw_overlap *all, size_t number)
{
	return number ? &all->marks->mark[number - 1] : &begin_mark;
}

/* The latest end of pairs, of a launch and its kernel, that begin before a mark and do not end there;
 * INT64_MIN: there is none. */
static int64_t reach_of(const struct pfw_overlap *all, size_t number)
{
	int64_t reach = INT64_MIN;

	for (size_t i = 0; i < number; i++)
		PFW_RAISE(reach, all->marks->stretches.stretch[i].reach_ns);
	return reach < mark_ns(all, number) ? INT64_MIN : reach;
}

/* The earliest begin of those that end at a mark or later; INT64_MAX: there is none. */
static int64_t back_of(const struct pfw_overlap *all, size_t number)
{
	int64_t back = INT64_MAX;

	for (size_t i = number; i < all->marks->passed; i++)
		PFW_LOWER(back, all->marks->stretches.stretch[i].back_ns);
	return back < mark_ns(all, number) ? back : INT64_MAX;
}

/* ---- which blocks ---- */

/*
 * Find the marks.  Kernels in the middle must have their launches in the window.  Kernels after the window
 * must have no launch in the middle, because the middle's figures contain the time between the two.
 */
static bool find_middle(struct pfw_overlap_window *window)
{
	const struct pfw_overlap *all = &window->all;
	size_t marks = all->marks->passed + 1, from, to;
	int64_t reach, back;

	from = PFW_BISECT(i, marks, mark_ns(all, i) < window->since_ns);
	if (from == marks)
		return false;
	reach = reach_of(all, from);
	while (from < marks && mark_ns(all, from) <= reach)
		from++;
	if (window->until_ns > all->greatest_ns) {
		to = marks - 1;
	} else {
		to = PFW_BISECT(i, marks - 1, mark_ns(all, i) <= window->until_ns);
		back = to ? back_of(all, --to) : INT64_MAX;
		while (to && mark_ns(all, to) > back)
			to--;
	}
	if (from >= to)
		return false;
	window->from = from;
	window->to = to;
	window->from_ns = mark_ns(all, from);
	/* No event is behind the end. */
	window->to_ns = is_end(all, to) ? INT64_MAX : mark_ns(all, to);
	return true;
}

/* Choose the blocks of which no line is needed.  0 or -ENOMEM. */
static int choose_blocks(struct pfw_overlap_window *window)
{
	const struct pfw_overlap *all = &window->all;
	const struct pfw_overlap_part *part = all->marks->part;
	int64_t reach = reach_of(all, window->from), back = back_of(all, window->to);

	window->skip = calloc(all->marks->parts + 1, 1);
	if (!window->skip)
		return -ENOMEM;
	PFW_LOWER(back, window->to_ns);
	for (size_t i = 0; i < all->marks->parts; i++) {
		window->skip[i] = part[i].sums.events && part[i].least_ns >= window->since_ns &&
				  part[i].greatest_ns < window->until_ns &&
				  part[i].least_ns >= window->from_ns && part[i].least_ns > reach &&
				  part[i].greatest_ns < back;
		window->skipped += window->skip[i];
	}
	return 0;
}

int pfw_overlap_window_find(struct pfw_overlap_window **out, struct pfw_overlap *all,
			    int64_t since_ns, int64_t until_ns)
{
	struct pfw_overlap_window *window = calloc(1, sizeof(*window));
	int error;

	if (!window) {
		pfw_overlap_release(all);
		return -ENOMEM;
	}
	window->all = *all;
	window->since_ns = since_ns;
	window->until_ns = until_ns;
	error = !all->steps_left_out && all->marks->passed && find_middle(window)
			? choose_blocks(window)
			: -ENOENT;
	if (!error && !window->skipped)
		error = -ENOENT;
	if (error)
		pfw_overlap_window_close(window);
	else
		*out = window;
	return error;
}

int pfw_overlap_window_open(struct pfw_overlap_window **out, struct pfw_index *index,
			    int64_t since_ns, int64_t until_ns)
{
	struct pfw_overlap all;
	int error;

	pfw_overlap_init(&all);
	all.marks = pfw_overlap_marks_create();
	error = all.marks ? pfw_overlap_from_index(&all, index) : -ENOMEM;
	if (!error)
		return pfw_overlap_window_find(out, &all, since_ns, until_ns);
	pfw_overlap_release(&all);
	return error;
}

void pfw_overlap_window_close(struct pfw_overlap_window *window)
{
	if (!window)
		return;
	pfw_overlap_release(&window->all);
	free(window->skip);
	free(window);
}

/* ---- sums ---- */

/* Add the kernels that start in the middle. */
static int add_kernels(struct pfw_overlap *overlap, const struct pfw_overlap_window *window)
{
	const struct pfw_gap_stretches *stretches = &window->all.marks->stretches;
	struct pfw_gap_stretch sums = { .count = 0 };
	struct pfw_launch_gaps *gaps = &overlap->gaps;
	int error = 0;

	for (size_t i = window->from; i < window->to && !error; i++)
		error = pfw_gap_stretch_add(&sums, &stretches->stretch[i]);
	gaps->count = sums.count;
	gaps->unmatched = sums.unmatched;
	gaps->sum_ns = sums.sum_ns;
	gaps->max_ns = sums.max_ns;
	gaps->gap = sums.gap;
	gaps->from_ns = window->from_ns;
	gaps->to_ns = window->to_ns;
	/* Of few kernels the quantiles are exact, which those of a block may not be. */
	overlap->misfit |= !pfw_sketch_is_exact(&gaps->gap);
	return error;
}

int pfw_overlap_use_window(struct pfw_overlap *overlap, const struct pfw_overlap_window *window)
{
	const struct pfw_overlap_marks *marks = window->all.marks;

	overlap->window = window;
	for (size_t i = 0; i < marks->parts; i++) {
		if (!window->skip[i])
			continue;
		pfw_overlap_add_sums(&overlap->sums, &marks->part[i].sums);
		PFW_LOWER(overlap->least_ns, marks->part[i].least_ns);
		PFW_RAISE(overlap->greatest_ns, marks->part[i].greatest_ns);
	}
	return add_kernels(overlap, window);
}

/* ---- steps ---- */

static void add_cells(const struct pfw_overlap *all, const struct pfw_overlap_step *step,
		      int64_t *set_ns)
{
	const uint64_t *cell = all->cell + step->first;

	for (uint32_t i = 0; i < step->cells; i++)
		pfw_saturate_sum(&set_ns[cell[i] % PFW_OVERLAP_SETS],
				 (int64_t)(cell[i] >> PFW_ACTIVITIES));
}

/* The first step that begins at a time or later. */
static size_t first_step(const struct pfw_overlap *all, int64_t ns)
{
	return PFW_BISECT(i, all->steps, all->step[i].begin < ns);
}

/* Append a step that lies in the middle. */
static int copy_step(struct pfw_overlap *overlap, const struct pfw_overlap_step *step)
{
	const struct pfw_overlap *all = &overlap->window->all;

	overlap->stepping = true;
	overlap->now = *step;
	overlap->at_ns = step->end;
	add_cells(all, step, overlap->sweep->now_ns);
	return pfw_overlap_end_step(overlap);
}

/* End the step in which the middle begins, if it ends in it; append those that lie in it, and begin the one in
 * which it ends.  0 or -ENOMEM. */
static int add_steps(struct pfw_overlap *overlap)
{
	const struct pfw_overlap_window *window = overlap->window;
	const struct pfw_overlap *all = &window->all;
	const struct pfw_overlap_mark *from = mark_of(all, window->from);
	const struct pfw_overlap_mark *to = mark_of(all, window->to);
	size_t step = first_step(all, window->from_ns), end = first_step(all, window->to_ns);
	size_t open = to->stepping && end ? end - 1 : SIZE_MAX;
	bool same = from->stepping && open == step - 1;
	int error = 0;

	if (from->stepping) {
		pfw_overlap_times_add(all->marks, &from->own, overlap->sweep->now_ns, -1);
		if (!same) {
			add_cells(all, &all->step[step - 1], overlap->sweep->now_ns);
			overlap->at_ns = all->step[step - 1].end;
			error = pfw_overlap_end_step(overlap);
		}
	}
	for (; step < end && step != open && !error; step++)
		error = copy_step(overlap, &all->step[step]);
	if (!to->stepping || error)
		return error;
	if (!same)
		overlap->now = all->step[open];
	overlap->stepping = true;
	overlap->step_end_ns = to->step_end_ns;
	pfw_overlap_times_add(all->marks, &to->own, overlap->sweep->now_ns, 1);
	return 0;
}

/* Whether the sweep stands where it stood when all lines were read, as to what comes. */
static bool fits(const struct pfw_overlap *overlap)
{
	const struct pfw_overlap_window *window = overlap->window;
	const struct pfw_overlap_mark *from = mark_of(&window->all, window->from);
	const struct pfw_overlap_mark *to = mark_of(&window->all, window->to);
	int64_t end_ns = from->step_end_ns;

	PFW_LOWER(end_ns, window->until_ns);
	if ((from->stepping && !first_step(&window->all, window->from_ns)) ||
	    (to->stepping && !first_step(&window->all, window->to_ns)))
		return false;
	return overlap->stepping == from->stepping &&
	       (!from->stepping ||
		(overlap->now.number == from->number && overlap->step_end_ns == end_ns));
}

/* ---- the sweep ---- */

static int add_middle(struct pfw_overlap *overlap)
{
	const struct pfw_overlap_window *window = overlap->window;
	const struct pfw_overlap_marks *marks = window->all.marks;
	int64_t to_ns = mark_ns(&window->all, window->to), none_ns = 0;
	const struct pfw_overlap_spans *spans = &overlap->spans;
	int64_t *set_ns = overlap->sweep->set_ns;
	int error;

	for (size_t i = window->from + 1; i <= window->to; i++)
		pfw_overlap_times_add(marks, &mark_of(&window->all, i)->since, set_ns, 1);
	/* The window's first event may come after the begin of the middle, and its last end before the middle's end. */
	if (overlap->least_ns > window->from_ns)
		none_ns = pfw_saturate_sub(overlap->least_ns, window->from_ns);
	if (overlap->greatest_ns < to_ns)
		none_ns = pfw_saturate_add(none_ns, pfw_saturate_sub(to_ns, overlap->greatest_ns));
	set_ns[0] = pfw_saturate_sub(set_ns[0], none_ns);
	error = add_steps(overlap);
	overlap->at_ns = to_ns;
	pfw_overlap_sort_steps(overlap);
	while (overlap->span < spans->count && spans->at[overlap->span].begin < to_ns)
		overlap->span++;
	return error;
}

int pfw_overlap_jump(struct pfw_overlap *overlap)
{
	const struct pfw_overlap_window *window = overlap->window;
	int error;

	error = overlap->misfit ? 0 : pfw_overlap_advance(overlap, window->from_ns);
	if (!error && !overlap->misfit && overlap->least_ns < mark_ns(&window->all, window->to) &&
	    overlap->greatest_ns > window->from_ns) {
		overlap->misfit = !fits(overlap);
		error = overlap->misfit ? 0 : add_middle(overlap);
	}
	overlap->window = NULL; /* once */
	return error;
}
