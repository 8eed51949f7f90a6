/* store/memory/count.c - adds up allocations in order of time: peaks, growth, owners, leaks. */
#include <errno.h>
#include <stdlib.h>

#include "common/base/order.h"
#include "store/kit/grow.h"
#include "store/kit/saturate.h"
#include "store/memory/memory.h"

/* The open spans of a thread by their begins; some below the last may have ended. */
struct open_spans {
	struct open_span {
		int64_t end_ns;
		uint32_t name;
	} * span;
	size_t count, room;
};

struct counting {
	struct pfw_memory *memory;
	struct pfw_pair_ids steps, threads;
	struct open_spans *open; /* of each thread */
	size_t opens, open_room;
	/* The step that the last process was in. */
	bool known;
	uint64_t process;
	struct pfw_in_step in;
};

/* ---- owners ---- */

static struct open_spans *find_thread(struct counting *counting, const struct pfw_memory_item *item)
{
	int64_t number = pfw_pair_ids_of(&counting->threads, item->process, item->tid);

	if (number < 0)
		return NULL;
	if ((size_t)number == counting->opens &&
	    PFW_PUSH(counting->open, counting->opens, counting->open_room,
		     (struct open_spans){ 0 }))
		return NULL;
	return &counting->open[number];
}

/* Spans of a thread mostly nest: ended ones lie on top. */
static void close_spans(struct open_spans *open, int64_t now_ns)
{
	while (open->count && open->span[open->count - 1].end_ns < now_ns)
		open->count--;
}

/* Remove ended spans below the top, if no room is left. */
static void drop_closed(struct open_spans *open, int64_t now_ns)
{
	size_t count = 0;

	for (size_t i = 0; i < open->count; i++) {
		if (open->span[i].end_ns >= now_ns)
			open->span[count++] = open->span[i];
	}
	open->count = count;
}

static int open_span(struct counting *counting, const struct pfw_memory_item *item)
{
	struct open_spans *open = find_thread(counting, item);

	if (!open)
		return -ENOMEM;
	close_spans(open, item->ts_ns);
	if (open->count == open->room)
		drop_closed(open, item->ts_ns);
	return PFW_PUSH(open->span, open->count, open->room,
			(struct open_span){ .end_ns = item->end_ns, .name = item->name });
}

/* ---- sums ---- */

static uint64_t step_of(struct counting *counting, const struct pfw_memory_item *event)
{
	const struct pfw_in_step *in = &counting->in;

	if (!event->by_time || !counting->memory->by_time)
		return event->step;
	if (!counting->known || counting->process != event->process ||
	    event->ts_ns < in->begin_ns || event->ts_ns >= in->end_ns) {
		counting->known = true;
		counting->process = event->process;
		counting->in =
			pfw_steps_at(counting->memory->by_time, 0, event->process, event->ts_ns);
		counting->memory->followers |= !in->own;
	}
	return in->in ? in->number : PFW_MEMORY_NO_STEP;
}

static struct pfw_memory_step *find_step(struct counting *counting,
					 const struct pfw_memory_item *event)
{
	struct pfw_memory *memory = counting->memory;
	int64_t number = pfw_pair_ids_of(&counting->steps, event->pool, event->step);

	if (number < 0)
		return NULL;
	if ((size_t)number == memory->steps &&
	    PFW_PUSH(memory->step, memory->steps, memory->step_room,
		     (struct pfw_memory_step){ .pool = event->pool,
					       .begins_free = event->bytes <= 0,
					       .step = event->step,
					       .first_ns = event->ts_ns,
					       .peak = memory->pool[event->pool].live }))
		return NULL;
	return &memory->step[number];
}

static void add_to_pool(struct pfw_memory_pool *pool, const struct pfw_memory_item *event)
{
	if (!pool->allocations && !pool->frees)
		pool->first_ns = event->ts_ns;
	pool->live = pfw_saturate_add(pool->live, event->bytes);
	if (event->bytes > 0) {
		pool->allocations++;
		pool->allocated_bytes = pfw_saturate_add(pool->allocated_bytes, event->bytes);
	} else {
		pool->frees++;
		pool->freed_bytes = pfw_saturate_add(
			pool->freed_bytes, event->bytes == INT64_MIN ? INT64_MAX : -event->bytes);
	}
	if (pool->live > pool->peak) {
		pool->peak = pool->live;
		pool->peak_ts_ns = event->ts_ns;
	}
	PFW_RAISE(pool->most_allocated, event->allocated);
	PFW_RAISE(pool->most_reserved, event->reserved);
}

int64_t pfw_memory_bin_ns(const struct pfw_memory *memory)
{
	return (int64_t)(((uint64_t)memory->greatest_ns - (uint64_t)memory->least_ns) /
			 memory->bins) +
	       1;
}

