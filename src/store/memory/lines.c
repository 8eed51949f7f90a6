/* store/memory/lines.c - takes allocations and the spans that may own them from lines; see memory.h. */
#include <errno.h>
#include <stdlib.h>

#include "store/kit/grow.h"
#include "store/kit/hash.h"
#include "store/kit/nearly_sorted.h"
#include "store/kit/saturate.h"
#include "store/line/args.h"
#include "store/line/io.h"
#include "store/memory/memory.h"

#define OWNER_BYTES 4096u
#define POOL "Memory Pool"

/* A Bloom filter with one hash over pairs of a thread and a slot of 8 µs in which something was
 * allocated.  Most spans hit none of its bits and need no sorting. */
#define FILTER_BITS (1u << 23)
#define SLOT_NS_SHIFT 13

/* ---- lines ---- */

enum pfw_memory_class pfw_memory_class_of(const struct pfw_entry *entry)
{
	bool pp = pfw_slice_is(&entry->cat, "PP"), known = false;
	struct pfw_value kind;

	if (entry->ph != 'X' && (entry->ph != 'i' || !pp))
		return PFW_MEMORY_CLASS_NONE;
	if (pp)
		known = pfw_entry_arg(entry, "kind", &kind);
	if (known && pfw_slice_is(&kind.text, "memory"))
		return PFW_MEMORY_CLASS_EVENT;
	if (entry->ph != 'X' || pfw_is_io(&entry->cat) || pfw_slice_is(&entry->cat, "pfw") ||
	    pfw_arg_i64(entry, "device", 0) != 0)
		return PFW_MEMORY_CLASS_NONE;
	return !known || pfw_slice_is(&kind.text, "cpu_op") ||
			       pfw_slice_is(&kind.text, "annotation")
		       ? PFW_MEMORY_CLASS_OWNER
		       : PFW_MEMORY_CLASS_NONE;
}

bool pfw_memory_is_event(const struct pfw_entry *entry)
{
	return pfw_arg_i64(entry, "bytes", 0) != 0 && !pfw_slice_begins(&entry->name, POOL);
}

/* Without a device (traces of older versions): the first GPU's. */
int pfw_memory_add_event(struct pfw_memory_lines *lines, const struct pfw_entry *entry,
			 const uint64_t *step)
{
	struct pfw_memory_event *event;

	if (PFW_ROOM(lines->event, lines->events, lines->event_room))
		return -ENOMEM;
	event = &lines->event[lines->events++];
	*event = (struct pfw_memory_event){
		.item = { .ts_ns = entry->ts_ns,
			  .tid = entry->tid,
			  .id = pfw_entry_outer(entry),
			  .process = entry->process,
			  .by_time = !step,
			  .bytes = pfw_arg_i64(entry, "bytes", 0),
			  .addr = pfw_arg_u64(entry, "addr", 0),
			  .step = step ? *step : PFW_MEMORY_NO_STEP,
			  .allocated = pfw_arg_i64(entry, "total_allocated", -1),
			  .reserved = pfw_arg_i64(entry, "total_reserved", -1) },
		.pid = entry->pid,
		.device = pfw_arg_i64(entry, "device", 1)
	};
	event->device_index = pfw_arg_i64(entry, "device_index", event->device ? 0 : -1);
	return 0;
}

int64_t pfw_memory_name(struct pfw_memory_lines *lines, const struct pfw_entry *entry)
{
	char name[OWNER_BYTES];

	return pfw_text_ids_of(&lines->names, 0, name,
			       pfw_slice_decode(&entry->name, name, sizeof(name)));
}

void pfw_memory_lines_clear(struct pfw_memory_lines *lines)
{
	lines->events = lines->spans = 0;
	pfw_text_ids_clear(&lines->names);
}

void pfw_memory_lines_release(struct pfw_memory_lines *lines)
{
	free(lines->event);
	free(lines->span);
	pfw_text_ids_release(&lines->names);
	*lines = (struct pfw_memory_lines){ 0 };
}

/* ---- the filter ---- */

static uint64_t first_bit(uint64_t tid, int64_t ns)
{
	return (tid * 0x9e3779b97f4a7c15u >> 32) + ((uint64_t)ns >> SLOT_NS_SHIFT);
}

static void add_to_filter(struct pfw_memory *memory, const struct pfw_memory_item *event)
{
	uint64_t at = first_bit(event->tid, event->ts_ns) % FILTER_BITS;

	memory->filter[at / 64] |= 1ull << at % 64;
}

bool pfw_memory_may_own(const struct pfw_memory *memory, const struct pfw_memory_span *span)
{
	uint64_t at = first_bit(span->tid, span->ts_ns);
	uint64_t last = first_bit(span->tid, span->end_ns);

	if (!memory->filter)
		return false;
	if (last - at >= FILTER_BITS)
		return true;
	while (at <= last) {
		uint64_t word = memory->filter[at % FILTER_BITS / 64] >> at % 64;

		if (word)
			return at + (uint64_t)__builtin_ctzll(word) <= last;
		at += 64 - at % 64;
	}
	return false;
}

/* ---- in order of blocks ---- */

