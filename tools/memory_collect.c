/* memory_collect.c - two passes over the traces: the allocations, then the spans that they are in. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "cli.h"
#include "memory.h"
#include "progress.h"
#include "store/pass.h"

#define PROBLEMS_SHOWN 10
#define OWNER_BYTES 4096u

/* What a line gives: an allocation, or in the second pass a span. */
struct item {
	struct memory_event event;
	uint64_t pid;
	int64_t device, device_index, end_ns;
	uint32_t name; /* of the block's */
};

struct block_result {
	struct item *item;
	size_t items, room;
	struct pfw_averages names;
};

struct collect {
	struct memory *memory;
	const struct pfw_traces *traces;
	struct pfw_select_state **state; /* of each worker */
	unsigned jobs;
	bool spans; /* the second pass */
};

void *memory_more(void *array, size_t count, size_t *room, size_t size)
{
	size_t more = *room ? *room * 2 : 64;
	void *bigger;

	if (count < *room)
		return array;
	bigger = realloc(array, more * size);
	if (bigger)
		*room = more;
	return bigger;
}

/* ---- lines ---- */

static int64_t arg(const struct pfw_entry *entry, const char *key, int64_t otherwise)
{
	struct pfw_value value;
	int64_t number;

	return pfw_entry_arg(entry, key, &value) && pfw_value_i64(&value, &number) ? number
										   : otherwise;
}

static uint64_t arg_u64(const struct pfw_entry *entry, const char *key, uint64_t otherwise)
{
	struct pfw_value value;
	uint64_t number;

	return pfw_entry_arg(entry, key, &value) && pfw_value_u64(&value, &number) ? number
										   : otherwise;
}

static bool is_memory(const struct pfw_entry *entry)
{
	struct pfw_value kind;

	return (entry->ph == 'X' || entry->ph == 'i') && pfw_slice_is(&entry->cat, "PP") &&
	       pfw_entry_arg(entry, "kind", &kind) && pfw_slice_is(&kind.text, "memory") &&
	       arg(entry, "bytes", 0) != 0;
}

/* Spans of the program: operators, annotations, its own; no I/O, nothing of a device. */
static bool is_span(const struct pfw_entry *entry)
{
	struct pfw_value kind;

	if (entry->ph != 'X' || pfw_slice_is(&entry->cat, "POSIX") ||
	    pfw_slice_is(&entry->cat, "STDIO") || pfw_slice_is(&entry->cat, "pfw") ||
	    arg(entry, "device", 0) != 0)
		return false;
	return !pfw_slice_is(&entry->cat, "PP") || !pfw_entry_arg(entry, "kind", &kind) ||
	       pfw_slice_is(&kind.text, "cpu_op") || pfw_slice_is(&kind.text, "annotation");
}

static int add_item(struct block_result *result, const struct pfw_entry *entry, bool span)
{
	struct item *item = memory_more(result->item, result->items, &result->room, sizeof(*item));
	char name[OWNER_BYTES];
	int64_t row = 0;

	if (!item)
		return -ENOMEM;
	result->item = item;
	if (span)
		row = pfw_averages_row(&result->names, name,
				       pfw_slice_decode(&entry->name, name, sizeof(name)));
	if (row < 0)
		return -ENOMEM;
	item[result->items++] = (struct item){
		.event = { .ts_ns = entry->ts_ns,
			   .tid = entry->tid,
			   .bytes = arg(entry, "bytes", 0),
			   .addr = arg_u64(entry, "addr", 0),
			   .step = arg_u64(entry, "step", MEMORY_NO_STEP),
			   .allocated = arg(entry, "total_allocated", -1),
			   .reserved = arg(entry, "total_reserved", -1),
			   .owner_begin_ns = INT64_MIN },
		.pid = entry->pid,
		.device = arg(entry, "device", 0),
		.device_index = arg(entry, "device_index", -1),
		.end_ns = entry->ts_ns + (entry->dur_ns > 0 ? entry->dur_ns : 0),
		.name = (uint32_t)row,
	};
	return 0;
}

