/* table_lines.c - the lines of a block into rows of a table, and what must wait for the lines around it. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "store/hash.h"
#include "store/saturate.h"
#include "table_pass.h"

/* Rows of a worker with percentiles: each takes some KiB. */
#define SKETCHES_MAX 16384u

/* Room for one more at the end of an array whose rooms are powers of two from 64 on. */
static void *more(void *array, size_t count, size_t size)
{
	if (count && (count < 64 || (count & (count - 1))))
		return array;
	return realloc(array, (count ? count * 2 : 64) * size);
}

/* Calls are nested by themselves: what a span does is I/O is no part of it that has a name. */
#define IO_THREAD (1ull << 63)

static int add_span(struct table_block_result *result, const struct pfw_entry *entry,
		    const struct table_line *line, uint32_t row)
{
	uint64_t io = line->section == TABLE_IO ? IO_THREAD : 0;
	struct table_block_span *span = more(result->span, result->spans, sizeof(*span));

	if (!span)
		return -ENOMEM;
	result->span = span;
	span[result->spans++] = (struct table_block_span){ .pid = entry->pid,
							   .tid = entry->tid ^ io,
							   .span = { .start_ns = line->start_ns,
								     .dur_ns = line->dur_ns,
								     .launcher = line->launcher,
								     .group = row,
								     .extra = line->has_extra },
							   .extra = line->extra };
	return 0;
}

static int add_launch(struct table_block_result *result, const struct pfw_entry *entry,
		      const struct table_line *line)
{
	struct table_block_launch *launch = more(result->launch, result->launches, sizeof(*launch));

	if (!launch)
		return -ENOMEM;
	result->launch = launch;
	launch[result->launches++] =
		(struct table_block_launch){ .pid = entry->pid,
					     .launch = { .launcher = line->launched_by,
							 .otherwise = line->otherwise,
							 .ns = line->dur_ns } };
	return 0;
}

/* Note a call in its thread's: as long as each begins when the one before is over, none is nested. */
static int add_call(struct table_block_result *result, const struct pfw_entry *entry,
		    const struct table_line *line)
{
	int64_t end = line->start_ns + line->dur_ns;
	struct table_block_thread *thread;

	for (size_t i = result->threads; i-- > 0;) {
		thread = &result->thread[i];
		if (thread->tid != entry->tid || thread->pid != entry->pid)
			continue;
		if (line->start_ns < thread->last_ns)
			result->nested = true;
		if (end > thread->last_ns)
			thread->last_ns = end;
		return 0;
	}
	thread = more(result->thread, result->threads, sizeof(*thread));
	if (!thread)
		return -ENOMEM;
	result->thread = thread;
	thread[result->threads++] = (struct table_block_thread){
		.pid = entry->pid, .tid = entry->tid, .first_ns = line->start_ns, .last_ns = end
	};
	return 0;
}

/* ---- lines ---- */

static int add_io(struct pfw_average *row, const struct table_line *line, bool self, bool sketch)
{
	struct pfw_sums *sums = &row->sums;

	if (line->summed) {
		sums->count += line->calls;
		sums->total_ns = pfw_saturate_add(sums->total_ns, line->dur_ns);
	} else {
		pfw_sums_begin(sums, line->start_ns, line->dur_ns, false);
		pfw_sums_time(sums, line->dur_ns);
		if (sketch && pfw_sketch_add(&row->durations, line->dur_ns))
			return -ENOMEM;
	}
	if (self || line->summed)
		sums->self_ns = pfw_saturate_add(sums->self_ns, line->dur_ns);
	if (line->transfers) {
		sums->transfers += line->transfers;
		sums->bytes = pfw_saturate_add(sums->bytes, line->bytes);
		sums->transfer_ns = pfw_saturate_add(sums->transfer_ns, line->dur_ns);
	}
	return 0;
}

