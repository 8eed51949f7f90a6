/* store/merge/load.c - loads blocks of files as rows, in the pool; see merge.h. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "store/merge/internal.h"
#include "store/read/input.h"

/* The charge of a block before it is read: its text, and a row per 300 bytes. */
#define EXPECTED (PFW_BLOCK_TEXT + PFW_BLOCK_TEXT / 8)

void pfw_merge_free_spare(struct merge_run *run)
{
	while (run->spare) {
		struct merge_load *load = run->spare;

		run->spare = load->spare;
		pfw_rows_free(&load->rows);
		free(load);
	}
}

static void set_charge(struct merge_run *run, struct merge_load *load, size_t bytes)
{
	run->used = run->used - load->charged + bytes;
	load->charged = bytes;
}

/* Charge what the rows take. */
static void charge_rows(struct merge_run *run, struct merge_load *load)
{
	set_charge(run, load, load->rows.text.bytes + load->rows.room * sizeof(*load->rows.row));
}

void pfw_merge_drop(struct merge_run *run, struct merge_unit *unit)
{
	struct merge_load *load = unit->load;

	set_charge(run, load, 0);
	pfw_problems_free(&load->problems);
	/* Do not keep buffers of unusual size. */
	if (load->rows.text.room > 4 * PFW_BLOCK_TEXT || load->rows.room > PFW_BLOCK_TEXT / 32)
		pfw_rows_free(&load->rows);
	load->rows.path = NULL;
	load->spare = run->spare;
	run->spare = load;
	unit->load = NULL;
	unit->state = MERGE_UNIT_PENDING;
}

/* If callers accept it, refer to the text in its file. */
static void set_place(const struct merge_run *run, const struct merge_unit *unit,
		      struct pfw_rows *rows)
{
	const struct pfw_merge_file *file = &run->merge->file[unit->file];

	if (!run->merge->in_place || file->blocks->layout != PFW_LAYOUT_TEXT)
		return;
	rows->path = file->path;
	rows->path_at = unit->load->buffer_at;
	rows->file = unit->file;
}

/* A block that was read for its least time is read again later, unless callers accept references.
 * Keep its rows, so that it is scanned once, but not its text: rows take a seventh of the memory,
 * and a buffer that is reused at once stays in the CPU's cache. */
void pfw_merge_keep(struct merge_run *run, struct merge_unit *unit)
{
	struct pfw_rows *rows = &unit->load->rows;
	struct merge_kept *kept = NULL;

	if (!rows->mended && run->used < run->merge->budget / 2)
		kept = malloc(sizeof(*kept));
	if (kept) {
		*kept = (struct merge_kept){ .rows = *rows,
					     .text_bytes = rows->text.bytes,
					     .charged = rows->room * sizeof(*rows->row) };
		kept->rows.text = (struct pfw_buffer){ 0 };
		set_place(run, unit, &kept->rows);
		*rows = (struct pfw_rows){ .text = rows->text };
		run->used += kept->charged;
	}
	unit->kept = kept;
	pfw_merge_drop(run, unit);
}

void pfw_merge_forget(struct merge_run *run, struct merge_unit *unit)
{
	struct merge_kept *kept = unit->kept;

	if (!kept)
		return;
	run->used -= kept->charged;
	pfw_rows_free(&kept->rows);
	free(kept);
	unit->kept = NULL;
}

/* Reuse the kept rows; only the text is read again. */
static void take_kept(struct merge_run *run, struct merge_unit *unit)
{
	struct merge_load *load = unit->load;
	struct merge_kept *kept = unit->kept;
	struct pfw_buffer text = load->rows.text;

	load->again = kept ? kept->text_bytes : 0;
	if (!kept)
		return;
	free(load->rows.row);
	load->rows = kept->rows;
	load->rows.text = text;
	load->rows.text.bytes = 0;
	kept->rows.row = NULL;
	pfw_merge_forget(run, unit);
}

/* ---- in a worker ---- */

