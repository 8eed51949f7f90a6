/* store/table/in_index.c - stores the compute rows of a trace in its index: docs/index_format.rst.
 *
 * The block's thread reads the args and finds the row of each line; then the spans of all blocks are
 * nested at once, since a thread's lines may come in any order.
 */
#include "store/table/in_index.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "store/kit/grow.h"
#include "store/kit/hash.h"
#include "store/line/io.h"
#include "store/summary/summary.h"
#include "store/sys/spill.h"
#include "store/table/by_arg.h"
#include "store/table/by_step.h"
#include "store/table/by_thread.h"
#include "store/table/code.h"
#include "store/table/key.h"
#include "store/table/nest.h"
#include "store/table/spans.h"

/* A trace with more rows, mostly for its shapes, has an empty last row. */
#define ROWS_MAX 65536u

/* A name of the block's summary. */
struct named {
	bool known;
	bool counts; /* has rows */
	/* The row of its lines without shapes, plus 1 (0: none), and the kind of these lines. */
	uint32_t row, kind;
};

/* A cached row, by name and shapes: most lines need no key. */
struct cached {
	uint32_t row; /* plus 1; 0: none */
	uint32_t kind, name;
	uint32_t shapes_bytes;
	char shapes[112];
};

#define CELLS 256u

/* What lines of a form and a name have in common: most lines are like one before. */
struct form {
	uint64_t named; /* entry->named; 0: nothing is known */
	struct pfw_table_form of;
	uint32_t kind;	/* kind_of() but for the type of the shapes */
	uint32_t row;	/* of those without shapes */
	uint32_t extra; /* span->extra */
	unsigned says;	/* pfw_table_says() */
	uint32_t args; /* of GPU work: pfw_table_works_args(), plus 1; 0: not known, or they differ */
};

/* A thread that had a line lately: its lane, and its spans. */
struct recent {
	bool known;
	uint64_t process, pid, tid;
	uint32_t lane;
	size_t spans; /* plus 1; 0: not known */
};

#define RECENT 8u

struct block {
	struct pfw_averages rows;
	struct form form[PFW_ENTRY_NUMBERS];
	uint64_t plain[PFW_ENTRY_NUMBERS]; /* forms of calls: pfw_table_call_said() finds nothing */
	struct named *named;		   /* of the names of the summary */
	size_t named_room;
	struct cached cached[CELLS];
	struct pfw_table_key key;
	struct pfw_table_spans spans;
	struct recent recent[RECENT];
	struct pfw_table_events events;
	struct pfw_table_by_thread by_thread; /* of GPU work */
	struct pfw_table_works works;
	struct pfw_text_ids kinds; /* what args.kind says */
	uint32_t recent_kind[8];   /* some of these, plus 1 */
	unsigned says;
};

struct file {
	struct pfw_averages rows;
	struct pfw_nesting *nesting;
	struct pfw_table_by_step *by_step;
	struct pfw_table_by_thread by_thread;
	struct pfw_table_by_arg *by_arg;
	struct pfw_table_nest nest;
	unsigned says;
	bool none; /* too many rows, or no room for the spans */
};

/* ---- lines of a block ---- */

static void release_block(void *user)
{
	struct block *block = user;

	pfw_averages_release(&block->rows);
	free(block->named);
	pfw_table_key_release(&block->key);
	pfw_table_spans_release(&block->spans);
	pfw_table_events_release(&block->events);
	pfw_table_by_thread_release(&block->by_thread);
	pfw_table_works_release(&block->works);
	pfw_text_ids_release(&block->kinds);
}

static void clear_block(void *user)
{
	struct block *block = user;

	pfw_averages_release(&block->rows);
	for (unsigned i = 0; i < CELLS; i++)
		block->cached[i].row = 0;
	for (unsigned i = 0; i < PFW_ENTRY_NUMBERS; i++)
		block->form[i].named = 0;
	if (block->named)
		memset(block->named, 0, block->named_room * sizeof(*block->named));
	pfw_table_spans_clear(&block->spans);
	memset(block->recent, 0, sizeof(block->recent));
	pfw_table_by_thread_clear(&block->by_thread);
	pfw_table_works_clear(&block->works);
	pfw_text_ids_clear(&block->kinds);
	memset(block->recent_kind, 0, sizeof(block->recent_kind));
	pfw_table_events_clear(&block->events);
	block->says = 0;
}