static int work(void *user, unsigned worker, struct pfw_pass_block *block)
{
	const struct collect *collect = user;
	struct block_result *result = calloc(1, sizeof(*result));
	struct pfw_lines lines;
	int error = 0;

	if (!result)
		return -ENOMEM;
	pfw_averages_init(&result->names);
	block->result = result;
	pfw_lines_init(&lines, block);
	while (!error && pfw_lines_next(&lines)) {
		const struct pfw_entry *entry = &lines.entry;

		if (collect->spans ? is_span(entry)
				   : is_memory(entry) && pfw_select_entry(&collect->memory->select,
									  collect->state[worker],
									  block->file, entry))
			error = add_item(result, entry, collect->spans);
	}
	return error;
}

/* ---- allocations ---- */

static int add_event(struct collect *collect, size_t file, const struct item *item)
{
	struct memory *memory = collect->memory;
	int64_t process = pfw_numbers_of(&memory->processes, file, item->pid);
	int64_t pool = process < 0 ? process
				   : pfw_numbers_of(&memory->pool_numbers, (uint64_t)process,
						    (uint64_t)item->device << 32 ^
							    (uint64_t)(uint32_t)item->device_index);
	struct memory_event *event;

	if (pool < 0)
		return -ENOMEM;
	event = memory_more(memory->event, memory->events, &memory->event_room, sizeof(*event));
	if (!event)
		return -ENOMEM;
	memory->event = event;
	event[memory->events] = item->event;
	event[memory->events].pool = (uint32_t)pool;
	event[memory->events++].process = (uint32_t)process;
	if ((size_t)pool < memory->pools)
		return 0;
	memory->pool =
		memory_more(memory->pool, memory->pools, &memory->pool_room, sizeof(*memory->pool));
	if (!memory->pool)
		return -ENOMEM;
	memory->pool[memory->pools++] =
		(struct memory_pool){ .rank = collect->traces->file[file].head.rank,
				      .device = item->device,
				      .device_index = item->device_index,
				      .pid = item->pid,
				      .process = (uint32_t)process,
				      .most_allocated = -1,
				      .most_reserved = -1 };
	return 0;
}

/* ---- spans ---- */

/* By process, thread and time. */
static int by_thread(const void *a, const void *b)
{
	const struct memory_event *x = a, *y = b;

	if (x->process != y->process)
		return x->process < y->process ? -1 : 1;
	if (x->tid != y->tid)
		return x->tid < y->tid ? -1 : 1;
	return x->ts_ns < y->ts_ns ? -1 : x->ts_ns > y->ts_ns;
}

/* The span is the owner of the allocations in it that no span has which begins later. */
static void own(struct memory *memory, uint32_t process, const struct item *span, uint32_t name)
{
	const struct memory_event key = { .process = process,
					  .tid = span->event.tid,
					  .ts_ns = span->event.ts_ns };
	size_t low = 0, high = memory->events;

	while (low < high) {
		size_t middle = (low + high) / 2;

		if (by_thread(&memory->event[middle], &key) < 0)
			low = middle + 1;
		else
			high = middle;
	}
	for (; low < memory->events; low++) {
		struct memory_event *event = &memory->event[low];

		if (event->process != process || event->tid != key.tid ||
		    event->ts_ns > span->end_ns)
			break;
		if (event->owner_begin_ns > key.ts_ns)
			continue;
		event->owner_begin_ns = key.ts_ns;
		event->owner = name;
	}
}

