/* store/memory/in_index.c - stores a trace's allocations in its index: docs/index_format.rst.
 *
 * The owner of an allocation is the span that it lies in.  In a compacted file, which is sorted, spans that
 * have ended have no later allocations.  Of other files all spans are kept until the end, but only from
 * the first allocation on: most traces have none.  If that lies in an earlier span, the index is made anew.
 */
#include "store/memory/in_index.h"

#include <errno.h>
#include <stdlib.h>

#include "common/base/order.h"
#include "store/index/db.h"
#include "store/kit/grow.h"
#include "store/kit/saturate.h"
#include "store/line/io.h"
#include "store/line/step_name.h"
#include "store/memory/memory.h"
#include "store/memory/row.h"
#include "store/summary/summary.h"
#include "store/sys/spill.h"

/* Events that take more go to temporary files. */
#define EVENTS_MEMORY (16u << 20)
/* A trace with more rows has an empty last row. */
#define ROWS_MAX 65536u
#define STEPS_MAX (1u << 18)
#define POOLS_MAX 4096u
/* The greatest blocks that are kept: so many and some of a number of lines, which bounds the share of the
 * index that they take. */
#define UNFREED_LEAST 256u
#define UNFREED_LINES 64u
#define LIVES_LEAST 64u
#define LIVES_LINES 512u

/* The known facts about the lines of a name of the block's summary. */
struct named {
	bool known;
	bool skip;     /* none of them counts */
	bool several;  /* they may have several names */
	uint32_t name; /* of its spans, plus 1; 0: not known */
	uint64_t form; /* all lines of this entry->form are of `class`; 0: none */
	enum pfw_memory_class class;
};

struct block {
	struct pfw_memory_lines lines;
	struct pfw_step *step;
	size_t steps, step_room;
	struct named *named;
	size_t named_room;
	uint64_t all;	     /* lines */
	int64_t last_ns;     /* the greatest ts of its events */
	int64_t span_end_ns; /* the greatest end of its spans */
};

struct file {
	struct pfw_memory memory;
	struct pfw_step *step;
	size_t steps, step_room;
	struct pfw_spill spans; /* struct pfw_memory_span each; if sorted those that may be open */
	struct pfw_spill_budget budget;
	uint32_t *name; /* numbers of the block's names, plus 1 */
	size_t name_room;
	uint64_t lines;
	unsigned leaders;
	bool sorted, once;
	int64_t last_ns;     /* if sorted: nothing comes before it */
	int64_t span_end_ns; /* the greatest end of spans that were not kept */
	bool any, none;	     /* there are events; they cannot be counted */
};

/* ---- lines of a block ---- */

static void clear_block(void *user)
{
	struct block *block = user;

	pfw_memory_lines_clear(&block->lines);
	for (size_t i = 0; i < block->named_room; i++)
		block->named[i].known = false;
	block->steps = 0;
	block->all = 0;
	block->last_ns = block->span_end_ns = INT64_MIN;
}

static void release_block(void *user)
{
	struct block *block = user;

	pfw_memory_lines_release(&block->lines);
	free(block->step);
	free(block->named);
}

/* The class of a line; lines of a name and form mostly have one. */
static enum pfw_memory_class class_of(const struct pfw_entry *entry, struct named *named)
{
	if (entry->form && entry->form == named->form)
		return named->class;
	named->class = pfw_memory_class_of(entry);
	named->form = pfw_entry_varies(entry, "kind") || pfw_entry_varies(entry, "device")
			      ? 0
			      : entry->form;
	return named->class;
}

/* The process of a line in its file.  The number of one without a `process` line is made of the file's,
 * which is not always the same, and so would be the order of processes in the row. */
static uint64_t process_of(const struct pfw_entry *entry)
{
	return entry->process >> 63 ? 1ull << 63 | entry->pid : entry->process;
}

static int add_event(struct block *block, const struct pfw_entry *entry)
{
	uint64_t step = PFW_MEMORY_NO_STEP;
	bool says = pfw_says_step(entry, &step);
	int error;

	if (!pfw_memory_is_event(entry))
		return 0;
	says |= !(entry->has & ~entry->wrong & PFW_ENTRY_TS);
	error = pfw_memory_add_event(&block->lines, entry, says ? &step : NULL);
	if (!error)
		block->lines.event[block->lines.events - 1].item.process = process_of(entry);
	return error;
}

