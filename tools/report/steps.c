/* tools/report/steps.c - which steps of a long run the page has: every n-th, and those with the slowest. */
#include "report/report.h"

#include <errno.h>
#include <stdlib.h>

#include "common/base/order.h"
#include "store/kit/grow.h"

/* Of the rows, these parts are of the slowest steps. */
#define SLOWEST_PART 4u

int report_steps_add(struct report_steps *steps, int64_t number, int64_t wall_ns)
{
	int64_t place = pfw_pair_ids_of(&steps->numbers, (uint64_t)number, 0);

	if (place < 0 || PFW_REACH(steps->step, (size_t)place, steps->room))
		return -ENOMEM;
	steps->rows++;
	steps->wall_ns += (double)wall_ns;
	steps->step[place].number = number;
	if (wall_ns > steps->step[place].wall_ns)
		steps->step[place].wall_ns = wall_ns;
	return 0;
}

static int by_number(const void *a, const void *b)
{
	const struct report_step *const *x = a, *const *y = b;

	return PFW_ORDER((*x)->number, (*y)->number);
}

static int by_wall(const void *a, const void *b)
{
	const struct report_step *const *x = a, *const *y = b;

	return PFW_ORDER((*y)->wall_ns, (*x)->wall_ns) ?: by_number(a, b);
}

int report_steps_choose(struct report_steps *steps, uint64_t most)
{
	size_t count = steps->numbers.count, slowest;
	struct report_step **order;

	steps->every = 1;
	if (steps->rows <= most)
		return 0;
	order = malloc(count * sizeof(*order));
	if (!order)
		return -ENOMEM;
	for (size_t i = 0; i < count; i++)
		order[i] = &steps->step[i];
	steps->every = steps->rows / (most - most / SLOWEST_PART) + 1;
	qsort(order, count, sizeof(*order), by_number);
	for (size_t i = 0; i < count; i += steps->every)
		order[i]->kept = true;
	/* All ranks of a step are kept. */
	slowest = (size_t)(most / SLOWEST_PART * count / steps->rows);
	qsort(order, count, sizeof(*order), by_wall);
	for (size_t i = 0; i < slowest && i < count; i++)
		order[i]->kept = true;
	steps->slowest = slowest;
	free(order);
	return 0;
}

bool report_steps_has(const struct report_steps *steps, int64_t number)
{
	int64_t place;

	if (steps->every <= 1)
		return true;
	place = pfw_pair_ids_find(&steps->numbers, (uint64_t)number, 0);
	return place < 0 || steps->step[place].kept;
}

void report_steps_release(struct report_steps *steps)
{
	pfw_pair_ids_release(&steps->numbers);
	free(steps->step);
	*steps = (struct report_steps){ .rows = 0 };
}
