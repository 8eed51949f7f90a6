/* store/nesting/ties.c - the order of spans with identical times; see ties.h. */
#include "store/nesting/ties.h"

#include <string.h>

/* In more spans of identical times, what they say does not count. */
#define PARENTS_MAX 16u

static void move(struct pfw_span *span, size_t from, size_t to)
{
	const struct pfw_span moved = span[from];

	memmove(span + to + 1, span + to, (from - to) * sizeof(*span));
	span[to] = moved;
}

static bool lies_in_any(const struct pfw_span *span, size_t one, size_t first, size_t count)
{
	for (size_t i = first; i < count; i++) {
		if (i != one && pfw_ties_says(&span[one], &span[i]))
			return true;
	}
	return false;
}

static void order_group(struct pfw_span *span, size_t count)
{
	for (size_t i = 0; count <= PARENTS_MAX && i + 1 < count; i++) {
		size_t next = i;

		while (next < count && lies_in_any(span, next, i, count))
			next++;
		/* None: a circle. */
		if (next < count)
			move(span, next, i);
	}
}

void pfw_ties_settle(struct pfw_span *span, size_t count)
{
	for (size_t first = 0, end; first < count; first = end) {
		for (end = first + 1; end < count && pfw_ties_same_times(&span[first], &span[end]);)
			end++;
		if (end - first > 1)
			order_group(span + first, end - first);
	}
}