/* What kinds of rows have in common; 0: no number is left for the text of the kind, or no memory. */
static uint32_t kind_of(struct block *block, const struct pfw_table_line *line)
{
	const struct pfw_slice *kind = &line->kind;
	uint32_t *recent = &block->recent_kind[kind->bytes % 8];
	const struct pfw_text_id *last = *recent ? &block->kinds.name[*recent - 1] : NULL;
	int64_t number;

	if (!last || last->bytes != kind->bytes ||
	    (kind->bytes && memcmp(last->text, kind->at, kind->bytes) != 0)) {
		number = pfw_text_ids_of(&block->kinds, 0, kind->at ? kind->at : "", kind->bytes);
		if (number < 0 || number >= UINT16_MAX)
			return 0;
		*recent = (uint32_t)number + 1;
	}
	return *recent << 16 | (uint32_t)line->section << 12 | (uint32_t)(line->device & 255) << 4 |
	       (uint32_t)line->shapes_text << 1 | line->annotation;
}

/* The cell of a line.  NULL: its shapes are too long. */
static struct cached *cached_of(struct block *block, const struct pfw_table_line *line,
				uint32_t name, uint32_t kind)
{
	const struct pfw_slice *shapes = &line->shapes;
	uint32_t hash = name * 31 + (kind ^ kind >> 16) * 7;

	if (shapes->bytes > sizeof(block->cached[0].shapes))
		return NULL;
	hash += (uint32_t)pfw_hash_text(0, shapes->at, shapes->bytes);
	return &block->cached[hash % CELLS];
}

static bool is_cached(const struct cached *cached, const struct pfw_table_line *line, uint32_t name,
		      uint32_t kind)
{
	return cached->row && cached->name == name && cached->kind == kind &&
	       cached->shapes_bytes == line->shapes.bytes &&
	       memcmp(cached->shapes, line->shapes.at, line->shapes.bytes) == 0;
}

/* The row of a line, or -ENOMEM; name: its row in the summary, which has 0 for several names. */
static int64_t row_of(struct block *block, const struct pfw_table_line *line, uint32_t name)
{
	uint32_t kind = name ? kind_of(block, line) : 0;
	struct named *named = kind && !line->shapes.at ? &block->named[name] : NULL;
	struct cached *cached = kind && !named ? cached_of(block, line, name, kind) : NULL;
	int64_t row;

	if (named && named->row && named->kind == kind)
		return named->row - 1;
	if (cached && is_cached(cached, line, name, kind))
		return cached->row - 1;
	pfw_table_key_begin(&block->key, line);
	pfw_table_key_name(&block->key, line);
	pfw_table_key_slice(&block->key, &line->cat);
	pfw_table_key_shapes(&block->key, line);
	pfw_table_key_slice(&block->key, &line->kind);
	row = pfw_table_key_row(&block->key, &block->rows);
	if (row >= 0 && named) {
		named->row = (uint32_t)row + 1;
		named->kind = kind;
	} else if (row >= 0 && cached) {
		*cached = (struct cached){ .row = (uint32_t)row + 1,
					   .kind = kind,
					   .name = name,
					   .shapes_bytes = (uint32_t)line->shapes.bytes };
		memcpy(cached->shapes, line->shapes.at, line->shapes.bytes);
	}
	return row;
}

/* GPU work: its row in its thread. */
static int add_work(struct block *block, const struct pfw_table_line *line, uint32_t row,
		    uint32_t lane)
{
	int64_t number = pfw_table_lane_row(&block->by_thread, row, lane);

	if (number < 0 && !block->by_thread.none)
		return -ENOMEM;
	pfw_tally_device(number < 0 ? &block->rows.row[row].sums
				    : &block->by_thread.row[number].sums,
			 line->start_ns, line->dur_ns);
	return 0;
}

/* GPU work of a row; `form` may be NULL. */
static int add_device(struct block *block, const struct pfw_entry *entry,
		      const struct pfw_table_line *line, uint32_t row, uint32_t lane,
		      struct form *form)
{
	int64_t args;
	int error;

	if (line->section != PFW_TABLE_COMPUTE)
		return pfw_table_works_add(&block->works, entry, line, row, 0);
	args = form && form->args ? form->args - 1 : pfw_table_works_args(&block->works, entry);
	if (args < 0)
		return -ENOMEM;
	if (form && !form->of.launch_varies)
		form->args = (uint32_t)args + 1;
	error = add_work(block, line, row, lane);
	return error ? error : pfw_table_works_add(&block->works, entry, line, row, (uint32_t)args);
}

