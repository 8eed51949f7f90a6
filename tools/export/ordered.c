/* tools/export/ordered.c - merges the lines of many traces in order of time; see export.h. */
#include "export/export.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "common/base/order.h"
#include "store/kit/grow.h"
#include "store/merge/merge.h"
#include "store/pass/pass.h"
#include "store/traces/ranks.h"

#define MEMORY (128u << 20)
#define MEMORY_LEAST (48u << 20)
#define MEMORY_OF_A_JOB (6u << 20)
/* If the lines of one ts exceed this, the rest keep their order. */
#define HELD_BYTES (16u << 20)

/* A line held back until all lines of its ts are known. */
struct held {
	size_t at, bytes;
	uint64_t order;
	int64_t end_ns;
	uint64_t process, id;
	size_t number;
};

struct run {
	const struct pfw_ordered *ordered;
	struct pfw_select_state *state;
	struct pfw_merge merge;
	struct pfw_merge_file *input;
	struct pfw_blocks *picked; /* of each input: the blocks of the selected ranks */
	struct pfw_buffer text;	   /* of the held lines */
	struct held *held;
	size_t count, room;
	int64_t ts_ns; /* of the held lines */
	bool *read;    /* per file of traces: whether it is read */
	struct pfw_processes_recent recent;
	size_t recent_file;
	uint64_t bytes, all;
};

static size_t file_of(const struct run *run, size_t input)
{
	const struct pfw_ordered *ordered = run->ordered;

	if (input >= ordered->count)
		return ordered->more[input - ordered->count].file;
	return ordered->file ? ordered->file[input] : input;
}

/* Report a problem of a line.  Its place is the start of its block and its number from there. */
__attribute__((format(printf, 3, 4))) static void tell(const struct run *run, uint64_t order,
						       const char *format, ...)
{
	size_t input = (size_t)(order >> 46), file = file_of(run, input);
	size_t block = order >> 24 & 0x3fffff;
	const struct pfw_blocks *blocks = run->input[input].blocks;
	struct pfw_scan_problem problem = {
		.at = blocks->block && block < blocks->count ? blocks->block[block].at : 0,
	};
	va_list args;
	int used = snprintf(problem.text, sizeof(problem.text),
			    "line %u from there: ", (unsigned)(order & 0xffffff) + 1);

	va_start(args, format);
	vsnprintf(problem.text + used, sizeof(problem.text) - (size_t)used, format, args);
	va_end(args);
	run->ordered->problem(run->ordered->user, file, &problem);
}

/* Report problems of an event.  As in a pass, an event that lacks a key is still an event. */
static bool is_event(const struct run *run, uint64_t order, const struct pfw_entry *entry)
{
	unsigned wrong = entry->wrong & ~(unsigned)PFW_ENTRY_ID;
	unsigned missing = pfw_entry_missing(entry);

	if (entry->kind == PFW_ENTRY_BAD)
		tell(run, order, "%s at character %zu", entry->why, entry->why_at + 1);
	if (entry->kind != PFW_ENTRY_EVENT)
		return false;
	if (missing)
		tell(run, order, "no `%s`", pfw_entry_key_name(missing & -missing));
	if (wrong)
		tell(run, order, "`%s`: a value of the wrong type, or out of range",
		     pfw_entry_key_name(wrong & -wrong));
	return true;
}

static void set_process(struct run *run, size_t file, struct pfw_entry *entry)
{
	if (file != run->recent_file)
		run->recent = (struct pfw_processes_recent){ .pid = 0 };
	run->recent_file = file;
	pfw_processes_set(run->ordered->traces->file[file].processes, file, entry, &run->recent);
}

static int give(struct run *run, uint64_t order, const char *line, size_t bytes)
{
	const struct pfw_ordered *ordered = run->ordered;
	size_t file = file_of(run, (size_t)(order >> 46));
	struct pfw_entry entry;

	pfw_entry_parse(&entry, line, bytes);
	if (!is_event(run, order, &entry))
		return 0;
	set_process(run, file, &entry);
	file = pfw_ranks_file(ordered->traces, file, &entry);
	if (!run->read[file] || !pfw_select_entry(ordered->select, run->state, file, &entry))
		return 0;
	return ordered->line(ordered->user, file, &entry);
}