/* Bins between the last event and this one have the bytes `before` it. */
static int add_to_bin(struct pfw_memory *memory, struct pfw_memory_pool *pool,
		      const struct pfw_memory_item *event, int64_t before)
{
	uint64_t number = ((uint64_t)event->ts_ns - (uint64_t)memory->least_ns) /
			  (uint64_t)pfw_memory_bin_ns(memory);
	struct pfw_memory_bin *bin;

	if (!pool->bin)
		pool->bin = calloc(memory->bins, sizeof(*pool->bin));
	if (!pool->bin)
		return -ENOMEM;
	for (; pool->bins <= number; pool->bins++)
		pool->bin[pool->bins] = (struct pfw_memory_bin){
			.peak = before,
			.live = before,
			.reserved = pool->bins ? pool->bin[pool->bins - 1].reserved : -1,
		};
	bin = &pool->bin[number];
	bin->live = pool->live;
	bin->peak = pool->live > bin->peak ? pool->live : bin->peak;
	bin->reserved = event->reserved >= 0 ? event->reserved : bin->reserved;
	return 0;
}

/* ---- blocks ---- */

/* Free slots have 0 bytes, so they come last. */
static int by_size(const void *a, const void *b)
{
	const struct pfw_memory_block *x = a, *y = b;

	return PFW_ORDER(y->bytes, x->bytes) ?: PFW_ORDER(x->ts_ns, y->ts_ns) ?:
	       PFW_ORDER(x->pool, y->pool) ?: PFW_ORDER(x->addr, y->addr);
}

/* Of blocks of one address and time: those freed first. */
static int by_life(const void *a, const void *b)
{
	const struct pfw_memory_life *x = a, *y = b;

	return by_size(&x->block, &y->block) ?: PFW_ORDER(y->freed, x->freed) ?:
	       PFW_ORDER(x->freed_ns, y->freed_ns);
}

static void sort_lives(struct pfw_memory *memory)
{
	if (memory->lives)
		qsort(memory->life, memory->lives, sizeof(*memory->life), by_life);
	if (memory->lives > memory->lives_most)
		memory->lives = memory->lives_most;
}

/* Keep a block if it may be one of the greatest. */
static int keep_life(struct pfw_memory *memory, const struct pfw_memory_life *life)
{
	if (!memory->lives_most)
		return 0;
	/* Most are smaller than so many. */
	if (memory->lives >= memory->lives_most && memory->lives_sorted &&
	    life->block.bytes < memory->life[memory->lives_most - 1].block.bytes)
		return 0;
	if (memory->lives == 2 * memory->lives_most) {
		sort_lives(memory);
		memory->lives_sorted = true;
	}
	return PFW_PUSH(memory->life, memory->lives, memory->life_room, *life);
}

static int free_address(struct pfw_memory *memory, const struct pfw_memory_item *event)
{
	struct pfw_memory_life life = { .freed = true, .freed_ns = event->ts_ns };

	if (pfw_memory_blocks_take(&memory->live, event->pool, event->addr, &life.block))
		return keep_life(memory, &life);
	memory->pool[event->pool].unknown++;
	return 0;
}

static int use_address(struct counting *counting, const struct pfw_memory_item *event)
{
	struct pfw_memory *memory = counting->memory;
	struct open_spans *open;
	struct pfw_memory_owner *owner;
	uint32_t name;

	if (event->bytes <= 0)
		return free_address(memory, event);
	open = find_thread(counting, event);
	if (!open)
		return -ENOMEM;
	close_spans(open, event->ts_ns);
	name = open->count ? open->span[open->count - 1].name : 0;
	owner = &memory->owner[name];
	owner->allocations++;
	owner->bytes = pfw_saturate_add(owner->bytes, event->bytes);
	PFW_RAISE(owner->greatest, event->bytes);
	return pfw_memory_blocks_put(&memory->live,
				     &(struct pfw_memory_block){ .addr = event->addr,
								 .step = event->step,
								 .bytes = event->bytes,
								 .ts_ns = event->ts_ns,
								 .pool = event->pool,
								 .owner = name });
}

static int add_event(struct counting *counting, const struct pfw_memory_item *event)
{
	struct pfw_memory *memory = counting->memory;
	struct pfw_memory_pool *pool = &memory->pool[event->pool];
	struct pfw_memory_step *step = NULL;
	int64_t before = pool->live;

	if (event->step != PFW_MEMORY_NO_STEP) {
		step = find_step(counting, event);
		if (!step)
			return -ENOMEM;
	}
	add_to_pool(pool, event);
	if (step) {
		step->allocations += event->bytes > 0;
		step->growth = pfw_saturate_add(step->growth, event->bytes);
		step->live = pool->live;
		PFW_RAISE(step->peak, step->live);
	}
	if (memory->bins && add_to_bin(memory, pool, event, before))
		return -ENOMEM;
	return use_address(counting, event);
}

/* ---- blocks not freed ---- */

