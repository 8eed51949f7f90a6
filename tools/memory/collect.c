/* tools/memory/collect.c - reads the allocations, then in a second pass the spans that own them. */
#include <errno.h>
#include <stdlib.h>

#include "memory/memory.h"
#include "store/kit/grow.h"
#include "store/kit/saturate.h"
#include "store/line/args.h"
#include "store/line/io.h"
#include "store/pass/steps.h"

#define OWNER_BYTES 4096u
#define POOL "Memory Pool"

/* A Bloom filter with one hash over pairs of a thread and a slot of 8 µs in which something was
 * allocated.  Most spans hit none of its bits and need no sorting. */
#define FILTER_BITS (1u << 23)
#define SLOT_NS_SHIFT 13
/* Memory for items before the sorter uses a file. */
#define BUDGET_BYTES (64u << 20)

/* An allocation or a span from a line. */
struct line {
	/* `name` is the block's; of process and pool only MEMORY_SPAN is set */
	struct memory_item item;
	uint64_t pid;
	int64_t device, device_index;
};

struct block_result {
	struct line *line;
	size_t lines, room;
	struct pfw_averages names;
};

/* What a pass takes from the lines. */
enum phase {
	ALLOCATIONS, /* first */
	OWNERS,	     /* then, from the same lines, spans that may own an allocation */
	EVERYTHING,  /* for lines that can be read only once: all allocations and spans */
};

struct collect {
	struct memory *memory;
	const struct pfw_traces *traces;
	enum phase phase;
	uint64_t *filter; /* FILTER_BITS bits */
};

/* ---- the filter ---- */

static uint64_t first_bit(uint64_t tid, int64_t ns)
{
	return (tid * 0x9e3779b97f4a7c15u >> 32) + ((uint64_t)ns >> SLOT_NS_SHIFT);
}

static void add_to_filter(struct collect *collect, const struct memory_item *event)
{
	uint64_t at = first_bit(event->tid, event->ts_ns) % FILTER_BITS;

	collect->filter[at / 64] |= 1ull << at % 64;
}

/* Whether the span's thread may have allocated something during it. */
static bool may_own(const struct collect *collect, const struct memory_item *span)
{
	uint64_t at = first_bit(span->tid, span->ts_ns);
	uint64_t last = first_bit(span->tid, span->end_ns);

	if (last - at >= FILTER_BITS)
		return true;
	while (at <= last) {
		uint64_t word = collect->filter[at % FILTER_BITS / 64] >> at % 64;

		if (word)
			return at + (uint64_t)__builtin_ctzll(word) <= last;
		at += 64 - at % 64;
	}
	return false;
}

/* ---- lines ---- */

/* A CUDA memory pool reports its size in lines of its own, which are no allocations. */
static bool is_memory(const struct pfw_entry *entry)
{
	struct pfw_value kind;

	return (entry->ph == 'X' || entry->ph == 'i') && pfw_slice_is(&entry->cat, "PP") &&
	       pfw_entry_arg(entry, "kind", &kind) && pfw_slice_is(&kind.text, "memory") &&
	       pfw_arg_i64(entry, "bytes", 0) != 0 && !pfw_slice_begins(&entry->name, POOL);
}

/* Spans of the program: operators, annotations and its own, without I/O and work of devices. */
static bool is_span(const struct pfw_entry *entry)
{
	struct pfw_value kind;

	if (entry->ph != 'X' || pfw_is_io(&entry->cat) || pfw_slice_is(&entry->cat, "pfw") ||
	    pfw_arg_i64(entry, "device", 0) != 0)
		return false;
	return !pfw_slice_is(&entry->cat, "PP") || !pfw_entry_arg(entry, "kind", &kind) ||
	       pfw_slice_is(&kind.text, "cpu_op") || pfw_slice_is(&kind.text, "annotation");
}

static struct line *new_line(struct block_result *result, const struct pfw_entry *entry)
{
	struct line *line;

	if (PFW_ROOM(result->line, result->lines, result->room))
		return NULL;
	line = &result->line[result->lines];
	*line = (struct line){ .item = { .ts_ns = entry->ts_ns,
					 .tid = entry->tid,
					 .id = pfw_entry_outer(entry),
					 .process = entry->process },
			       .pid = entry->pid };
	return line;
}

/* Without a device (traces of older versions): the first GPU's. */
static int add_event_line(const struct collect *collect, struct block_result *result, size_t file,
			  const struct pfw_entry *entry)
{
	struct line *line = new_line(result, entry);

	if (!line)
		return -ENOMEM;
	line->item.bytes = pfw_arg_i64(entry, "bytes", 0);
	line->item.addr = pfw_arg_u64(entry, "addr", 0);
	if (!pfw_steps_find(collect->memory->select.steps, file, entry, &line->item.step))
		line->item.step = MEMORY_NO_STEP;
	line->item.allocated = pfw_arg_i64(entry, "total_allocated", -1);
	line->item.reserved = pfw_arg_i64(entry, "total_reserved", -1);
	line->device = pfw_arg_i64(entry, "device", 1);
	line->device_index = pfw_arg_i64(entry, "device_index", line->device ? 0 : -1);
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
	if (collect->phase == OWNERS && !may_own(collect, &line->item))
		return 0;
	row = pfw_averages_row(&result->names, name,
			       pfw_slice_decode(&entry->name, name, sizeof(name)));
	if (row < 0)
		return -ENOMEM;
	line->item.name = (uint32_t)row;
	result->lines++;
	return 0;
}