static int add_owner(struct block *block, const struct pfw_entry *entry, struct named *named)
{
	struct pfw_memory_lines *lines = &block->lines;
	struct pfw_memory_span *added;

	if (named->several || !named->name) {
		int64_t name = pfw_memory_name(lines, entry);

		if (name < 0)
			return (int)name;
		named->name = (uint32_t)name + 1;
	}
	if (PFW_ROOM(lines->span, lines->spans, lines->span_room))
		return -ENOMEM;
	added = &lines->span[lines->spans++];
	pfw_memory_span_of(added, entry);
	added->name = named->name - 1;
	added->process = process_of(entry);
	PFW_RAISE(block->span_end_ns, added->end_ns);
	return 0;
}

static int add_step(struct block *block, const struct pfw_entry *entry)
{
	struct pfw_step step;

	if (!pfw_step_of(&step, entry))
		return 0;
	step.process = process_of(entry);
	return PFW_PUSH(block->step, block->steps, block->step_room, step);
}

static int add(void *user, const struct pfw_entry *entry, const struct pfw_summary *summary)
{
	uint32_t name = summary->last.name;
	struct block *block = user;
	struct named *named;
	int error = 0;

	block->all = summary->lines;
	if (entry->ts_ns > block->last_ns)
		block->last_ns = entry->ts_ns;
	if (PFW_REACH(block->named, name, block->named_room))
		return -ENOMEM;
	named = &block->named[name];
	if (!named->known || !name)
		*named = (struct named){ .known = true,
					 .several = !name ||
						    summary->name[name].role == PFW_SUMMARY_STEP,
					 .skip = (entry->ph != 'X' && entry->ph != 'i') ||
						 pfw_is_io(&entry->cat) ||
						 pfw_slice_is(&entry->cat, "pfw") };
	if (named->skip)
		return 0;
	if (named->several && entry->ph == 'X')
		error = add_step(block, entry);
	if (error)
		return error;
	switch (class_of(entry, named)) {
	case PFW_MEMORY_CLASS_EVENT:
		return add_event(block, entry);
	case PFW_MEMORY_CLASS_OWNER:
		return add_owner(block, entry, named);
	default:
		return 0;
	}
}

/* ---- blocks of a file ---- */

static int init_file(void *user)
{
	struct file *file = user;

	file->spans = (struct pfw_spill)PFW_SPILL_EMPTY;
	file->budget.bytes = pfw_spill_share();
	file->last_ns = file->span_end_ns = INT64_MIN;
	return pfw_memory_init(&file->memory, EVENTS_MEMORY);
}

static void set_sorted(void *file)
{
	((struct file *)file)->sorted = true;
}

static void set_once(void *file)
{
	((struct file *)file)->once = true;
}

static void release_file(void *user)
{
	struct file *file = user;

	pfw_memory_release(&file->memory);
	pfw_spill_free(&file->spans, &file->budget);
	free(file->step);
	free(file->name);
}

/* Without room for its events and spans the trace gets the rest of its index. */
static int give_up(struct file *file)
{
	pfw_memory_release(&file->memory);
	pfw_spill_free(&file->spans, &file->budget);
	file->none = true;
	return 0;
}

/* Replace the number of a name of the block by that of the file.  0 or -ENOMEM. */
static int number_name(struct file *file, const struct block *block, struct pfw_memory_span *span)
{
	const struct pfw_text_id *name = &block->lines.names.name[span->name];

	if (!file->name[span->name]) {
		int64_t number = pfw_text_ids_of(&file->memory.names, 0, name->text, name->bytes);

		if (number < 0)
			return (int)number;
		file->name[span->name] = (uint32_t)number + 1;
	}
	span->name = file->name[span->name] - 1;
	return 0;
}

/* Sorted: add the spans that have events, and keep those of the others that are open. */
static int settle_open(struct file *file)
{
	struct pfw_memory_span *span = file->spans.at;
	size_t count = file->spans.bytes / sizeof(*span), kept = 0;
	int error = 0;

	for (size_t i = 0; i < count && !error; i++) {
		if (pfw_memory_may_own(&file->memory, &span[i]))
			error = pfw_memory_add_span(&file->memory, &span[i]);
		else if (span[i].end_ns >= file->last_ns)
			span[kept++] = span[i];
	}
	file->spans.bytes = kept * sizeof(*span);
	return error;
}