static int add_pool(struct pfw_memory *memory, int64_t rank, const struct pfw_memory_event *event)
{
	const struct pfw_memory_pool pool = { .rank = rank,
					      .device = event->device,
					      .device_index = event->device_index,
					      .pid = event->pid,
					      .process = event->item.process,
					      .most_allocated = -1,
					      .most_reserved = -1 };

	return PFW_PUSH(memory->pool, memory->pools, memory->pool_room, pool);
}

static int take_event(struct pfw_memory *memory, int64_t rank, const struct pfw_memory_event *event)
{
	struct pfw_memory_item item = event->item;
	int64_t pool = pfw_pair_ids_of(&memory->pool_numbers, item.process,
				       (uint64_t)event->device << 32 ^
					       (uint64_t)(uint32_t)event->device_index);

	if (pool < 0 || ((size_t)pool == memory->pools && add_pool(memory, rank, event)))
		return -ENOMEM;
	item.pool = (uint32_t)pool;
	if (!memory->events || item.ts_ns < memory->least_ns)
		memory->least_ns = item.ts_ns;
	if (!memory->events || item.ts_ns > memory->greatest_ns)
		memory->greatest_ns = item.ts_ns;
	memory->events++;
	add_to_filter(memory, &item);
	return pfw_sorter_add(&memory->items, &item);
}

int pfw_memory_take(struct pfw_memory *memory, const struct pfw_memory_lines *lines, int64_t rank)
{
	int error = 0;

	if (lines->events && !memory->filter)
		memory->filter = calloc(FILTER_BITS / 64, sizeof(*memory->filter));
	if (lines->events && !memory->filter)
		return -ENOMEM;
	for (size_t i = 0; i < lines->events && !error; i++)
		error = take_event(memory, rank, &lines->event[i]);
	return error;
}

int pfw_memory_add_span(struct pfw_memory *memory, const struct pfw_memory_span *span)
{
	const struct pfw_text_id *name = &memory->names.name[span->name];
	const struct pfw_memory_item item = { .ts_ns = span->ts_ns,
					      .tid = span->tid,
					      .id = span->id,
					      .process = span->process,
					      .pool = PFW_MEMORY_SPAN,
					      .end_ns = span->end_ns,
					      .text = pfw_hash_text(0, name->text, name->bytes),
					      .name = span->name };

	return pfw_sorter_add(&memory->items, &item);
}

/* ---- order ---- */

/* By time.  At the same time: spans first, outer before inner ones (whose lines are written first),
 * then frees, then allocations. */
static int by_time(const void *a, const void *b)
{
	const struct pfw_memory_item *x = a, *y = b;
	bool span = x->pool == PFW_MEMORY_SPAN;

	if (x->ts_ns != y->ts_ns)
		return x->ts_ns < y->ts_ns ? -1 : 1;
	if (span != (y->pool == PFW_MEMORY_SPAN))
		return span ? -1 : 1;
	if (span && x->end_ns != y->end_ns)
		return x->end_ns > y->end_ns ? -1 : 1;
	if (!span && (x->bytes > 0) != (y->bytes > 0))
		return x->bytes > 0 ? 1 : -1;
	if (x->process != y->process)
		return x->process < y->process ? -1 : 1;
	if (x->id != y->id)
		return (x->id < y->id) != span ? -1 : 1;
	if (span)
		return x->text < y->text ? -1 : x->text > y->text;
	return x->addr < y->addr ? -1 : x->addr > y->addr;
}

static bool is_later(const struct pfw_memory_item *a, const struct pfw_memory_item *b)
{
	return by_time(a, b) > 0;
}

PFW_NEARLY_SORTED(items, struct pfw_memory_item, is_later)

/* Lines are nearly in order, or several such sequences. */
static void sort_items(void *record, size_t count)
{
	struct pfw_memory_item *spare = malloc((count / 2 + 1) * sizeof(*spare));

	if (spare)
		items_merge(record, count, spare);
	else if (count)
		qsort(record, count, sizeof(*spare), by_time);
	free(spare);
}

int pfw_memory_init(struct pfw_memory *memory, size_t budget)
{
	*memory = (struct pfw_memory){ .items = PFW_SORTER_EMPTY };
	memory->items.size = sizeof(struct pfw_memory_item);
	memory->items.budget = budget;
	memory->items.compare = by_time;
	memory->items.sort = sort_items;
	return pfw_text_ids_of(&memory->names, 0, "", 0) < 0 ||
			       PFW_REACH(memory->owner, 0, memory->owner_room)
		       ? -ENOMEM
		       : 0;
}

void pfw_memory_release(struct pfw_memory *memory)
{
	pfw_sorter_release(&memory->items);
	pfw_pair_ids_release(&memory->pool_numbers);
	pfw_text_ids_release(&memory->names);
	for (size_t i = 0; i < memory->pools; i++)
		free(memory->pool[i].bin);
	free(memory->pool);
	free(memory->owner);
	free(memory->step);
	free(memory->unfreed);
	free(memory->life);
	free(memory->live.slot);
	free(memory->filter);
	*memory = (struct pfw_memory){ .items = PFW_SORTER_EMPTY };
}
