/* query_top.c - the first N lines by ts or dur, in memory that N bounds; see query.h. */
#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "query.h"
#include "store/more.h"

int64_t query_key_of(const struct query_key *key, const struct pfw_entry *entry)
{
	int64_t ns = key->dur ? entry->dur_ns : entry->ts_ns;

	if (!(entry->has & ~entry->wrong & (key->dur ? PFW_ENTRY_DUR : PFW_ENTRY_TS)))
		return INT64_MAX;
	/* ~ns instead of -ns: there is one for each number. */
	return key->descending ? ~ns : ns;
}

bool query_top_wants(const struct query_top *top, int64_t key)
{
	int64_t worst = atomic_load_explicit(&top->worst, memory_order_relaxed);

	return key < worst || worst == INT64_MAX; /* not full, or full of lines without a key */
}

static bool before(const struct query_top_item *a, const struct query_top_item *b)
{
	return a->key != b->key ? a->key < b->key : a->number < b->number;
}

static void swap(struct query_top *top, size_t i, size_t j)
{
	struct query_top_item item = top->item[i];

	top->item[i] = top->item[j];
	top->item[j] = item;
}

static void rise(struct query_top *top, size_t i)
{
	for (; i && before(&top->item[(i - 1) / 2], &top->item[i]); i = (i - 1) / 2)
		swap(top, i, (i - 1) / 2);
}

static void sink(struct query_top *top, size_t i)
{
	for (;;) {
		size_t child = 2 * i + 1;

		if (child + 1 < top->count && before(&top->item[child], &top->item[child + 1]))
			child++;
		if (child >= top->count || !before(&top->item[i], &top->item[child]))
			return;
		swap(top, i, child);
		i = child;
	}
}

/* Take the last one out. */
static void remove_last(struct query_top *top)
{
	top->bytes -= top->item[0].bytes + sizeof(top->item[0]);
	free(top->item[0].text);
	top->item[0] = top->item[--top->count];
	sink(top, 0);
}

int query_top_add(struct query_top *top, int64_t key, const char *text, size_t bytes)
{
	struct query_top_item item = { .key = key, .number = top->number++, .bytes = bytes };
	struct query_top_item *more;

	if (!top->limit || (top->count == top->limit && !before(&item, &top->item[0])))
		return 0;
	if (top->count == top->limit)
		remove_last(top);
	if (top->bytes + bytes + sizeof(item) > QUERY_TOP_BYTES)
		return -E2BIG;
	more = pfw_more(top->item, top->count, &top->room, sizeof(*more));
	if (!more)
		return -ENOMEM;
	top->item = more;
	item.text = malloc(bytes + 1);
	if (!item.text)
		return -ENOMEM;
	memcpy(item.text, text, bytes);
	top->bytes += bytes + sizeof(item);
	top->item[top->count++] = item;
	rise(top, top->count - 1);
	/* Of equal ones the first arrived stays: from now on only less is wanted. */
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