/* The thread of a line; NULL: no memory. */
static struct recent *find_thread(struct block *block, const struct pfw_entry *entry)
{
	int64_t lane = pfw_table_lane_of(&block->by_thread, entry->pid, entry->tid);
	struct recent *recent = &block->recent[entry->tid % RECENT];

	if (lane < 0)
		return NULL;
	*recent = (struct recent){ .known = true,
				   .process = entry->process,
				   .pid = entry->pid,
				   .tid = entry->tid,
				   .lane = (uint32_t)lane };
	return recent;
}

static inline struct recent *thread_of(struct block *block, const struct pfw_entry *entry)
{
	struct recent *recent = &block->recent[entry->tid % RECENT];

	return recent->known && recent->tid == entry->tid && recent->pid == entry->pid &&
			       recent->process == entry->process
		       ? recent
		       : find_thread(block, entry);
}

/* A new span of a thread; NULL: no memory. */
static inline struct pfw_span *push_span(struct block *block, struct recent *thread)
{
	if (!thread->spans) {
		int64_t number =
			pfw_table_spans_thread(&block->spans, thread->process, thread->tid);

		if (number < 0)
			return NULL;
		block->spans.thread[number].lane = thread->lane;
		thread->spans = (size_t)number + 1;
	}
	return pfw_table_spans_push(&block->spans, thread->spans - 1);
}

/* An operator, a span or GPU work of a row; `form` may be NULL. */
static int add_compute(struct block *block, const struct pfw_entry *entry,
		       const struct pfw_table_line *line, uint32_t row, struct form *form)
{
	struct recent *thread = thread_of(block, entry);
	struct pfw_span *span;
	uint32_t extra;

	if (!thread)
		return -ENOMEM;
	block->events.said |= line->said != 0;
	block->by_thread.lane[thread->lane].says |= form ? form->says : pfw_table_says(line);
	if (line->device)
		return add_device(block, entry, line, row, thread->lane, form);
	if (form)
		extra = form->extra;
	else if (pfw_table_spans_extra(&block->spans, entry, line, &extra))
		return -ENOMEM;
	span = push_span(block, thread);
	if (!span)
		return -ENOMEM;
	pfw_table_span_set(span, entry, line);
	span->group = row;
	span->note = line->said;
	span->extra = extra;
	return 0;
}

/* Whether lines of a name of the summary have rows; *line gets the name, and what calls
 * have is not set.  -ENOMEM. */
static int counts(struct block *block, const struct pfw_entry *entry, uint32_t name,
		  struct pfw_table_line *line)
{
	struct named *named;

	if (PFW_REACH(block->named, name, block->named_room))
		return -ENOMEM;
	named = &block->named[name];
	if (!name || !named->known) {
		named->counts = pfw_table_line_name(line, entry, false);
		named->known = true;
	} else {
		line->section = PFW_TABLE_COMPUTE;
		line->name = entry->name;
		line->cat = entry->cat;
		line->launcher = line->parent = line->launched_by = line->otherwise = 0;
		line->shapes = line->stack = line->fname = line->kind =
			(struct pfw_slice){ .at = NULL };
		line->shapes_text = line->has_launch = false;
	}
	return named->counts;
}

/* The row of the last line of a form, or -ENOENT. */
static int64_t row_of_form(struct block *block, const struct form *form, uint32_t name)
{
	const struct pfw_table_line *line = &form->of.line;
	uint32_t kind = form->kind | (uint32_t)line->shapes_text << 1;
	const struct cached *cached;

	if (!line->shapes.at)
		return form->row;
	cached = cached_of(block, line, name, kind);
	if (!cached || !is_cached(cached, line, name, kind))
		return -ENOENT;
	return cached->row - 1;
}

static void learn_form(struct block *block, const struct pfw_entry *entry, struct form *form,
		       const struct pfw_table_line *line, uint32_t row)
{
	form->named = 0;
	if (!entry->named || !pfw_table_form_learn(&form->of, line, entry))
		return;
	form->kind = kind_of(block, line) & ~(1u << 1);
	form->row = row;
	form->says = pfw_table_says(line);
	form->extra = pfw_table_extra(entry, line);
	form->args = 0;
	form->named = form->kind ? entry->named : 0;
}