static int add_span(struct collect *collect, size_t file, struct block_result *result,
		    const struct item *item)
{
	struct memory *memory = collect->memory;
	int64_t process = pfw_numbers_of(&memory->processes, file, item->pid), name;
	const struct pfw_average *text = &result->names.row[item->name];

	if (process < 0)
		return -ENOMEM;
	name = pfw_averages_row(&memory->names, text->key, text->key_bytes);
	if (name < 0)
		return -ENOMEM;
	own(memory, (uint32_t)process, item, (uint32_t)name);
	return 0;
}

/* ---- the pass ---- */

static void drop(void *user, void *result)
{
	struct block_result *dropped = result;

	(void)user;
	if (!dropped)
		return;
	pfw_averages_release(&dropped->names);
	free(dropped->item);
	free(dropped);
}

static int done(void *user, struct pfw_pass_block *block)
{
	struct collect *collect = user;
	struct block_result *result = block->result;
	int error = 0;

	for (size_t i = 0; result && i < result->items && !error; i++)
		error = collect->spans ? add_span(collect, block->file, result, &result->item[i])
				       : add_event(collect, block->file, &result->item[i]);
	drop(NULL, result);
	block->result = NULL;
	return error;
}

static bool want(void *user, size_t file, const struct pfw_block *block)
{
	const struct collect *collect = user;

	return collect->spans ? pfw_select_file(&collect->memory->select, file)
			      : pfw_select_block(&collect->memory->select, file, block);
}

static void say_problem(void *user, size_t file, const struct pfw_scan_problem *problem)
{
	struct collect *collect = user;

	if (collect->spans)
		return; /* was said */
	if (collect->memory->problems++ < PROBLEMS_SHOWN)
		cli_problem(collect->memory->command->name, collect->traces->file[file].path,
			    problem);
}

static int run(struct collect *collect, const struct pfw_pass *pass)
{
	int error;

	progress_begin("memory", collect->memory->quiet, false);
	error = pfw_pass_run(pass);
	progress_hide();
	/* A file that cannot be read on was said: what could be read is shown. */
	return error == -EIO ? 0 : error;
}

/* What can be read once only (a pipe), and what is read from rings, has no second pass. */
static bool again(const struct collect *collect, const struct live_lines *live)
{
	for (size_t i = 0; i < collect->traces->count; i++) {
		if (strcmp(collect->traces->file[i].path, "-") == 0)
			return false;
	}
	return collect->memory->events && !live->any;
}

static int init(struct collect *collect)
{
	collect->state = calloc(collect->jobs, sizeof(struct pfw_select_state *));
	if (!collect->state || pfw_averages_row(&collect->memory->names, "", 0) < 0)
		return -ENOMEM;
	for (unsigned i = 0; i < collect->jobs; i++) {
		collect->state[i] = pfw_select_state_create(&collect->memory->select);
		if (!collect->state[i])
			return -ENOMEM;
	}
	return 0;
}

int memory_collect(struct memory *memory, struct live_lines *live, const volatile bool *stop)
{
	struct collect collect = { .memory = memory,
				   .traces = live->traces,
				   .jobs = pfw_pass_jobs(memory->jobs) };
	const struct pfw_pass pass = { .traces = collect.traces,
				       .jobs = collect.jobs,
				       .user = &collect,
				       .want = want,
				       .work = work,
				       .done = done,
				       .drop = drop,
				       .problem = say_problem,
				       .progress = progress_of_pass,
				       .stop = stop };
	int error = init(&collect);

	if (!error)
		error = run(&collect, &pass);
	if (!error)
		error = live_lines_pass(live, &pass);
	if (!error && again(&collect, live)) {
		qsort(memory->event, memory->events, sizeof(*memory->event), by_thread);
		collect.spans = true;
		error = run(&collect, &pass);
	}
	for (unsigned i = 0; collect.state && i < collect.jobs; i++)
		pfw_select_state_free(collect.state[i]);
	free(collect.state);
	if (!error && *stop)
		error = -EINTR;
	if (error && error != -EINTR)
		cli_error(memory->command->name, "%s", strerror(-error));
	return error;
}
