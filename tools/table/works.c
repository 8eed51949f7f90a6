/* tools/table/works.c - finds which operator launched which GPU work; see pass.h. */
#include <errno.h>
#include <stdlib.h>

#include "table/pass.h"

/* A launcher that a piece of work names. */
struct name {
	uint64_t launcher;
	uint32_t process;
	uint32_t work; /* its number twice, plus 1 if this is the launcher of last resort */
};

#define WORKS_MAX (UINT32_MAX / 2)

static size_t count_of(const struct table_works *works)
{
	return works->work.bytes / sizeof(struct table_work);
}

static int add_name(struct table_works *works, uint32_t process, uint64_t launcher, size_t work)
{
	const struct name name = { launcher, process, (uint32_t)work };

	return launcher ? pfw_spill_add(&works->names, &name, sizeof(name), &works->budget) : 0;
}

int table_works_add(struct table_works *works, const struct pfw_table_launch *launch,
		    struct pfw_nesting *nesting)
{
	const struct table_work work = { launch->start_ns, launch->launch.ns, launch->group,
					 PFW_NO_GROUP, 0 };
	int64_t process = pfw_nesting_process(nesting, launch->process);
	size_t number = count_of(works);
	int error;

	if (process < 0 || number == WORKS_MAX)
		return -ENOMEM;
	error = pfw_spill_add(&works->work, &work, sizeof(work), &works->budget);
	if (!error)
		error = add_name(works, (uint32_t)process, launch->launch.launcher, 2 * number);
	if (!error)
		error = add_name(works, (uint32_t)process, launch->launch.otherwise,
				 2 * number + 1);
	return error;
}

static int compare(const void *a, const void *b)
{
	const struct name *left = a, *right = b;

	if (left->process != right->process)
		return left->process < right->process ? -1 : 1;
	return left->launcher < right->launcher ? -1 : left->launcher > right->launcher;
}

void table_works_sort(struct table_works *works)
{
	if (works->names.bytes)
		qsort(works->names.at, works->names.bytes / sizeof(struct name),
		      sizeof(struct name), compare);
}

/* The first of the names that is not less. */
static size_t find(const struct table_works *works, const struct name *wanted)
{
	const struct name *names = works->names.at;
	size_t low = 0, high = works->names.bytes / sizeof(*names);

	while (low < high) {
		size_t middle = low + (high - low) / 2;

		if (compare(&names[middle], wanted) < 0)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

/* Of several spans with one launcher the first has the work, as in pfw_launches_take(). */
void table_works_launcher(struct table_works *works, uint32_t process, uint64_t launcher,
			  uint32_t group)
{
	const struct name wanted = { launcher, process, 0 }, *names = works->names.at;
	size_t count = works->names.bytes / sizeof(*names);
	struct table_work *all = works->work.at;

	for (size_t i = find(works, &wanted); i < count && compare(&names[i], &wanted) == 0; i++) {
		struct table_work *work = &all[names[i].work / 2];
		bool last_resort = names[i].work & 1;

		if (!work->named || (!last_resort && work->named == 2)) {
			work->launcher = group;
			work->named = last_resort ? 2 : 1;
		}
	}
}

void table_works_release(struct table_works *works)
{
	pfw_spill_free(&works->work, &works->budget);
	pfw_spill_free(&works->names, &works->budget);
}