static int count_unfreed(struct pfw_memory *memory)
{
	int error = 0;

	memory->unfreed = memory->live.slot;
	memory->unfreeds = memory->live.count;
	memory->unfreed_room = memory->live.slots;
	if (memory->unfreed)
		qsort(memory->unfreed, memory->live.slots, sizeof(*memory->unfreed), by_size);
	memory->live = (struct pfw_memory_blocks){ 0 };
	for (size_t i = 0; i < memory->unfreeds && !error; i++) {
		const struct pfw_memory_block *block = &memory->unfreed[i];

		error = keep_life(memory, &(struct pfw_memory_life){ .block = *block });
		memory->pool[block->pool].unfreed++;
		memory->pool[block->pool].unfreed_bytes =
			pfw_saturate_add(memory->pool[block->pool].unfreed_bytes, block->bytes);
		memory->owner[block->owner].unfreed++;
		memory->owner[block->owner].unfreed_bytes =
			pfw_saturate_add(memory->owner[block->owner].unfreed_bytes, block->bytes);
	}
	sort_lives(memory);
	return error;
}

/* ---- pools ---- */

/* Processes without a `process` line come last, by pid: their numbers are made of the file's. */
static int by_process(const struct pfw_memory_pool *x, const struct pfw_memory_pool *y)
{
	return PFW_ORDER(x->process >> 63, y->process >> 63) ?:
	       (x->process >> 63 ? PFW_ORDER(x->pid, y->pid) : 0) ?:
	       PFW_ORDER(x->process, y->process);
}

static int by_place(const void *a, const void *b)
{
	const struct pfw_memory_pool *x = a, *y = b;

	return PFW_ORDER(x->rank, y->rank) ?: by_process(x, y) ?:
	       PFW_ORDER(y->device, x->device) ?: /* GPUs first */
	       PFW_ORDER(x->device_index, y->device_index);
}

/* Sort the pools, which were numbered as their lines came.  The new number of each, or NULL. */
static uint32_t *sort_pools(struct pfw_memory *memory)
{
	uint32_t *place = calloc(memory->pools + 1, sizeof(*place));

	if (!place)
		return NULL;
	for (uint32_t i = 0; i < memory->pools; i++)
		memory->pool[i].number = i;
	if (memory->pools)
		qsort(memory->pool, memory->pools, sizeof(*memory->pool), by_place);
	for (uint32_t i = 0; i < memory->pools; i++)
		place[memory->pool[i].number] = i;
	return place;
}

static int count_item(struct counting *counting, const struct pfw_memory_item *item,
		      const uint32_t *place)
{
	struct pfw_memory_item event = *item;

	if (item->pool == PFW_MEMORY_SPAN)
		return open_span(counting, item);
	event.pool = place[item->pool];
	event.step = step_of(counting, item);
	return add_event(counting, &event);
}

static void release(struct counting *counting)
{
	pfw_pair_ids_release(&counting->steps);
	pfw_pair_ids_release(&counting->threads);
	for (size_t i = 0; i < counting->opens; i++)
		free(counting->open[i].span);
	free(counting->open);
}

int pfw_memory_count(struct pfw_memory *memory)
{
	uint32_t *place = sort_pools(memory);
	struct counting counting = { .memory = memory };
	const struct pfw_memory_item *item;
	int error = place ? 0 : -ENOMEM;

	error = error ? error : PFW_REACH(memory->owner, memory->names.count, memory->owner_room);
	error = error ? error : pfw_sorter_begin(&memory->items);
	while (!error && (item = pfw_sorter_next(&memory->items)))
		error = count_item(&counting, item, place);
	error = error ? error : memory->items.error;
	error = error ? error : count_unfreed(memory);
	release(&counting);
	free(place);
	return error;
}

/* ---- of several indexes ---- */

/* The processes of equal times, and the steps of a process, stay as they are: see by_time(). */
static int by_first(const void *a, const void *b, void *user)
{
	const struct pfw_memory *memory = user;
	const struct pfw_memory_step *x = a, *y = b;

	return PFW_ORDER(x->first_ns, y->first_ns) ?:
	       PFW_ORDER(y->begins_free, x->begins_free) ?:
	       PFW_ORDER(memory->pool[x->pool].process, memory->pool[y->pool].process) ?:
	       PFW_ORDER(x->number, y->number);
}

int pfw_memory_settle(struct pfw_memory *memory)
{
	uint32_t *place = sort_pools(memory);

	if (!place)
		return -ENOMEM;
	for (size_t i = 0; i < memory->steps; i++) {
		memory->step[i].pool = place[memory->step[i].pool];
		memory->step[i].number = i;
	}
	for (size_t i = 0; i < memory->unfreeds; i++)
		memory->unfreed[i].pool = place[memory->unfreed[i].pool];
	for (size_t i = 0; i < memory->lives; i++)
		memory->life[i].block.pool = place[memory->life[i].block.pool];
	free(place);
	if (memory->steps)
		qsort_r(memory->step, memory->steps, sizeof(*memory->step), by_first, memory);
	if (memory->unfreeds)
		qsort(memory->unfreed, memory->unfreeds, sizeof(*memory->unfreed), by_size);
	sort_lives(memory);
	return 0;
}