/* ---- lines of one ts ---- */

static int by_end(const void *a, const void *b)
{
	const struct held *x = a, *y = b;

	return PFW_ORDER(y->end_ns, x->end_ns) ?: PFW_ORDER(x->process, y->process) ?:
	       PFW_ORDER(y->id, x->id) ?: PFW_ORDER(y->number, x->number);
}

static int give_held(struct run *run)
{
	int error = 0;

	if (run->count > 1)
		qsort(run->held, run->count, sizeof(*run->held), by_end);
	for (size_t i = 0; i < run->count && !error; i++)
		error = give(run, run->held[i].order, run->text.data + run->held[i].at,
			     run->held[i].bytes);
	run->count = 0;
	run->text.bytes = 0;
	return error;
}

static int hold(struct run *run, const struct pfw_row *row, const char *line, size_t bytes)
{
	size_t at = run->text.bytes;
	struct pfw_entry entry;

	if (PFW_ROOM(run->held, run->count, run->room) || pfw_buffer_add(&run->text, line, bytes))
		return -ENOMEM;
	pfw_entry_parse(&entry, line, bytes);
	set_process(run, file_of(run, (size_t)(row->order >> 46)), &entry);
	run->held[run->count] = (struct held){ .at = at,
					       .bytes = bytes,
					       .order = row->order,
					       .end_ns = row->end_ns,
					       .process = pfw_processes_order(&entry),
					       .id = pfw_entry_outer(&entry),
					       .number = run->count };
	run->count++;
	run->ts_ns = row->ts_ns;
	return 0;
}

static int take_row(struct run *run, const struct pfw_rows *rows, size_t i, bool last)
{
	const struct pfw_row *row = &rows->row[i];
	const char *line = rows->text.data + row->at;
	size_t bytes = row->bytes - 1;
	int error = 0;

	if (run->count && (row->ts_ns != run->ts_ns || run->text.bytes > HELD_BYTES))
		error = give_held(run);
	if (error)
		return error;
	if (!run->count && !last && rows->row[i + 1].ts_ns != row->ts_ns)
		return give(run, row->order, line, bytes);
	return hold(run, row, line, bytes);
}

static int take_rows(void *user, const struct pfw_rows *rows, size_t first, size_t count)
{
	struct run *run = user;
	int error = 0;

	for (size_t i = first; i < first + count && !error; i++)
		error = take_row(run, rows, i, i + 1 == first + count);
	return error;
}

/* ---- the merge ---- */

static void take_problem(void *user, size_t input, const struct pfw_scan_problem *problem)
{
	struct run *run = user;

	run->ordered->problem(run->ordered->user, file_of(run, input), problem);
}

static void take_progress(void *user, uint64_t bytes)
{
	struct run *run = user;

	run->bytes += bytes;
	if (run->ordered->progress)
		run->ordered->progress(run->ordered->user, run->bytes, run->all);
}

/* A file of several ranks: the first of them has the blocks of all, and the widest time window. */
static void widen(struct run *run, size_t input)
{
	const struct pfw_traces *traces = run->ordered->traces;
	const struct pfw_ranks *ranks = traces->file[file_of(run, input)].ranks;
	static const struct pfw_blocks none = { .layout = PFW_LAYOUT_MEMBERS };
	bool first = true;

	for (size_t i = 0; i < input && first; i++)
		first = traces->file[file_of(run, i)].ranks != ranks;
	run->input[input].blocks = first ? &traces->file[ranks->file[0]].blocks : &none;
	for (size_t i = 0; i < ranks->count; i++) {
		const struct pfw_select_window *window =
			&run->ordered->select->window[ranks->file[i]];

		if (!run->read[ranks->file[i]])
			continue;
		PFW_LOWER(run->input[input].since_ns, window->since_ns);
		PFW_RAISE(run->input[input].until_ns, window->until_ns);
	}
}