static void scan(struct merge_load *load, size_t begin)
{
	const struct merge_unit *unit = load->unit;
	const struct pfw_merge_file *file = &load->run->merge->file[unit->file];
	struct pfw_rows_want want = { .since_ns = file->since_ns,
				      .until_ns = file->until_ns,
				      .pid = file->pid,
				      .order = pfw_row_order(unit->file, unit->number, 0),
				      .begins_file = unit->first };

	load->error = pfw_rows_scan(&load->rows, begin, &want, &load->problems);
}

static void read_block(struct pfw_task *task, unsigned worker)
{
	struct merge_load *load = (struct merge_load *)task;
	const struct merge_unit *unit = load->unit;
	const struct pfw_merge_file *file;
	struct pfw_fetched fetched = { .text = load->rows.text };
	int fd;

	if (unit->file == MERGE_UNIT_SPILLED) {
		load->error = pfw_merge_unspill(load->run, load, worker);
		return;
	}
	file = &load->run->merge->file[unit->file];
	fd = pfw_input_open_fd(file->path);
	load->error = fd < 0 ? fd
			     : pfw_fetch_block(&load->run->fetch[worker], file->path, fd,
					       file->blocks->layout,
					       &file->blocks->block[unit->number], &fetched,
					       &load->problems);
	if (fd >= 0)
		close(fd);
	load->rows.text = fetched.text;
	load->text_at = fetched.at;
	load->buffer_at = fetched.at - fetched.begin;
	if (load->error)
		return;
	if (load->again)
		load->error = load->rows.text.bytes == load->again ? 0 : -ESTALE;
	else
		scan(load, fetched.begin);
}

static void scan_text(struct pfw_task *task, unsigned worker)
{
	(void)worker;
	scan((struct merge_load *)task, 0);
}

/* ---- starting and finishing ---- */

static struct merge_load *begin_load(struct merge_run *run, struct merge_unit *unit)
{
	struct merge_load *load = run->spare ? run->spare : calloc(1, sizeof(*load));

	if (!load)
		return NULL;
	if (run->spare)
		run->spare = load->spare;
	load->run = run;
	load->unit = unit;
	load->error = 0;
	set_charge(run, load, EXPECTED);
	unit->load = load;
	unit->state = MERGE_UNIT_LOADING;
	take_kept(run, unit);
	return load;
}

int pfw_merge_load(struct merge_run *run, struct merge_unit *unit)
{
	struct merge_load *load = begin_load(run, unit);

	if (!load)
		return -ENOMEM;
	if (load->rows.path) {
		charge_rows(run, load);
		unit->state = MERGE_UNIT_LOADED;
		return 0;
	}
	run->merge->loads++;
	load->task.run = read_block;
	pfw_pool_start(run->merge->pool, &load->task);
	return 0;
}

/* Report a problem with its place in the file. */
static void tell(struct merge_run *run, const struct merge_load *load,
		 struct pfw_scan_problem *problem)
{
	const struct merge_unit *unit = load->unit;
	const struct pfw_blocks *blocks = run->merge->file[unit->file].blocks;
	char text[sizeof(problem->text)];

	if (problem->line && blocks->layout != PFW_LAYOUT_MEMBERS) {
		problem->at += load->text_at;
		problem->line = 0;
	} else if (problem->line) {
		memcpy(text, problem->text, sizeof(text));
		snprintf(problem->text, sizeof(problem->text),
			 "line %" PRIu64 " of this member: %.150s", problem->line, text);
		problem->at = blocks->block[unit->number].at;
		problem->line = 0;
	}
	run->merge->problem(run->merge->user, unit->file, problem);
}

/* After the first read of a block, count its lines and report its metadata and problems. */
static int take_over(struct merge_run *run, struct merge_unit *unit)
{
	struct pfw_merge *merge = run->merge;
	struct merge_load *load = unit->load;
	const struct pfw_rows *rows = &load->rows;
	struct pfw_merge_sum *sum = &merge->file[unit->file].sum;
	size_t left = rows->metadata;
	int error = 0;

	unit->summed = true;
	sum->lines += rows->count;
	sum->metadata += rows->metadata;
	sum->checksum += rows->checksum;
	for (size_t i = 0; i < load->problems.count; i++)
		tell(run, load, &load->problems.problem[i]);
	for (size_t i = 0; left && merge->metadata && !error; i++) {
		const struct pfw_row *row = &rows->row[i];

		if (!row->metadata)
			continue;
		left--;
		error = merge->metadata(merge->user, unit->file, rows->text.data + row->at,
					row->bytes);
	}
	return error;
}

