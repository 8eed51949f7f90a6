/* memory_collect.c - two passes over the traces: the allocations, then the spans that they are in. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "cli.h"
#include "memory.h"
#include "progress.h"
#include "store/call.h"
#include "store/more.h"
#include "store/pass.h"
#include "store/saturate.h"

#define PROBLEMS_SHOWN 10
#define OWNER_BYTES 4096u
#define POOL "Memory Pool"

/* Where spans may own something, by thread and time: a bit each for so many stretches of 8 µs, over and
 * over.  What of spans is not there, most of them, needs no sorting. */
#define PLACES (1u << 23)
#define PLACE_BITS 13
/* In memory, before what is read is sorted in a file. */
#define BUDGET_BYTES (64u << 20)

/* What a line gives: an allocation, or a span. */
struct line {
	struct memory_item item; /* `name` is the block's; no process, no pool but MEMORY_SPAN */
	uint64_t pid;
	int64_t device, device_index;
};

struct block_result {
	struct line *line;
	size_t lines, room;
	struct pfw_averages names;
};

struct collect {
	struct memory *memory;
	const struct pfw_traces *traces;
	struct pfw_select_state **state; /* of each worker */
	unsigned jobs;
	/* What is taken in this pass: allocations first, then spans, of those that are in the places;
	 * of what can be read once only all spans at once. */
	bool events, spans, all_spans;
	uint64_t *place; /* PLACES bits */
};

/* ---- places ---- */

static uint64_t first_place(uint64_t tid, int64_t ns)
{
	return (tid * 0x9e3779b97f4a7c15u >> 32) + ((uint64_t)ns >> PLACE_BITS);
}

static void set_place(struct collect *collect, const struct memory_item *event)
{
	uint64_t at = first_place(event->tid, event->ts_ns) % PLACES;

	collect->place[at / 64] |= 1ull << at % 64;
}

/* Whether something is allocated in that span, by its thread; now and then by another. */
static bool is_in_place(const struct collect *collect, const struct memory_item *span)
{
	uint64_t at = first_place(span->tid, span->ts_ns);
	uint64_t last = first_place(span->tid, span->end_ns);

	if (last - at >= PLACES)
		return true;
	while (at <= last) {
		uint64_t word = collect->place[at % PLACES / 64] >> at % 64;

		if (word)
			return at + (uint64_t)__builtin_ctzll(word) <= last;
		at += 64 - at % 64;
	}
	return false;
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

/* What a pool of CUDA's has is no allocation: these are lines of their own. */
static bool is_memory(const struct pfw_entry *entry)
{
	struct pfw_value kind;

	return (entry->ph == 'X' || entry->ph == 'i') && pfw_slice_is(&entry->cat, "PP") &&
	       pfw_entry_arg(entry, "kind", &kind) && pfw_slice_is(&kind.text, "memory") &&
	       arg(entry, "bytes", 0) != 0 &&
	       (entry->name.bytes < strlen(POOL) ||
		memcmp(entry->name.at, POOL, strlen(POOL)) != 0);
}

/* Spans of the program: operators, annotations, its own; no I/O, nothing of a device. */
static bool is_span(const struct pfw_entry *entry)
{
	struct pfw_value kind;

	if (entry->ph != 'X' || pfw_call_is_io(&entry->cat) || pfw_slice_is(&entry->cat, "pfw") ||
	    arg(entry, "device", 0) != 0)
		return false;
	return !pfw_slice_is(&entry->cat, "PP") || !pfw_entry_arg(entry, "kind", &kind) ||
	       pfw_slice_is(&kind.text, "cpu_op") || pfw_slice_is(&kind.text, "annotation");
}

static struct line *new_line(struct block_result *result, const struct pfw_entry *entry)
{
	struct line *line = pfw_more(result->line, result->lines, &result->room, sizeof(*line));

	if (!line)
		return NULL;
	result->line = line;
	line += result->lines;
	*line = (struct line){ .item = { .ts_ns = entry->ts_ns, .tid = entry->tid },
			       .pid = entry->pid };
	return line;
}

/* The tracer's own lines leave out the device that is usual: README.rst. */
static int add_event_line(struct block_result *result, const struct pfw_entry *entry)
{
	struct line *line = new_line(result, entry);

	if (!line)
		return -ENOMEM;
	line->item.bytes = arg(entry, "bytes", 0);
	line->item.addr = arg_u64(entry, "addr", 0);
	line->item.step = arg_u64(entry, "step", MEMORY_NO_STEP);
	line->item.allocated = arg(entry, "total_allocated", -1);
	line->item.reserved = arg(entry, "total_reserved", -1);
	line->device = arg(entry, "device", 1);
	line->device_index = arg(entry, "device_index", line->device ? 0 : -1);
	result->lines++;
	return 0;
}

static int add_span_line(const struct collect *collect, struct block_result *result,
			 const struct pfw_entry *entry)
{
	struct line *line = new_line(result, entry);
	char name[OWNER_BYTES];
	int64_t row;

	if (!line)
		return -ENOMEM;
	line->item.pool = MEMORY_SPAN;
	line->item.end_ns = pfw_saturate_add(entry->ts_ns, entry->dur_ns > 0 ? entry->dur_ns : 0);
	if (!collect->all_spans && !is_in_place(collect, &line->item))
		return 0;
	row = pfw_averages_row(&result->names, name,
			       pfw_slice_decode(&entry->name, name, sizeof(name)));
	if (row < 0)
		return -ENOMEM;
	line->item.name = (uint32_t)row;
	result->lines++;
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

		if (!is_memory(entry))
			error = collect->spans && is_span(entry)
					? add_span_line(collect, result, entry)
					: 0;
		else if (collect->events &&
			 pfw_select_entry(&collect->memory->select, collect->state[worker],
					  block->file, entry))
			error = add_event_line(result, entry);
	}
	return error;
}