/* Not inline: for calls, which are most lines, no registers are saved. */
static __attribute__((noinline)) int add_span(struct block *block, const struct pfw_entry *entry,
					      uint32_t name)
{
	struct form *form = &block->form[entry->form % PFW_ENTRY_NUMBERS];
	bool known = form->named && form->named == entry->named && form->of.form == entry->form;
	struct pfw_table_line line;
	int64_t row;
	int counted;

	if (known) {
		if (!pfw_table_form_read(&form->of, entry))
			return 0;
		row = row_of_form(block, form, name);
		if (row >= 0)
			return add_compute(block, entry, &form->of.line, (uint32_t)row, form);
	}
	counted = counts(block, entry, name, &line);
	if (counted <= 0 || !pfw_table_line_times(&line, entry))
		return counted < 0 ? counted : 0;
	pfw_table_line_args(&line, entry);
	block->says |= pfw_table_says(&line);
	row = row_of(block, &line, name);
	if (row < 0)
		return -ENOMEM;
	if (!known && name)
		learn_form(block, entry, form, &line, (uint32_t)row);
	return add_compute(block, entry, &line, (uint32_t)row, NULL);
}

/* The index has rows of I/O by name anyway; only the rows of steps need single calls. */
static int add_call(struct block *block, const struct pfw_entry *entry,
		    const struct pfw_summary *summary)
{
	uint64_t *plain = &block->plain[entry->form % PFW_ENTRY_NUMBERS];
	struct pfw_table_line line;
	uint32_t said = 0;
	bool args;

	if (!pfw_table_line_times(&line, entry))
		return 0;
	if (!entry->form || *plain != entry->form) {
		said = pfw_table_call_said(entry, &args);
		block->says |= args ? PFW_TABLE_SAYS_ARGS : 0u;
		if (!said && !args && !pfw_entry_varies(entry, "step"))
			*plain = entry->form;
	}
	line.bytes = (int64_t)summary->last.bytes;
	line.transfers = summary->last.moves;
	return pfw_table_events_add(&block->events, &line, entry->process, said);
}

/* Of the line that was added last: all steps have one name there. */
static bool may_be_step(const struct pfw_summary *summary)
{
	uint32_t name = summary->last.name;

	return !name || summary->name[name].role == PFW_SUMMARY_STEP;
}

static int add(void *user, const struct pfw_entry *entry, const struct pfw_summary *summary)
{
	struct block *block = user;
	struct pfw_table_line line;

	if (summary->last.io)
		return add_call(block, entry, summary);
	if (entry->ph == 'M')
		return pfw_table_line_read(&line, entry, NULL, (struct pfw_table_how){ 0 })
			       ? pfw_table_events_sum(&block->events, entry, &line)
			       : 0;
	if (may_be_step(summary) && pfw_table_events_step(&block->events, entry))
		return -ENOMEM;
	return add_span(block, entry, summary->last.name);
}

/* ---- blocks of a file ---- */

static void release_file(void *user)
{
	struct file *file = user;

	pfw_averages_release(&file->rows);
	pfw_nesting_free(file->nesting);
	pfw_table_by_step_free(file->by_step);
	pfw_table_by_thread_release(&file->by_thread);
	pfw_table_by_arg_free(file->by_arg);
	pfw_table_nest_release(&file->nest);
}

static int init_file(void *user)
{
	struct file *file = user;

	file->nesting = pfw_nesting_create(pfw_spill_share());
	file->by_step = pfw_table_by_step_create();
	file->by_arg = pfw_table_by_arg_create();
	return file->nesting && file->by_step && file->by_arg ? 0 : -ENOMEM;
}

static int give_up(struct file *file)
{
	pfw_averages_release(&file->rows);
	pfw_nesting_free(file->nesting);
	pfw_table_by_step_free(file->by_step);
	pfw_table_by_arg_free(file->by_arg);
	file->nesting = NULL;
	file->by_step = NULL;
	file->by_arg = NULL;
	file->none = true;
	return 0;
}

