/* tools/table/lines.c - adds the lines of a block to rows. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "share/unrecorded.h"
#include "store/kit/grow.h"
#include "store/kit/hash.h"
#include "store/kit/saturate.h"
#include "table/pass.h"

/* Rows of a worker that have percentiles: a sketch takes some KiB. */
#define SKETCHES_MAX 16384u

/* I/O calls nest only in each other, not in spans. */
#define IO_THREAD (1ull << 63)

static int add_span(struct table_block_result *result, const struct pfw_entry *entry,
		    const struct table_line *line, uint32_t row)
{
	bool call = line->section == TABLE_IO || line->section == TABLE_HIDDEN_IO;
	uint64_t io = call ? IO_THREAD : 0;
	/* A compute event without memory has none; a span of the program's own cannot say. */
	bool says = line->has_memory || pfw_slice_is(&entry->cat, "PP");
	uint32_t otherwise = says ? 0 : PFW_EXTRA_UNKNOWN;
	const struct table_block_span span = { .process = entry->process,
					       .tid = entry->tid ^ io,
					       .span = { .start_ns = line->start_ns,
							 .dur_ns = line->dur_ns,
							 .launcher = line->launcher,
							 .outer = (uint32_t)pfw_entry_outer(entry),
							 .parent = (uint32_t)line->parent,
							 .group = row,
							 .extra = line->has_extra ? 1 : otherwise },
					       .extra = line->extra };

	return PFW_APPEND(result->span, result->spans, span);
}

static int add_launch(struct table_block_result *result, const struct pfw_entry *entry,
		      const struct table_line *line)
{
	const struct table_block_launch launch = { .process = entry->process,
						   .launch = { .launcher = line->launched_by,
							       .otherwise = line->otherwise,
							       .ns = line->dur_ns } };

	return PFW_APPEND(result->launch, result->launches, launch);
}

/* Extend the time of a thread's I/O calls.  A call that begins before that time ends is nested. */
static int add_call(struct table_block_result *result, const struct pfw_entry *entry,
		    const struct table_line *line)
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

/* ---- lines ---- */

static int add_io(struct pfw_average *row, const struct table_line *line, bool self, bool sketch)
{
	struct pfw_tally *sums = &row->sums;

	if (line->summed) {
		pfw_saturate_u64(&sums->count, line->calls);
		sums->total_ns = pfw_saturate_add(sums->total_ns, line->dur_ns);
	} else {
		pfw_tally_begin(sums, line->start_ns, line->dur_ns, false);
		pfw_tally_time(sums, line->dur_ns);
		if (sketch && pfw_sketch_add(&row->durations, line->dur_ns))
			return -ENOMEM;
	}
	if (self || line->summed)
		sums->self_ns = pfw_saturate_add(sums->self_ns, line->dur_ns);
	if (line->transfers) {
		pfw_saturate_u64(&sums->transfers, line->transfers);
		sums->bytes = pfw_saturate_add(sums->bytes, line->bytes);
		sums->transfer_ns = pfw_saturate_add(sums->transfer_ns, line->dur_ns);
	}
	return 0;
}

static void add_device(struct pfw_tally *sums, const struct table_line *line)
{
	int64_t total = sums->total_ns;

	pfw_tally_begin(sums, line->start_ns, line->dur_ns, false);
	pfw_tally_time(sums, line->dur_ns);
	sums->total_ns = total; /* total_ns is CPU time only */
	sums->device_ns = pfw_saturate_add(sums->device_ns, line->dur_ns);
	sums->self_device_ns = pfw_saturate_add(sums->self_device_ns, line->dur_ns);
}

/* ---- rows ---- */

static uint32_t kind_of(const struct table_line *line)
{
	return (uint32_t)line->section << 16 | (uint32_t)(line->device & 255) << 8 |
	       line->annotation;
}

static bool is_recent(const struct table_recent *recent, const struct table_line *line, size_t file)
{
	return recent->row && recent->name_bytes == line->name.bytes &&
	       recent->cat_bytes == line->cat.bytes && recent->file == file &&
	       recent->kind == kind_of(line) &&
	       pfw_hash_same(recent->text, line->cat.at, line->cat.bytes) &&
	       pfw_hash_same(recent->text + recent->cat_bytes, line->name.at, line->name.bytes);
}

/* The cache entry for a line's row; NULL: the line cannot be cached. */
static struct table_recent *recent_of(const struct table_pass *collect, struct table_worker *worker,
				      const struct table_line *line)
{
	const char *name = line->name.at;
	size_t bytes = line->name.bytes;

	if (!collect->plan.by_names || !bytes || !line->cat.bytes ||
	    bytes + line->cat.bytes > sizeof(worker->recent[0].text))
		return NULL;
	return &worker->recent[(bytes * 5 + (uint8_t)name[0] + (uint8_t)name[bytes / 2] * 3u +
				(uint8_t)name[bytes - 1] * 7u) %
			       TABLE_RECENT];
}

static void note_recent(struct table_recent *recent, const struct table_line *line, size_t file,
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

/* The row that a line is added to, or -ENOMEM.  The cache pays off: most lines have one of few
 * names, and making and looking up a key takes longer than reading the line. */
static int64_t row_of(const struct table_pass *collect, struct table_worker *worker, size_t file,
		      const struct pfw_entry *entry, const struct table_line *line)
{
	struct table_recent *recent = recent_of(collect, worker, line);
	int64_t row;

	if (recent && is_recent(recent, line, file))
		return recent->row - 1;
	if (table_key_make(&worker->key, collect->options, line, entry,
			   collect->traces->file[file].head.rank))
		return -ENOMEM;
	row = pfw_averages_row(&worker->rows, worker->key.text, worker->key.bytes);
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
			globs, (struct pfw_slice){
				       .at = text,
				       .bytes = pfw_slice_decode(fname, text, TABLE_TEXT_MAX) }));
}