/* ---- in order of blocks ---- */

static int add_pool(struct collect *collect, size_t file, const struct line *line, uint32_t process)
{
	struct memory *memory = collect->memory;
	struct memory_pool *pool =
		pfw_more(memory->pool, memory->pools, &memory->pool_room, sizeof(*pool));

	if (!pool)
		return -ENOMEM;
	memory->pool = pool;
	pool[memory->pools++] = (struct memory_pool){ .rank = collect->traces->file[file].head.rank,
						      .device = line->device,
						      .device_index = line->device_index,
						      .pid = line->pid,
						      .process = process,
						      .most_allocated = -1,
						      .most_reserved = -1 };
	return 0;
}

static int add_event(struct collect *collect, size_t file, struct line *line)
{
	struct memory *memory = collect->memory;
	int64_t pool = pfw_numbers_of(&memory->pool_numbers, line->item.process,
				      (uint64_t)line->device << 32 ^
					      (uint64_t)(uint32_t)line->device_index);

	if (pool < 0 ||
	    ((size_t)pool == memory->pools && add_pool(collect, file, line, line->item.process)))
		return -ENOMEM;
	line->item.pool = (uint32_t)pool;
	if (!memory->events || line->item.ts_ns < memory->least_ns)
		memory->least_ns = line->item.ts_ns;
	if (!memory->events || line->item.ts_ns > memory->greatest_ns)
		memory->greatest_ns = line->item.ts_ns;
	memory->events++;
	set_place(collect, &line->item);
	return pfw_sorter_add(&memory->items, &line->item);
}

static int add_line(struct collect *collect, size_t file, const struct block_result *result,
		    struct line *line)
{
	struct memory *memory = collect->memory;
	int64_t process = pfw_numbers_of(&memory->processes, file, line->pid), name;
	const struct pfw_average *text;

	if (process < 0)
		return -ENOMEM;
	line->item.process = (uint32_t)process;
	if (line->item.pool != MEMORY_SPAN)
		return add_event(collect, file, line);
	text = &result->names.row[line->item.name];
	name = pfw_averages_row(&memory->names, text->key, text->key_bytes);
	if (name < 0)
		return -ENOMEM;
	line->item.name = (uint32_t)name;
	return pfw_sorter_add(&memory->items, &line->item);
}