static void add_device(struct pfw_sums *sums, const struct table_line *line)
{
	int64_t total = sums->total_ns;

	pfw_sums_begin(sums, line->start_ns, line->dur_ns, false);
	pfw_sums_time(sums, line->dur_ns);
	sums->total_ns = total; /* of the CPU */
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

/* Where the row of a line is noted; NULL: nowhere. */
static struct table_recent *recent_of(const struct table_pass *collect, struct table_worker *worker,
				      const struct table_line *line)
{
	const char *name = line->name.at;
	size_t bytes = line->name.bytes;

	if (!collect->by_names || !bytes || !line->cat.bytes ||
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

/* The row that a line is added to, or -ENOMEM.  Few names make most lines, and to put a key together
 * and look it up takes longer than to read the line. */
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

/* What a copy wrote to: its time counts where it read from. */
static int add_target(const struct table_pass *collect, unsigned number,
		      const struct pfw_pass_block *block, const struct pfw_entry *entry,
		      const struct table_line *line)
{
	const struct pfw_sums call = { .count = 1, .transfers = 1, .bytes = line->bytes };
	struct table_worker *worker = &collect->worker[number];
	struct table_line target = *line;
	int64_t row;

	target.fname = line->target;
	if (table_key_make(&worker->key, collect->options, &target, entry,
			   collect->traces->file[block->file].head.rank))
		return -ENOMEM;
	row = pfw_averages_row(&worker->rows, worker->key.text, worker->key.bytes);
	if (row < 0)
		return -ENOMEM;
	pfw_sums_merge(&worker->rows.row[row].sums, &call);
	return 0;
}

static int add_line(const struct table_pass *collect, unsigned number, struct pfw_pass_block *block,
		    const struct pfw_entry *entry, const struct table_line *line)
{
	struct table_worker *worker = &collect->worker[number];
	struct table_block_result *result = block->result;
	int64_t row = row_of(collect, worker, block->file, entry, line);
	uint32_t group;
	int error;

	if (row < 0)
		return (int)row;
	group = (uint32_t)number << TABLE_ROW_BITS | (uint32_t)row;
	if (line->section == TABLE_IO) {
		worker->too_many |= collect->options->percentiles && row >= SKETCHES_MAX;
		error = add_io(&worker->rows.row[row], line, !collect->nest_io,
			       collect->options->percentiles && !worker->too_many);
		if (!error && !line->summed && !collect->how.plain)
			error = collect->nest_io ? add_span(result, entry, line, group)
						 : add_call(result, entry, line);
		if (!error && collect->targets && line->target.at)
			error = add_target(collect, number, block, entry, line);
		return error;
	}
	if (!line->device)
		return add_span(result, entry, line, group);
	if (line->section != TABLE_HIDDEN)
		add_device(&worker->rows.row[row].sums, line);
	return line->launched_by ? add_launch(result, entry, line) : 0;
}

/* The line as its calls would be, for conditions: a `summed` line is of cat pfw. */
static bool wanted(const struct table_pass *collect, struct table_worker *worker, size_t file,
		   const struct pfw_entry *entry, const struct table_line *line,
		   const struct table_step *step)
{
	struct pfw_entry call;

	if (!collect->options->filtered)
		return true;
	pfw_select_state_step(worker->wanted, step ? &step->number : NULL);
	if (!line->summed)
		return pfw_select_entry(&collect->options->wanted, worker->wanted, file, entry);
	call = *entry;
	call.ph = 'X';
	call.name = line->name;
	call.cat = line->cat;
	return !collect->options->wanted.has_min_dur &&
	       pfw_select_entry(&collect->options->wanted, worker->wanted, file, &call);
}

static bool reached(const struct table_pass *collect, struct table_worker *worker, size_t file,
		    const struct pfw_entry *entry)
{
	struct pfw_entry line;

	if (!collect->options->limited)
		return true;
	line = *entry;
	line.ph = 'X'; /* `summed` lines are metadata, which nobody asks for by themselves */
	return pfw_select_entry(&collect->options->reach, worker->reach, file, &line);
}

/* The step that the line does not say: that which its process was in when it began. */
static const struct table_step *step_of(const struct table_pass *collect, size_t file,
					const struct pfw_entry *entry, struct table_line *line)
{
	const struct table_step *step;

	if (!collect->steps_known || line->step.at || line->summed)
		return NULL;
	step = table_steps_find(&collect->table->steps, file, entry->pid, entry->ts_ns);
	if (step)
		line->step = (struct pfw_slice){ .at = step->text, .bytes = strlen(step->text) };
	return step;
}

static int note_step(const struct table_pass *collect, struct table_block_result *result,
		     size_t file, const struct pfw_entry *entry, const struct table_line *line)
{
	if (!collect->by_steps || collect->steps_known || line->section == TABLE_IO)
		return 0;
	result->stepless |= !line->step.at;
	return table_steps_take(&result->steps, file, entry);
}

int table_pass_block(void *user, unsigned number, struct pfw_pass_block *block)
{
	const struct table_pass *collect = user;
	struct table_worker *worker = &collect->worker[number];
	struct table_block_result *result = calloc(1, sizeof(*result));
	struct pfw_lines lines;
	struct table_line line;

	block->result = result;
	if (!result)
		return -ENOMEM;
	pfw_lines_init(&lines, block);
	while (pfw_lines_next(&lines)) {
		const struct table_step *step;
		int error;

		if (!table_line_read(&line, &lines.entry, &worker->calls, collect->how) ||
		    (collect->options->by_file && line.section != TABLE_IO) ||
		    !reached(collect, worker, block->file, &lines.entry))
			continue;
		error = note_step(collect, result, block->file, &lines.entry, &line);
		if (error)
			return error;
		step = step_of(collect, block->file, &lines.entry, &line);
		if (!wanted(collect, worker, block->file, &lines.entry, &line, step)) {
			if (line.section == TABLE_IO)
				continue;
			line.section = TABLE_HIDDEN;
		}
		error = add_line(collect, number, block, &lines.entry, &line);
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
	table_steps_release(&dropped->steps);
	free(dropped);
}
