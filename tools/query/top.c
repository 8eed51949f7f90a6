/* tools/query/top.c - keeps the first N lines by ts or dur, in memory for N lines; see query.h. */
#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/order.h"
#include "query/query.h"
#include "store/kit/grow.h"
#include "store/kit/heap.h"

int64_t query_key_of(const struct query_key *key, const struct pfw_entry *entry)
{
	int64_t ns = key->dur ? entry->dur_ns : entry->ts_ns;

	if (!(entry->has & ~entry->wrong & (key->dur ? PFW_ENTRY_DUR : PFW_ENTRY_TS)))
		return INT64_MAX;
	/* ~ns reverses the order as -ns does, and does not overflow. */
	return key->descending ? ~ns : ns;
}

bool query_top_wants(const struct query_top *top, int64_t key)
{
	int64_t worst = atomic_load_explicit(&top->worst, memory_order_relaxed);

	return key <= worst ||
	       worst == INT64_MAX; /* INT64_MAX: not full, or full of lines without a key */
}

static int compare_places(const struct query_place *a, const struct query_place *b)
{
	return PFW_ORDER(a->rank, b->rank) ?: PFW_ORDER(a->ts_ns, b->ts_ns) ?:
	       PFW_ORDER(a->process, b->process) ?: PFW_ORDER(a->id, b->id);
}

static bool before(const struct query_top_item *a, const struct query_top_item *b)
{
	int order = compare_places(&a->place, &b->place);

	if (a->key != b->key)
		return a->key < b->key;
	return order ? order < 0 : a->number < b->number;
}

/* The heap has the last line at place 0, the first to go. */
static bool goes_before(const struct query_top_item *a, const struct query_top_item *b,
			const void *user)
{
	(void)user;
	return before(b, a);
}

PFW_HEAP(items, struct query_top_item, goes_before)

/* Remove the last item. */
static void remove_last(struct query_top *top)
{
	top->bytes -= top->item[0].bytes + sizeof(top->item[0]);
	free(top->item[0].text);
	top->count--;
	items_sink(top->item, top->count, 0, top->item[top->count], NULL);
}

int query_top_add(struct query_top *top, const struct query_mark *mark, const char *text,
		  size_t bytes)
{
	struct query_top_item item = {
		.key = mark->key, .place = mark->place, .number = top->number++, .bytes = bytes
	};

	if (!top->limit || (top->count == top->limit && !before(&item, &top->item[0])))
		return 0;
	if (top->count == top->limit)
		remove_last(top);
	if (top->bytes + bytes + sizeof(item) > QUERY_TOP_BYTES)
		return -E2BIG;
	if (PFW_ROOM(top->item, top->count, top->room))
		return -ENOMEM;
	item.text = malloc(bytes + 1);
	if (!item.text)
		return -ENOMEM;
	memcpy(item.text, text, bytes);
	top->bytes += bytes + sizeof(item);
	items_rise(top->item, top->count++, item, NULL);
	if (top->count == top->limit)
		atomic_store_explicit(&top->worst, top->item[0].key, memory_order_relaxed);
	return 0;
}

static int compare(const void *left, const void *right)
{
	return before(left, right) ? -1 : before(right, left);
}

void query_top_sort(struct query_top *top)
{
	if (top->count)
		qsort(top->item, top->count, sizeof(top->item[0]), compare);
}

void query_top_free(struct query_top *top)
{
	for (size_t i = 0; i < top->count; i++)
		free(top->item[i].text);
	free(top->item);
	top->item = NULL;
	top->count = 0;
}