static int take_spans(struct file *file, const struct block *block)
{
	const struct pfw_memory_lines *lines = &block->lines;
	struct pfw_memory_span *kept;
	int error = pfw_spill_reserve(&file->spans, lines->spans * sizeof(*kept), &file->budget);

	if (lines->names.count && PFW_REACH(file->name, lines->names.count, file->name_room))
		return -ENOMEM;
	for (uint32_t i = 0; i < lines->names.count; i++)
		file->name[i] = 0;
	kept = error ? NULL : pfw_spill_end(&file->spans);
	/* Keep the spans in which later blocks may have events. */
	for (size_t i = 0; i < lines->spans && !error; i++) {
		bool owns = file->sorted && pfw_memory_may_own(&file->memory, &lines->span[i]);

		if (file->sorted && !owns && lines->span[i].end_ns < file->last_ns)
			continue;
		*kept = lines->span[i];
		error = number_name(file, block, kept);
		if (!error && owns)
			error = pfw_memory_add_span(&file->memory, kept);
		else
			kept++;
	}
	if (!error)
		file->spans.bytes = (size_t)((char *)kept - (char *)file->spans.at);
	return error;
}

/* Whether some event of a block is before that time. */
static bool are_before(const struct block *block, int64_t ns)
{
	for (size_t i = 0; i < block->lines.events; i++) {
		if (block->lines.event[i].item.ts_ns < ns)
			return true;
	}
	return false;
}

static int take(void *user, void *taken, struct pfw_blob *data)
{
	const struct block *block = taken;
	struct file *file = user;
	int error = 0;

	(void)data;
	file->lines += block->all;
	file->any |= block->lines.events != 0;
	if (file->none)
		return 0;
	/* Spans that were not kept may have these events. */
	if (file->sorted && are_before(block, file->last_ns))
		return give_up(file);
	if (file->span_end_ns > INT64_MIN &&
	    are_before(block, pfw_saturate_add(file->span_end_ns, 1)))
		return -EAGAIN;
	for (size_t i = 0; i < block->steps && !error; i++)
		error = PFW_PUSH(file->step, file->steps, file->step_room, block->step[i]);
	error = error ? error : pfw_memory_take(&file->memory, &block->lines, 0);
	if (block->last_ns > file->last_ns)
		file->last_ns = block->last_ns;
	if (!error && file->sorted)
		error = settle_open(file);
	if (!file->sorted && !file->once && !file->any)
		PFW_RAISE(file->span_end_ns, block->span_end_ns);
	else
		error = error ? error : take_spans(file, block);
	return error && error != -ENOMEM ? give_up(file) : error;
}

/* ---- the end ---- */

/* Find the steps, add the spans that have events, and count.  0 or -errno. */
static int count(struct file *file)
{
	const struct pfw_memory_span *span = file->spans.at;
	struct pfw_steps *steps;
	int error = pfw_steps_make(&steps, file->step, file->steps);

	if (error)
		return error;
	file->leaders = pfw_steps_leaders(steps, 0);
	for (size_t i = 0; file->any && i < file->spans.bytes / sizeof(*span) && !error; i++) {
		if (pfw_memory_may_own(&file->memory, &span[i]))
			error = pfw_memory_add_span(&file->memory, &span[i]);
	}
	file->memory.by_time = steps;
	file->memory.lives_most = LIVES_LEAST + file->lines / LIVES_LINES;
	if (!error && file->any)
		error = pfw_memory_count(&file->memory);
	pfw_steps_free(steps);
	return error;
}

/* An empty row: no answer. */
static int end(void *user, struct pfw_blob *data)
{
	struct file *file = user;
	const struct pfw_memory *memory = &file->memory;
	int error;

	error = file->none && file->any ? 0 : count(file);
	if (error && error != -ENOMEM)
		return give_up(file);
	if (!error && !file->any)
		PFW_BLOB_PUT(data, 0, file->leaders);
	if (error || !file->any || file->none || memory->pools > POOLS_MAX ||
	    memory->steps > STEPS_MAX)
		return error;
	return pfw_memory_put_row(memory, file->leaders,
				  UNFREED_LEAST + file->lines / UNFREED_LINES, data);
}

const struct pfw_index_kind pfw_memory_kind = {
	.name = "memory",
	.number = 6,
	.version = 1,
	.block_bytes = sizeof(struct block),
	.block_clear = clear_block,
	.block_release = release_block,
	.wants = PFW_INDEX_SPANS | PFW_INDEX_OTHERS,
	.add = add,
	.file_bytes = sizeof(struct file),
	.file_init = init_file,
	.sorted = set_sorted,
	.once = set_once,
	.file_release = release_file,
	.take = take,
	.end = end,
	.untouched = pfw_summary_has_calls_only,
};