/* ---- the pass ---- */

static void drop(void *user, void *result)
{
	struct block_result *dropped = result;

	(void)user;
	if (!dropped)
		return;
	pfw_averages_release(&dropped->names);
	free(dropped->line);
	free(dropped);
}

static int done(void *user, struct pfw_pass_block *block)
{
	struct collect *collect = user;
	struct block_result *result = block->result;
	int error = 0;

	for (size_t i = 0; result && i < result->lines && !error; i++)
		error = add_line(collect, block->file, result, &result->line[i]);
	drop(NULL, result);
	block->result = NULL;
	return error;
}

static bool want(void *user, size_t file, const struct pfw_block *block)
{
	const struct collect *collect = user;

	/* A span may begin outside of what is wanted. */
	return collect->spans ? pfw_select_file(&collect->memory->select, file)
			      : pfw_select_block(&collect->memory->select, file, block);
}

static void say_problem(void *user, size_t file, const struct pfw_scan_problem *problem)
{
	struct collect *collect = user;

	if (!collect->events)
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

/* By time.  Spans come first, outer ones before these in them; then what is freed at that moment, which
 * makes room for what is allocated. */
static int by_time(const void *a, const void *b)
{
	const struct memory_item *x = a, *y = b;
	bool span = x->pool == MEMORY_SPAN;

	if (x->ts_ns != y->ts_ns)
		return x->ts_ns < y->ts_ns ? -1 : 1;
	if (span != (y->pool == MEMORY_SPAN))
		return span ? -1 : 1;
	if (span && x->end_ns != y->end_ns)
		return x->end_ns > y->end_ns ? -1 : 1;
	if (span)
		return x->name < y->name ? -1 : x->name > y->name;
	if ((x->bytes > 0) != (y->bytes > 0))
		return x->bytes > 0 ? 1 : -1;
	if (x->pool != y->pool)
		return x->pool < y->pool ? -1 : 1;
	return x->addr < y->addr ? -1 : x->addr > y->addr;
}

static int init(struct collect *collect)
{
	struct memory *memory = collect->memory;

	memory->items.size = sizeof(struct memory_item);
	memory->items.budget = BUDGET_BYTES;
	memory->items.compare = by_time;
	collect->place = calloc(PLACES / 64, sizeof(*collect->place));
	collect->state = calloc(collect->jobs, sizeof(struct pfw_select_state *));
	if (!collect->place || !collect->state || pfw_averages_row(&memory->names, "", 0) < 0)
		return -ENOMEM;
	for (unsigned i = 0; i < collect->jobs; i++) {
		collect->state[i] = pfw_select_state_create(&memory->select);
		if (!collect->state[i])
			return -ENOMEM;
	}
	return 0;
}

static bool has_pipe(const struct pfw_traces *traces)
{
	for (size_t i = 0; i < traces->count; i++) {
		if (strcmp(traces->file[i].path, "-") == 0)
			return true;
	}
	return false;
}

/* Spans of a pipe, and of what is in rings, can be had once only, together with the events. */
static int read_all(struct collect *collect, struct live_lines *live, const struct pfw_pass *pass)
{
	bool once = has_pipe(collect->traces);
	int error;

	collect->events = true;
	collect->spans = collect->all_spans = once;
	error = run(collect, pass);
	collect->spans = collect->all_spans = true;
	error = error ? error : live_lines_pass(live, pass);
	collect->events = collect->all_spans = false;
	return error || once || !collect->memory->events ? error : run(collect, pass);
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

	error = error ? error : read_all(&collect, live, &pass);
	for (unsigned i = 0; collect.state && i < collect.jobs; i++)
		pfw_select_state_free(collect.state[i]);
	free(collect.state);
	free(collect.place);
	if (!error && *stop)
		error = -EINTR;
	if (error && error != -EINTR)
		cli_error(memory->command->name, "%s", strerror(-error));
	return error;
}
