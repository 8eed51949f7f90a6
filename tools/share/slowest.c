/* tools/share/slowest.c - chooses the slowest of many ranks; see slowest.h. */
#include "share/slowest.h"
#include "common/base/order.h"

#include <stdlib.h>

struct scored {
	int64_t score;
	size_t number;
};

bool slowest_only(const struct survey *survey, size_t count)
{
	return count > SLOWEST_RANKS_MAX && cli_for_people(survey->format) && !survey->all_ranks;
}

static int by_score(const void *a, const void *b)
{
	const struct scored *x = a, *y = b;

	return PFW_ORDER(y->score, x->score) ?: PFW_ORDER(x->number, y->number);
}

bool *slowest_ranks(const struct survey *survey, const int64_t *score, size_t count)
{
	bool few = slowest_only(survey, count);
	bool *shown = calloc(count + 1, sizeof(*shown));
	struct scored *scored = few && shown ? calloc(count, sizeof(*scored)) : NULL;

	if (few && !scored) {
		free(shown);
		return NULL;
	}
	for (size_t i = 0; i < count && shown; i++) {
		shown[i] = !few;
		if (few)
			scored[i] = (struct scored){ score[i], i };
	}
	if (few) {
		qsort(scored, count, sizeof(*scored), by_score);
		for (size_t i = 0; i < SLOWEST_SHOWN; i++)
			shown[scored[i].number] = true;
	}
	free(scored);
	return shown;
}