int pfw_merge_finish(struct merge_run *run, struct merge_unit *unit)
{
	struct merge_load *load = unit->load;
	const struct pfw_rows *rows = &load->rows;
	int error;

	pfw_pool_wait(run->merge->pool, &load->task);
	charge_rows(run, load);
	unit->state = MERGE_UNIT_LOADED;
	error = load->error;
	if (error && unit->file != MERGE_UNIT_SPILLED)
		run->where = run->merge->file[unit->file].path;
	if (!error && !unit->summed)
		error = take_over(run, unit);
	if (error)
		return error;
	/* Output rows are gone: the file has changed. */
	if (unit->next > rows->count)
		return -ESTALE;
	if (unit->next < rows->count)
		pfw_merge_set_key(unit, &rows->row[unit->next]);
	return 0;
}

/* ---- streams ---- */

/* Read the next lines of a stream as a unit, and start to scan it. */
static int next_of_stream(struct merge_run *run, struct pfw_stream *stream, size_t file,
			  size_t number, struct merge_unit **out)
{
	uint64_t before = pfw_input_at(stream->input);
	struct merge_unit *unit = pfw_merge_units(run, 1);
	struct merge_load *load = NULL;
	int error;

	if (unit) {
		unit->file = (uint32_t)file;
		unit->number = (uint32_t)number;
		unit->unseekable = true;
		unit->first = number == 0;
		load = begin_load(run, unit);
	}
	if (!load)
		return -ENOMEM;
	load->rows.text.bytes = 0;
	load->text_at = stream->at;
	error = pfw_stream_read(stream, &load->rows.text, PFW_BLOCK_TEXT, &load->problems);
	if (run->merge->progress)
		run->merge->progress(run->merge->user, pfw_input_at(stream->input) - before);
	if (error) {
		pfw_merge_drop(run, unit);
		return error;
	}
	load->task.run = scan_text;
	pfw_pool_start(run->merge->pool, &load->task);
	*out = unit;
	return 0;
}

/* Wait for the oldest unit in flight, and open it for the merge. */
static int finish_oldest(struct merge_run *run, struct merge_unit **hand, size_t *count)
{
	struct merge_unit *unit = hand[0];
	int error = pfw_merge_finish(run, unit);

	memmove(hand, hand + 1, --*count * sizeof(struct merge_unit *));
	if (error || !unit->load->rows.count) {
		pfw_merge_drop(run, unit);
		return error;
	}
	unit->begun = true;
	error = pfw_merge_heap_push(&run->open, unit);
	if (!error && run->used > run->merge->budget)
		error = pfw_merge_spill(run);
	return error;
}

#define IN_HAND 16u

int pfw_merge_stream(struct merge_run *run, size_t file)
{
	struct pfw_stream stream = { 0 };
	struct merge_unit *hand[IN_HAND];
	size_t count = 0, number = 0, most = 2 * pfw_pool_jobs(run->merge->pool);
	int error = pfw_input_open(&stream.input, run->merge->file[file].path);

	run->where = run->merge->file[file].path;
	if (error)
		return error;
	while (!error && !stream.ended) {
		if (run->merge->stop && *run->merge->stop)
			error = -EINTR;
		if (!error && (count == most || count == IN_HAND))
			error = finish_oldest(run, hand, &count);
		error = error ?: next_of_stream(run, &stream, file, number++, &hand[count]);
		count += !error;
	}
	while (count) {
		int result = finish_oldest(run, hand, &count);

		error = error ?: result;
	}
	pfw_stream_close(&stream);
	return error;
}