/* Add a copy to the row of the file that it wrote; its time counts for the file that it read. */
static int add_target(const struct table_pass *collect, unsigned number,
		      const struct pfw_pass_block *block, const struct pfw_entry *entry,
		      const struct table_line *line)
{
	const struct pfw_tally call = { .count = 1, .transfers = 1, .bytes = line->bytes };
	struct table_worker *worker = &collect->worker[number];
	struct table_line target = *line;
	int64_t row;

	if (!wants_file(collect, worker, &line->target))
		return 0;
	target.section = TABLE_IO;
	target.fname = line->target;
	if (table_key_make(&worker->key, collect->options, &target, entry,
			   collect->traces->file[block->file].head.rank))
		return -ENOMEM;
	row = pfw_averages_row(&worker->rows, worker->key.text, worker->key.bytes);
	if (row < 0)
		return -ENOMEM;
	pfw_tally_merge(&worker->rows.row[row].sums, &call);
	return 0;
}

static int add_line(const struct table_pass *collect, unsigned number, struct pfw_pass_block *block,
		    const struct pfw_entry *entry, const struct table_line *line)
{
	struct table_worker *worker = &collect->worker[number];
	struct table_block_result *result = block->result;
	bool hidden_io = line->section == TABLE_HIDDEN_IO;
	int64_t row;
	uint32_t group;
	int error;

	if (hidden_io && !collect->plan.nest_io)
		return add_call(result, entry, line);
	row = row_of(collect, worker, block->file, entry, line);
	if (row < 0)
		return (int)row;
	group = (uint32_t)number << TABLE_ROW_BITS | (uint32_t)row;
	if (line->section == TABLE_IO) {
		worker->mapped += line->mapped;
		worker->too_many |= collect->options->percentiles && row >= SKETCHES_MAX;
		error = add_io(&worker->rows.row[row], line, !collect->plan.nest_io,
			       collect->options->percentiles && !worker->too_many);
		if (!error && !line->summed && !collect->plan.how.plain)
			error = collect->plan.nest_io ? add_span(result, entry, line, group)
						      : add_call(result, entry, line);
		return error;
	}
	if (!line->device)
		return add_span(result, entry, line, group);
	if (line->section != TABLE_HIDDEN)
		add_device(&worker->rows.row[row].sums, line);
	return line->launched_by ? add_launch(result, entry, line) : 0;
}

/* With rows by file, a copy is in the rows of both of its files; --fname may want one of them. */
static int add_files(const struct table_pass *collect, unsigned number,
		     struct pfw_pass_block *block, const struct pfw_entry *entry,
		     struct table_line *line)
{
	int error = 0;

	if (collect->plan.targets && line->target.at && line->section == TABLE_IO) {
		error = add_target(collect, number, block, entry, line);
		if (!wants_file(collect, &collect->worker[number], &line->fname))
			line->section = TABLE_HIDDEN_IO;
	}
	return error ? error : add_line(collect, number, block, entry, line);
}

static bool wanted(const struct table_pass *collect, struct table_worker *worker, size_t file,
		   const struct pfw_entry *entry, const struct table_line *line)
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
	struct pfw_entry line;

	if (!collect->options->limited)
		return true;
	line = *entry;
	line.ph = 'X'; /* `summed` lines are metadata, which no condition selects */
	return pfw_select_entry(&collect->options->reach, reader->state, file, &line);
}

/* A line that is not shown takes part in nesting all the same.  False: it does not. */
static bool hide(const struct table_pass *collect, struct table_line *line)
{
	if (collect->plan.how.plain || line->summed)
		return false;
	line->section = line->section == TABLE_IO ? TABLE_HIDDEN_IO : TABLE_HIDDEN;
	return true;
}

static unsigned recorded(const struct table_line *line)
{
	return (unsigned)(line->device > 0) << UNRECORDED_KERNELS |
	       (unsigned)line->has_memory << UNRECORDED_MEMORY |
	       (unsigned)(line->extra.flops > 0) << UNRECORDED_FLOPS;
}

int table_pass_block(void *user, const struct survey_worker *reader, struct pfw_pass_block *block)
{
	const struct table_pass *collect = user;
	struct table_worker *worker = &collect->worker[reader->number];
	struct table_block_result *result = block->result;
	struct pfw_pass_lines lines;
	struct table_line line;

	result->extent = TABLE_EXTENT_NONE;
	pfw_pass_lines_init(&lines, block);
	while (pfw_pass_lines_next(&lines)) {
		int error;

		if (!reached(collect, reader, block->file, &lines.entry))
			continue;
		if (lines.entry.has & ~lines.entry.wrong & PFW_ENTRY_TS)
			table_extent_add(&result->extent, lines.entry.ts_ns,
					 pfw_saturate_add(lines.entry.ts_ns, lines.entry.dur_ns));
		if (!table_line_read(&line, &lines.entry, &worker->calls, collect->plan.how) ||
		    (collect->options->by_file && line.section != TABLE_IO))
			continue;
		worker->recorded |= recorded(&line);
		if (!wanted(collect, worker, block->file, &lines.entry, &line) &&
		    !hide(collect, &line))
			continue;
		if (collect->options->by_step)
			table_line_step(&line, collect->options->wanted.steps, block->file,
					&lines.entry);
		error = add_files(collect, reader->number, block, &lines.entry, &line);
		if (error)
			return error;
	}
	return 0;
}

void table_pass_drop(void *user, void *result)
{
	struct table_block_result *dropped = result;

	(void)user;
	free(dropped->span);
	free(dropped->launch);
	free(dropped->thread);
	free(dropped);
}