static int work(void *user, const struct survey_worker *worker, struct pfw_pass_block *block)
{
	const struct collect *collect = user;
	struct block_result *result = block->result;
	struct pfw_pass_lines lines;
	int error = 0;

	pfw_pass_lines_init(&lines, block);
	while (!error && pfw_pass_lines_next(&lines)) {
		const struct pfw_entry *entry = &lines.entry;

		if (!is_memory(entry))
			error = collect->phase != ALLOCATIONS && is_span(entry)
					? add_span_line(collect, result, entry)
					: 0;
		else if (collect->phase != OWNERS &&
			 pfw_select_entry(&collect->memory->select, worker->state, block->file,
					  entry))
			error = add_event_line(collect, result, block->file, entry);
	}
	return error;
}

/* ---- in order of blocks ---- */

static int add_pool(struct collect *collect, size_t file, const struct line *line)
{
	struct memory *memory = collect->memory;
	const struct memory_pool pool = { .rank = collect->traces->file[file].head.rank,
					  .device = line->device,
					  .device_index = line->device_index,
					  .pid = line->pid,
					  .process = line->item.process,
					  .most_allocated = -1,
					  .most_reserved = -1 };

	return PFW_PUSH(memory->pool, memory->pools, memory->pool_room, pool);
}

static int add_event(struct collect *collect, size_t file, struct line *line)
{
	struct memory *memory = collect->memory;
	int64_t pool = pfw_pair_ids_of(&memory->pool_numbers, line->item.process,
				       (uint64_t)line->device << 32 ^
					       (uint64_t)(uint32_t)line->device_index);

	if (pool < 0 || ((size_t)pool == memory->pools && add_pool(collect, file, line)))
		return -ENOMEM;
	line->item.pool = (uint32_t)pool;
	if (!memory->events || line->item.ts_ns < memory->least_ns)
		memory->least_ns = line->item.ts_ns;
	if (!memory->events || line->item.ts_ns > memory->greatest_ns)
		memory->greatest_ns = line->item.ts_ns;
	memory->events++;
	add_to_filter(collect, &line->item);
	return pfw_sorter_add(&memory->items, &line->item);
}

static int add_line(struct collect *collect, size_t file, const struct block_result *result,
		    struct line *line)
{
	struct memory *memory = collect->memory;
	const struct pfw_average *text;
	int64_t name;

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

static void drop(void *result)
{
	struct block_result *dropped = result;

	pfw_averages_release(&dropped->names);
	free(dropped->line);
	free(dropped);
}

static int done(void *user, struct pfw_pass_block *block)
{
	struct collect *collect = user;
	struct block_result *result = block->result;
	int error = 0;

	for (size_t i = 0; i < result->lines && !error; i++)
		error = add_line(collect, block->file, result, &result->line[i]);
	return error;
}

static bool want(void *user, size_t file, const struct pfw_block *block)
{
	const struct collect *collect = user;

	/* A span may begin outside of the wanted time. */
	return collect->phase != ALLOCATIONS
		       ? pfw_select_ranks_block(&collect->memory->select, file, block)
		       : pfw_select_block(&collect->memory->select, file, block);
}

/* By time.  Spans come first, outer ones before inner ones (whose lines are written first), then
 * frees, which make room for the allocations of that moment. */
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
	if (!span && (x->bytes > 0) != (y->bytes > 0))
		return x->bytes > 0 ? 1 : -1;
	if (x->process != y->process)
		return x->process < y->process ? -1 : 1;
	if (x->id != y->id)
		return (x->id < y->id) != span ? -1 : 1;
	if (span)
		return x->name < y->name ? -1 : x->name > y->name;
	return x->addr < y->addr ? -1 : x->addr > y->addr;
}

static int init(struct collect *collect)
{
	struct memory *memory = collect->memory;

	memory->items.size = sizeof(struct memory_item);
	memory->items.budget = BUDGET_BYTES;
	memory->items.compare = by_time;
	collect->filter = calloc(FILTER_BITS / 64, sizeof(*collect->filter));
	return collect->filter && pfw_averages_row(&memory->names, "", 0) >= 0 ? 0 : -ENOMEM;
}

/* Lines in rings or from a pipe can be read only once. */
static int read_all(struct collect *collect, struct survey_input *input)
{
	struct survey *survey = &collect->memory->survey;
	struct survey_fold fold = { .user = collect,
				    .select = &collect->memory->select,
				    .result_bytes = sizeof(struct block_result),
				    .want = want,
				    .work = work,
				    .done = done,
				    .drop = drop };
	bool once = pfw_traces_once(&input->traces);
	int error;

	collect->phase = once ? EVERYTHING : ALLOCATIONS;
	error = survey_read(survey, input, &fold, SURVEY_FILES);
	collect->phase = EVERYTHING;
	error = error ? error : survey_read(survey, input, &fold, SURVEY_RINGS);
	if (error || once || !collect->memory->events)
		return error;
	collect->phase = OWNERS;
	fold.again = true;
	return survey_read(survey, input, &fold, SURVEY_FILES);
}

int memory_collect(struct memory *memory, struct survey_input *input)
{
	struct collect collect = { .memory = memory, .traces = &input->traces };
	int error = init(&collect);

	error = error ? error : read_all(&collect, input);
	free(collect.filter);
	return error;
}
