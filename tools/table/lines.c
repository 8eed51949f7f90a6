/* tools/table/lines.c - adds the lines of a block to rows. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "store/kit/grow.h"
#include "store/kit/hash.h"
#include "store/kit/saturate.h"
#include "table/pass.h"

/* Extend the time of a thread's I/O calls.  A call that begins before that time ends is nested. */
static int add_call(struct table_block_result *result, const struct pfw_entry *entry,
		    const struct pfw_table_line *line)
{
	int64_t end = line->start_ns + line->dur_ns;
	struct table_block_thread *thread;

	for (size_t i = result->threads; i-- > 0;) {
		thread = &result->thread[i];
		if (thread->tid != entry->tid || thread->process != entry->process)
			continue;
		if (line->start_ns < thread->last_ns)
			result->nested = true;
		if (end > thread->last_ns)
			thread->last_ns = end;
		return 0;
	}
	return PFW_APPEND(result->thread, result->threads,
			  (struct table_block_thread){ .process = entry->process,
						       .tid = entry->tid,
						       .first_ns = line->start_ns,
						       .last_ns = end });
}

/* ---- rows ---- */

static uint32_t kind_of(const struct pfw_table_line *line)
{
	return (uint32_t)line->section << 16 | (uint32_t)(line->device & 255) << 8 |
	       line->annotation;
}

/* The place of a line's row.  NULL: it has none. */
static struct table_recent *recent_of(struct table_recent *recent,
				      const struct pfw_table_line *line)
{
	const char *name = line->name.at;
	size_t bytes = line->name.bytes;

	if (!bytes || !line->cat.bytes || bytes + line->cat.bytes > sizeof(recent->text))
		return NULL;
	return &recent[(bytes * 5 + (uint8_t)name[0] + (uint8_t)name[bytes / 2] * 3u +
			(uint8_t)name[bytes - 1] * 7u) %
		       TABLE_RECENT];
}

static bool is_recent(const struct table_recent *recent, const struct pfw_table_line *line,
		      size_t file)
{
	return recent->row && recent->name_bytes == line->name.bytes &&
	       recent->cat_bytes == line->cat.bytes && recent->file == file &&
	       recent->kind == kind_of(line) &&
	       pfw_hash_same(recent->text, line->cat.at, line->cat.bytes) &&
	       pfw_hash_same(recent->text + recent->cat_bytes, line->name.at, line->name.bytes);
}

static void note_recent(struct table_recent *recent, const struct pfw_table_line *line, size_t file,
			uint32_t row)
{
	*recent = (struct table_recent){ .row = row + 1,
					 .kind = kind_of(line),
					 .file = file,
					 .cat_bytes = (uint8_t)line->cat.bytes,
					 .name_bytes = (uint8_t)line->name.bytes };
	memcpy(recent->text, line->cat.at, line->cat.bytes);
	memcpy(recent->text + line->cat.bytes, line->name.at, line->name.bytes);
}

/* The row that a line is added to, or -ENOMEM. */
static int64_t row_of(const struct table_pass *collect, struct table_worker *worker, size_t file,
		      const struct pfw_entry *entry, const struct pfw_table_line *line)
{
	struct table_recent *recent = collect->plan.by_names ? recent_of(worker->recent, line)
							     : NULL;
	int64_t row;

	if (recent && is_recent(recent, line, file))
		return recent->row - 1;
	table_key_make(&worker->key, collect->options, line, entry,
		       collect->traces->file[file].head.rank);
	row = pfw_table_key_row(&worker->key, &worker->rows);
	if (row < 0 || row >> TABLE_ROW_BITS)
		return -ENOMEM;
	if (recent)
		note_recent(recent, line, file, (uint32_t)row);
	return row;
}

/* Whether --fname wants the row of a file. */
static bool wants_file(const struct table_pass *collect, struct table_worker *worker,
		       const struct pfw_slice *fname)
{
	const struct pfw_select_globs *globs = &collect->options->wanted.fname;
	char *text = worker->key.field;

	return !globs->count ||
	       (fname->at &&
		pfw_select_globs_match(
			globs, (struct pfw_slice){ .at = text,
						   .bytes = pfw_slice_decode(
							   fname, text, PFW_TABLE_TEXT_MAX) }));
}

/* Add a copy to the row of the file that it wrote; its time counts for the file that it read. */
static int add_target(const struct table_pass *collect, unsigned number,
		      const struct pfw_pass_block *block, const struct pfw_entry *entry,
		      const struct pfw_table_line *line)
{
	const struct pfw_tally call = { .count = 1, .transfers = 1, .bytes = line->bytes };
	struct table_worker *worker = &collect->worker[number];
	struct pfw_table_line target = *line;
	int64_t row;

	if (!wants_file(collect, worker, &line->target))
		return 0;
	target.section = PFW_TABLE_IO;
	target.fname = line->target;
	table_key_make(&worker->key, collect->options, &target, entry,
		       collect->traces->file[block->file].head.rank);
	row = pfw_table_key_row(&worker->key, &worker->rows);
	if (row < 0)
		return -ENOMEM;
	pfw_tally_merge(&worker->rows.row[row].sums, &call);
	return 0;
}