static int take(void *user, void *taken, struct pfw_blob *data)
{
	struct block *block = taken;
	struct file *file = user;
	int error;

	(void)data;
	if (file->none)
		return 0;
	file->says |= block->says;
	error = pfw_averages_merge(&file->rows, &block->rows);
	if (!error)
		error = pfw_table_by_thread_merge(&file->by_thread, &block->by_thread, &file->rows,
						  &block->rows);
	error = error ? error
		      : pfw_table_nest_lanes(&file->nest, &block->spans, &block->by_thread,
					     file->nesting);
	if (error)
		return error;
	for (size_t i = 0; i < block->spans.threads; i++) {
		const struct pfw_table_thread *thread = &block->spans.thread[i];

		for (size_t j = 0; j < thread->spans; j++)
			thread->span[j].group = block->rows.row[thread->span[j].group].merged;
	}
	error = pfw_table_spans_keep(&block->spans, file->nesting);
	if (!error)
		error = pfw_table_by_step_take(file->by_step, &block->events, file->nesting);
	if (!error)
		error = pfw_table_by_arg_take(file->by_arg, &block->works, &block->rows,
					      file->nesting);
	/* Without room for the spans the trace gets the rest of its index. */
	return file->rows.count > ROWS_MAX || (error && error != -ENOMEM) ? give_up(file) : error;
}

/* ---- the end ---- */

static bool is_shown(const struct pfw_average *row)
{
	return row->key[0] == PFW_TABLE_COMPUTE && row->sums.count;
}

/* 0, or -ENOMEM; without an answer file->none is set. */
static int nest(struct file *file)
{
	uint64_t too_deep = 0;
	int error;

	file->nest.rows = &file->rows;
	file->nest.by_thread = &file->by_thread;
	file->nest.by_step = file->by_step;
	error = pfw_table_by_step_begin(file->by_step, file->by_arg, &file->rows);
	error = error ? error : pfw_table_nest_run(&file->nest, file->nesting, &too_deep);
	/* Spans that lie too deep are reported by whoever reads the lines. */
	if (!too_deep && (!error || error == -ENOMEM))
		return error;
	return give_up(file);
}

/* The rows after their length, GPU work by its args after its length, then what threads add to the rows. */
static int put_rows(const struct file *file, struct pfw_blob *data)
{
	uint32_t *number = calloc((size_t)file->rows.count + 1, sizeof(*number)), count = 0;
	struct pfw_blob rows = { 0 }, works = { 0 };
	int error = number ? 0 : -ENOMEM;

	for (uint32_t i = 0; i < file->rows.count && !error; i++) {
		const struct pfw_average *row = &file->rows.row[i];

		if (!is_shown(row))
			continue;
		number[i] = ++count;
		PFW_BLOB_PUT(&rows, (uint8_t)row->key[1], (uint8_t)row->key[2]);
		pfw_table_put_key(&rows, row->key, PFW_TABLE_INDEX_FIELDS);
		pfw_table_put_tally(&rows, &row->sums);
	}
	pfw_blob_part(data, &rows);
	if (!error)
		error = pfw_table_by_arg_put(file->by_arg, file->nesting, &file->rows, number,
					     &works);
	pfw_blob_part(data, &works);
	if (!error)
		pfw_table_by_thread_put(&file->by_thread, number, data);
	free(number);
	return error;
}

/* An empty row: no answer. */
static int end(void *user, struct pfw_blob *data)
{
	struct file *file = user;
	int error = file->none ? 0 : nest(file);

	if (file->none || error)
		return error;
	pfw_table_by_thread_fold(&file->by_thread, &file->rows);
	PFW_BLOB_PUT(data, file->says);
	return put_rows(file, data);
}

static int put_steps(void *user, struct pfw_blob *data)
{
	const struct file *file = user;

	return file->none ? 0 : pfw_table_by_step_put(file->by_step, file->says, data);
}

static int put_durations(void *user, struct pfw_blob *data)
{
	const struct file *file = user;

	return file->none ? 0 : pfw_table_by_step_put_durations(file->by_step, data);
}

static int put_kinds(void *user, struct pfw_blob *data)
{
	const struct file *file = user;

	return file->none ? 0 : pfw_table_by_step_put_kinds(file->by_step, data);
}

const struct pfw_index_kind pfw_table_kind = {
	.name = "table",
	.number = 3,
	.version = 5,
	.block_bytes = sizeof(struct block),
	.block_clear = clear_block,
	.block_release = release_block,
	.wants = PFW_INDEX_CALLS | PFW_INDEX_SPANS | PFW_INDEX_OWN,
	.add = add,
	.file_bytes = sizeof(struct file),
	.file_init = init_file,
	.file_release = release_file,
	.take = take,
	.end = end,
	.more = { put_steps, put_durations, put_kinds },
	.untouched = pfw_summary_has_calls_only,
};