/* Leave out the blocks that have no line of a selected rank. */
static int pick_blocks(struct run *run, size_t input)
{
	const struct pfw_blocks *all = run->input[input].blocks;
	struct pfw_blocks *picked = &run->picked[input];

	*picked = *all;
	picked->count = 0;
	picked->block = malloc((all->count + 1) * sizeof(*picked->block));
	if (!picked->block)
		return -ENOMEM;
	for (size_t i = 0; i < all->count; i++) {
		if (pfw_select_ranks_block(run->ordered->select, file_of(run, input),
					   &all->block[i]))
			picked->block[picked->count++] = all->block[i];
	}
	run->input[input].blocks = picked;
	return 0;
}

static int add_inputs(struct run *run)
{
	const struct pfw_ordered *ordered = run->ordered;
	size_t count = ordered->count + ordered->more_count;

	run->input = calloc(count + 1, sizeof(*run->input));
	run->read = calloc(ordered->traces->count + 1, sizeof(*run->read));
	run->picked = calloc(count + 1, sizeof(*run->picked));
	if (!run->input || !run->read || !run->picked)
		return -ENOMEM;
	for (size_t i = 0; i < count; i++)
		run->read[file_of(run, i)] = true;
	for (size_t i = 0; i < count; i++) {
		const struct pfw_trace_file *file = &ordered->traces->file[file_of(run, i)];
		const struct pfw_select_window *window = &ordered->select->window[file_of(run, i)];
		const struct pfw_ordered_more *more =
			i < ordered->count ? NULL : &ordered->more[i - ordered->count];

		/* A file without wanted lines keeps its number: the order of rows contains it. */
		run->input[i] = (struct pfw_merge_file){
			.path = more ? more->path : file->path,
			.blocks = more ? &more->blocks : &file->blocks,
			.since_ns = window->since_ns,
			.until_ns = window->until_ns,
		};
		if (file->ranks)
			widen(run, i);
		if (file->ranks && pick_blocks(run, i))
			return -ENOMEM;
		run->all += run->input[i].blocks->file_bytes;
	}
	return 0;
}

static int merge(struct run *run, const char **where)
{
	int error;

	for (;;) {
		error = pfw_merge_run(&run->merge, where) ?: give_held(run);
		if (error != -ESTALE || run->merge.distrust)
			return error;
		/* A member's header is wrong: merge again and read every block beforehand. */
		error = run->ordered->again(run->ordered->user);
		if (error)
			return error;
		run->merge.distrust = true;
		run->count = run->text.bytes = run->bytes = 0;
	}
}

int pfw_ordered_run(const struct pfw_ordered *ordered, const char **where)
{
	unsigned jobs = pfw_pass_jobs(ordered->jobs);
	size_t taken = (size_t)jobs * MEMORY_OF_A_JOB;
	const char *directory = getenv("TMPDIR");
	struct run run = { .ordered = ordered, .state = pfw_select_state_create(ordered->select) };
	int error = run.state ? add_inputs(&run) : -ENOMEM;

	run.merge = (struct pfw_merge){
		.file = run.input,
		.count = ordered->count + ordered->more_count,
		.budget = taken + MEMORY_LEAST < MEMORY ? MEMORY - taken : MEMORY_LEAST,
		.directory = directory && *directory ? directory : "/var/tmp",
		.stop = ordered->stop,
		.user = &run,
		.rows = take_rows,
		.problem = take_problem,
		.progress = take_progress,
	};
	error = error ?: pfw_pool_open(&run.merge.pool, jobs);
	if (!error) {
		error = merge(&run, where);
		pfw_pool_close(run.merge.pool);
	}
	pfw_select_state_free(run.state);
	pfw_buffer_free(&run.text);
	free(run.held);
	for (size_t i = 0; run.picked && i < run.merge.count; i++)
		free(run.picked[i].block);
	free(run.picked);
	free(run.input);
	free(run.read);
	return error;
}