static int add_line(const struct table_pass *collect, unsigned number, struct pfw_pass_block *block,
		    const struct pfw_entry *entry, const struct pfw_table_line *line)
{
	struct table_worker *worker = &collect->worker[number];
	struct table_block_result *result = block->result;
	bool hidden_io = line->section == PFW_TABLE_HIDDEN_IO;
	int64_t row;
	uint32_t group;
	int error;

	if (hidden_io && !collect->plan.nest_io)
		return add_call(result, entry, line);
	row = row_of(collect, worker, block->file, entry, line);
	if (row < 0)
		return (int)row;
	group = (uint32_t)number << TABLE_ROW_BITS | (uint32_t)row;
	if (line->section == PFW_TABLE_IO) {
		const struct pfw_table_call call = pfw_table_call_of(line);

		table_add_memory(worker->memory, &line->name, line->unmoved);
		table_add_apart(worker->apart_ns, &line->cat, line->dur_ns);
		worker->calls_rows += !worker->rows.row[row].sums.count;
		error = pfw_table_add_call(&worker->rows.row[row], &call, !collect->plan.nest_io,
					   collect->options->percentiles &&
						   worker->calls_rows <= TABLE_SKETCHES_MAX);
		if (!error && !line->summed && !collect->plan.how.plain)
			error = collect->plan.nest_io
					? pfw_table_spans_add(&result->spans, entry, line, group, 0)
					: add_call(result, entry, line);
		return error;
	}
	if (!line->device)
		return pfw_table_spans_add(&result->spans, entry, line, group, 0);
	/* By operator, its row is known when its launcher is. */
	if (line->section != PFW_TABLE_HIDDEN &&
	    !(collect->options->by_operator && line->launched_by))
		pfw_tally_device(&worker->rows.row[row].sums, line->start_ns, line->dur_ns);
	return line->launched_by ? pfw_table_spans_launch(&result->spans, entry, line, group) : 0;
}

/* With rows by file, a copy is in the rows of both its files; --fname may select one of them. */
static int add_files(const struct table_pass *collect, unsigned number,
		     struct pfw_pass_block *block, const struct pfw_entry *entry,
		     struct pfw_table_line *line)
{
	int error = 0;

	if (collect->plan.targets && line->target.at && line->section == PFW_TABLE_IO) {
		error = add_target(collect, number, block, entry, line);
		if (!wants_file(collect, &collect->worker[number], &line->fname))
			line->section = PFW_TABLE_HIDDEN_IO;
	}
	return error ?: add_line(collect, number, block, entry, line);
}

static bool wanted(const struct table_pass *collect, struct table_worker *worker, size_t file,
		   const struct pfw_entry *entry, const struct pfw_table_line *line)
{
	const struct pfw_select *select = &collect->options->wanted;

	if (!collect->options->filtered)
		return true;
	return survey_wants(select, worker->wanted, file, entry, line->summed, line->name,
			    line->cat);
}

static bool reached(const struct table_pass *collect, const struct survey_worker *reader,
		    size_t file, const struct pfw_entry *entry)
{
	return !collect->options->limited ||
	       pfw_select_entry(&collect->options->reach, reader->state, file, entry);
}

/* A line that is not shown takes part in nesting all the same.  False: it does not. */
static bool hide(const struct table_pass *collect, struct pfw_table_line *line)
{
	if (collect->plan.how.plain || line->summed)
		return false;
	line->section = line->section == PFW_TABLE_IO ? PFW_TABLE_HIDDEN_IO : PFW_TABLE_HIDDEN;
	return true;
}

/* No row has the line of a mapping at the end. */
static void add_mapping(const struct table_pass *collect, struct table_worker *worker, size_t file,
			const struct pfw_entry *entry)
{
	const struct pfw_table_line line = { .name = entry->name, .cat = entry->cat };

	if (wanted(collect, worker, file, entry, &line))
		table_add_memory(worker->memory, &line.name, pfw_io_unmoved(entry));
}

int table_pass_block(void *user, const struct survey_worker *reader, struct pfw_pass_block *block)
{
	const struct table_pass *collect = user;
	struct table_worker *worker = &collect->worker[reader->number];
	struct table_block_result *result = block->result;
	struct pfw_pass_lines lines;
	struct pfw_table_line line;

	result->extent = TABLE_EXTENT_NONE;
	pfw_pass_lines_init(&lines, block);
	while (pfw_pass_lines_next(&lines)) {
		int error;

		if (!reached(collect, reader, block->file, &lines.entry))
			continue;
		if (lines.entry.has & ~lines.entry.wrong & PFW_ENTRY_TS)
			table_extent_add(&result->extent, lines.entry.ts_ns,
					 pfw_saturate_add(lines.entry.ts_ns, lines.entry.dur_ns));
		if (pfw_io_is_mapping(&lines.entry))
			add_mapping(collect, worker, block->file, &lines.entry);
		if (!pfw_table_line_read(&line, &lines.entry, &worker->calls, collect->plan.how) ||
		    (collect->options->by_file && line.section != PFW_TABLE_IO))
			continue;
		worker->says |= pfw_table_says(&line);
		if (!wanted(collect, worker, block->file, &lines.entry, &line) &&
		    !hide(collect, &line))
			continue;
		if (collect->options->by_step)
			pfw_table_line_step(&line, collect->options->wanted.steps, block->file,
					    &lines.entry);
		error = add_files(collect, reader->number, block, &lines.entry, &line);
		if (error)
			return error;
	}
	return 0;
}

void table_pass_drop(void *result)
{
	struct table_block_result *dropped = result;

	pfw_table_spans_release(&dropped->spans);
	free(dropped->thread);
	free(dropped);
}
