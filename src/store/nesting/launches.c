/* store/nesting/launches.c - GPU work by its launcher; see launches.h. */
#include "store/nesting/launches.h"

#include <stdlib.h>

#include "store/kit/saturate.h"

static size_t count_of(const struct pfw_launches *launches)
{
	return launches->launch.bytes / sizeof(struct pfw_launch);
}

static int order(const struct pfw_launch *a, uint32_t process, uint64_t launcher)
{
	if (a->process != process)
		return a->process < process ? -1 : 1;
	return a->launcher < launcher ? -1 : a->launcher > launcher;
}

static int compare(const void *a, const void *b)
{
	const struct pfw_launch *right = b;

	return order(a, right->process, right->launcher);
}

/* Join work of one launcher.  Which `otherwise` counts does not depend on the order. */
static void join(struct pfw_launch *into, const struct pfw_launch *from)
{
	into->ns = pfw_saturate_add(into->ns, from->ns);
	into->seen |= from->seen;
	if (from->otherwise > into->otherwise)
		into->otherwise = from->otherwise;
}

int pfw_launches_add(struct pfw_launches *launches, const struct pfw_launch *launch,
		     struct pfw_spill_budget *budget)
{
	size_t bytes = launches->launch.bytes;
	struct pfw_launch *last = bytes ? (struct pfw_launch *)pfw_spill_end(&launches->launch) - 1
					: NULL;
	int later = last ? order(last, launch->process, launch->launcher) : -1;

	launches->otherwise |= launch->otherwise != 0;
	launches->kinds[pfw_launcher_kind(launch->launcher)] = true;
	/* Several kernels of one operator come in sequence. */
	if (!later) {
		join(last, launch);
		return 0;
	}
	launches->sorted &= later < 0;
	if (bytes + sizeof(*launch) > launches->launch.room)
		return pfw_spill_add(&launches->launch, launch, sizeof(*launch), budget);
	*(struct pfw_launch *)pfw_spill_end(&launches->launch) = *launch;
	launches->launch.bytes += sizeof(*launch);
	return 0;
}

void pfw_launches_sort(struct pfw_launches *launches)
{
	size_t count = count_of(launches), kept = 0;
	struct pfw_launch *at = launches->launch.at;

	if (launches->sorted)
		return;
	qsort(at, count, sizeof(*at), compare);
	for (size_t i = 0; i < count; i++) {
		if (kept && compare(&at[kept - 1], &at[i]) == 0)
			join(&at[kept - 1], &at[i]);
		else
			at[kept++] = at[i];
	}
	launches->launch.bytes = kept * sizeof(*at);
	launches->sorted = true;
}

/* Launchers come roughly in the order of their numbers: search near the last one first (galloping
 * search). */
static struct pfw_launch *find(const struct pfw_launches *launches, uint32_t process,
			       uint64_t launcher, struct pfw_launches_hint *hints)
{
	size_t *hint = &hints->at[pfw_launcher_kind(launcher)];
	size_t count = count_of(launches), low, high, step = 1;
	struct pfw_launch *at = launches->launch.at;

	if (!launches->kinds[pfw_launcher_kind(launcher)])
		return NULL;
	low = *hint < count ? *hint : count - 1;
	high = low + 1;
	while (low > 0 && order(&at[low], process, launcher) > 0) {
		high = low;
		low = low > step ? low - step : 0;
		step *= 2;
	}
	while (high < count && order(&at[high], process, launcher) <= 0) {
		low = high;
		high = count - high > step ? high + step : count;
		step *= 2;
	}
	while (high - low > 1) {
		size_t middle = low + (high - low) / 2;

		if (order(&at[middle], process, launcher) <= 0)
			low = middle;
		else
			high = middle;
	}
	*hint = low;
	return order(&at[low], process, launcher) == 0 ? &at[low] : NULL;
}

void pfw_launches_see(struct pfw_launches *launches, uint32_t process, uint64_t launcher,
		      struct pfw_launches_hint *hint)
{
	struct pfw_launch *found = find(launches, process, launcher, hint);

	if (found)
		found->seen = true;
}

int pfw_launches_settle(struct pfw_launches *launches, struct pfw_spill_budget *budget)
{
	for (size_t i = 0, count = count_of(launches); i < count; i++) {
		struct pfw_launch moved = ((struct pfw_launch *)launches->launch.at)[i];
		int error;

		if (moved.seen || !moved.otherwise)
			continue;
		moved.launcher = moved.otherwise;
		moved.otherwise = 0;
		error = pfw_launches_add(launches, &moved, budget);
		if (error)
			return error;
	}
	pfw_launches_sort(launches);
	return 0;
}

int64_t pfw_launches_take(struct pfw_launches *launches, uint32_t process, uint64_t launcher,
			  uint32_t group, struct pfw_launches_hint *hint)
{
	struct pfw_launch *found = find(launches, process, launcher, hint);
	int64_t ns;

	if (!found || found->taken)
		return 0;
	ns = found->ns;
	found->ns = 0;
	found->taken = true;
	found->group = group;
	return ns;
}

uint32_t pfw_launches_taker(const struct pfw_launches *launches, const struct pfw_launch *launch,
			    uint32_t none, struct pfw_launches_hint *hint)
{
	const struct pfw_launch *found = find(launches, launch->process, launch->launcher, hint);

	if ((!found || !found->taken) && launch->otherwise)
		found = find(launches, launch->process, launch->otherwise, hint);
	return found && found->taken ? found->group : none;
}
