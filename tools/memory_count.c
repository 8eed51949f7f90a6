/* memory_count.c - allocations in order of time, added up: peaks, growth, what is not freed. */
#include <errno.h>
#include <stdlib.h>

#include "memory.h"
#include "store/saturate.h"

/* Where an address is in use: an event + 1, by pool and address. */
struct counting {
	struct memory *memory;
	struct pfw_numbers addresses, steps;
	size_t *in_use; /* of each address's number */
	size_t room;
};

static int by_time(const void *a, const void *b)
{
	const struct memory_event *x = a, *y = b;

	if (x->ts_ns != y->ts_ns)
		return x->ts_ns < y->ts_ns ? -1 : 1;
	/* What is freed at that moment makes room for what is allocated. */
	return (x->bytes > 0) - (y->bytes > 0);
}

static struct memory_step *find_step(struct counting *counting, const struct memory_event *event)
{
	struct memory *memory = counting->memory;
	int64_t number = pfw_numbers_of(&counting->steps, event->pool, event->step);
	struct memory_step *step;

	if (number < 0)
		return NULL;
	if ((size_t)number < memory->steps)
		return &memory->step[number];
	step = memory_more(memory->step, memory->steps, &memory->step_room, sizeof(*step));
	if (!step)
		return NULL;
	memory->step = step;
	step[memory->steps] = (struct memory_step){ .pool = event->pool, .step = event->step };
	step[memory->steps].peak = memory->pool[event->pool].live;
	return &step[memory->steps++];
}

static void add_to_pool(struct memory_pool *pool, const struct memory_event *event)
{
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
	if (event->allocated > pool->most_allocated)
		pool->most_allocated = event->allocated;
	if (event->reserved > pool->most_reserved)
		pool->most_reserved = event->reserved;
}

static int use_address(struct counting *counting, size_t number)
{
	struct memory *memory = counting->memory;
	const struct memory_event *event = &memory->event[number];
	int64_t address = pfw_numbers_of(&counting->addresses, event->pool, event->addr);
	struct memory_owner *owner = &memory->owner[event->owner];

	if (address < 0)
		return -ENOMEM;
	while ((size_t)address >= counting->room) {
		size_t old = counting->room;
		size_t *more = memory_more(counting->in_use, old, &counting->room, sizeof(*more));

		if (!more)
			return -ENOMEM;
		counting->in_use = more;
		for (size_t i = old; i < counting->room; i++)
			more[i] = 0;
	}
	if (event->bytes <= 0) {
		memory->pool[event->pool].unknown += !counting->in_use[address];
		counting->in_use[address] = 0;
		return 0;
	}
	counting->in_use[address] = number + 1;
	owner->allocations++;
	owner->bytes = pfw_saturate_add(owner->bytes, event->bytes);
	if (event->bytes > owner->greatest)
		owner->greatest = event->bytes;
	return 0;
}

static int add_event(struct counting *counting, size_t number)
{
	struct memory *memory = counting->memory;
	const struct memory_event *event = &memory->event[number];
	struct memory_step *step = NULL;

	if (event->step != MEMORY_NO_STEP) {
		step = find_step(counting, event);
		if (!step)
			return -ENOMEM;
	}
	add_to_pool(&memory->pool[event->pool], event);
	if (step) {
		step->allocations += event->bytes > 0;
		step->growth = pfw_saturate_add(step->growth, event->bytes);
		step->live = memory->pool[event->pool].live;
		if (step->live > step->peak)
			step->peak = step->live;
	}
	return use_address(counting, number);
}

static const struct memory_event *all_events;

static int by_size(const void *a, const void *b)
{
	const struct memory_event *x = &all_events[*(const size_t *)a];
	const struct memory_event *y = &all_events[*(const size_t *)b];

	if (x->bytes != y->bytes)
		return x->bytes < y->bytes ? 1 : -1;
	return x < y ? -1 : x > y;
}

/* What is still in use at the end, the greatest first. */
static int list_unfreed(struct counting *counting)
{
	struct memory *memory = counting->memory;

	for (size_t i = 0; i < counting->room; i++) {
		const struct memory_event *event;
		size_t *unfreed;

		if (!counting->in_use[i])
			continue;
		unfreed = memory_more(memory->unfreed, memory->unfreed_count, &memory->unfreed_room,
				      sizeof(*unfreed));
		if (!unfreed)
			return -ENOMEM;
		memory->unfreed = unfreed;
		unfreed[memory->unfreed_count++] = counting->in_use[i] - 1;
		event = &memory->event[counting->in_use[i] - 1];
		memory->pool[event->pool].unfreed++;
		memory->pool[event->pool].unfreed_bytes += event->bytes;
		memory->owner[event->owner].unfreed++;
		memory->owner[event->owner].unfreed_bytes += event->bytes;
	}
	all_events = memory->event;
	if (memory->unfreed_count)
		qsort(memory->unfreed, memory->unfreed_count, sizeof(*memory->unfreed), by_size);
	return 0;
}

int memory_count(struct memory *memory)
{
	struct counting counting = { .memory = memory };
	int error;

	memory->owner = calloc(memory->names.count + 1, sizeof(*memory->owner));
	error = memory->owner ? 0 : -ENOMEM;
	if (!error && memory->events)
		qsort(memory->event, memory->events, sizeof(*memory->event), by_time);
	for (size_t i = 0; i < memory->events && !error; i++)
		error = add_event(&counting, i);
	if (!error)
		error = list_unfreed(&counting);
	pfw_numbers_release(&counting.addresses);
	pfw_numbers_release(&counting.steps);
	free(counting.in_use);
	return error;
}
