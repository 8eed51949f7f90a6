/* merge_heap.c - units in order: the first one is the one whose next line comes first. */
#include <errno.h>

#include "merge_run.h"
#include "more.h"

bool pfw_merge_before(const struct merge_unit *a, const struct merge_unit *b)
{
	return pfw_merge_is_before(a->ts_ns, a->order, b->ts_ns, b->order);
}

int pfw_merge_heap_push(struct merge_heap *heap, struct merge_unit *unit)
{
	size_t at = heap->count;
	struct merge_unit **more =
		pfw_more(heap->unit, at, &heap->room, sizeof(struct merge_unit *));

	if (!more)
		return -ENOMEM;
	heap->unit = more;
	heap->count++;
	for (; at && pfw_merge_before(unit, heap->unit[(at - 1) / 2]); at = (at - 1) / 2)
		heap->unit[at] = heap->unit[(at - 1) / 2];
	heap->unit[at] = unit;
	return 0;
}

void pfw_merge_heap_sink(struct merge_heap *heap)
{
	struct merge_unit *unit = heap->unit[0];
	size_t at = 0, child;

	for (; (child = 2 * at + 1) < heap->count; at = child) {
		if (child + 1 < heap->count &&
		    pfw_merge_before(heap->unit[child + 1], heap->unit[child]))
			child++;
		if (!pfw_merge_before(heap->unit[child], unit))
			break;
		heap->unit[at] = heap->unit[child];
	}
	heap->unit[at] = unit;
}

struct merge_unit *pfw_merge_heap_pop(struct merge_heap *heap)
{
	struct merge_unit *first = heap->unit[0];

	heap->unit[0] = heap->unit[--heap->count];
	if (heap->count)
		pfw_merge_heap_sink(heap);
	return first;
}

const struct merge_unit *pfw_merge_heap_second(const struct merge_heap *heap)
{
	if (heap->count < 2)
		return NULL;
	if (heap->count > 2 && pfw_merge_before(heap->unit[2], heap->unit[1]))
		return heap->unit[2];
	return heap->unit[1];
}

void pfw_merge_heap_remove(struct merge_heap *heap, const struct merge_unit *unit)
{
	size_t count = 0;

	for (size_t i = 0; i < heap->count; i++) {
		if (heap->unit[i] != unit)
			heap->unit[count++] = heap->unit[i];
	}
	heap->count = 0;
	for (size_t i = 0; i < count; i++)
		pfw_merge_heap_push(heap, heap->unit[i]); /* has had room for it before */
}
