/* store/pass/pass.c - one pass over the lines of many traces; see pass.h.
 *
 * Blocks are taken in order, each with the next slot of a ring.  A thread that has finished a block
 * calls done() for all consecutive finished slots, from the oldest on.  A slot is free after its
 * done(), so the ring bounds the number of blocks ahead.
 */
#include "store/pass/pass.h"

#include <errno.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "store/pass/internal.h"
#include "store/sys/pool.h"
#include "store/sys/proc.h"

#define JOBS_MAX 64u
/* Slots for each thread: enough to go on while one thread is late. */
#define SLOTS_PER_JOB 4u
#define GROUPS_PER_JOB 4u

unsigned pfw_pass_jobs(unsigned jobs)
{
	if (!jobs)
		jobs = pfw_cpus();
	return jobs > JOBS_MAX ? JOBS_MAX : jobs;
}

/* ---- working on a slot; without the mutex ---- */

/* Compare a member's header with its lines.  Times in the text may be cut to whole µs, and a header
 * has none before 1970. */
static void check_summary(struct pass_slot *slot)
{
	const struct pfw_block *place = slot->block.block;
	const struct pfw_pass_block *block = &slot->block;

	if (!place->summed || !block->walked || slot->behind.count)
		return;
	if (block->lines != place->lines)
		pfw_problems_add(&slot->behind, 0, place->at,
				 "the header of this gzip member says %" PRIu32
				 " lines, and there are %" PRIu64,
				 place->lines, block->lines);
	else if (block->least_ns <= block->greatest_ns && block->least_ns >= 0 &&
		 (block->least_ns < place->least_ns - 1000 ||
		  block->greatest_ns > place->greatest_ns))
		pfw_problems_add(&slot->behind, 0, place->at,
				 "the header of this gzip member says times that are not those of "
				 "its lines");
}

int pfw_pass_work(const struct pfw_pass *pass, unsigned worker, struct pfw_pass_block *block)
{
	if (pass->result_bytes && !(block->result = calloc(1, pass->result_bytes)))
		return -ENOMEM;
	return pass->work(pass->user, worker, block);
}

/* The line parser reads beyond the end of the text. */
static int end_text(struct pfw_buffer *text)
{
	int error = pfw_buffer_room(text, text->bytes + PFW_ENTRY_PADDING);

	if (!error)
		memset(text->data + text->bytes, 0, PFW_ENTRY_PADDING);
	return error;
}

static int fetch_slot(const struct pfw_pass_run *run, struct pfw_fetch *fetch,
		      struct pass_slot *slot)
{
	const struct pfw_trace_file *file = &run->pass->traces->file[slot->block.file];

	if (file->blocks.layout == PFW_LAYOUT_STREAM)
		return pfw_fetch_streamed(fetch, file->path, &file->blocks.points,
					  slot->block.block, slot->fetched, &slot->behind);
	return pfw_fetch_block(fetch, file->path, run->opened[slot->block.file].fd,
			       file->blocks.layout, slot->block.block, slot->fetched,
			       &slot->behind);
}

static void work_on(struct pfw_pass_run *run, unsigned worker, struct pfw_fetch *fetch,
		    struct pass_slot *slot)
{
	const struct pfw_pass *pass = run->pass;
	const struct pfw_trace_file *file = &pass->traces->file[slot->block.file];
	struct pfw_pass_block *block = &slot->block;
	struct pfw_fetched *fetched = slot->fetched;
	int error = slot->error;

	if (slot->fetch && !error) {
		error = fetch_slot(run, fetch, slot);
		slot->unreadable = error && error != -ENOMEM;
		error = error == -ENOMEM ? error : 0;
	}
	if (!error)
		error = end_text(&fetched->text);
	block->text = fetched->text.data + fetched->begin;
	block->bytes = fetched->text.bytes - fetched->begin;
	block->at = fetched->at;
	if (!error &&
	    (slot->fetch ? !slot->unreadable || block->bytes || (block->last && pass->joins)
			 : block->bytes && pfw_pass_wants(pass, block->file, block->block))) {
		block->traces = file->ranks ? pass->traces : NULL;
		block->processes = file->processes;
		slot->worked = true;
		error = file->ranks && !pass->whole ? pfw_pass_work_parts(pass, worker, slot)
						    : pfw_pass_work(pass, worker, block);
		if (file->blocks.layout == PFW_LAYOUT_MEMBERS)
			check_summary(slot);
	}
	slot->error = error;
}

/* ---- finishing slots in order ---- */

/* Report a slot's problems, with line numbers as long as those are known. */
static void tell(struct pfw_pass_run *run, struct pass_slot *slot)
{
	const struct pfw_pass *pass = run->pass;
	struct pass_numbering *numbering = &run->numbering;
	const struct pfw_pass_block *block = &slot->block;
	bool members = pass->traces->file[block->file].blocks.layout == PFW_LAYOUT_MEMBERS;
	bool counted = block->walked || !block->bytes;
	bool known;
	uint64_t base;

	if (numbering->file != block->file)
		*numbering = (struct pass_numbering){ .file = block->file, .known = true };
	known = numbering->known && numbering->number == block->number;
	base = numbering->lines;
	for (size_t i = 0; i < slot->lines.count; i++) {
		struct pfw_scan_problem *problem = &slot->lines.problem[i];

		problem->line = known ? base + problem->line : 0;
		if (members) /* a place in a member's text is no place in the file */
			problem->at = block->block->at;
		if (pass->problem)
			pass->problem(pass->user, block->file, problem);
	}
	for (size_t i = 0; i < slot->behind.count; i++) {
		struct pfw_scan_problem *problem = &slot->behind.problem[i];

		if (problem->line) {
			problem->line = known && counted ? base + block->lines + problem->line : 0;
			/* A line that was left out counts, too. */
			numbering->lines++;
		}
		if (pass->problem)
			pass->problem(pass->user, block->file, problem);
	}
	numbering->lines += block->lines;
	numbering->known = known && counted;
	numbering->number = block->number + (slot->fetch || block->bytes);
}

void pfw_pass_drop_result(const struct pfw_pass *pass, struct pfw_pass_block *block)
{
	if (block->result && pass->drop)
		pass->drop(block->result);
	else
		free(block->result);
	block->result = NULL;
}

static int finish(struct pfw_pass_run *run, struct pass_slot *slot)
{
	const struct pfw_pass *pass = run->pass;
	int error = 0;

	if (slot->error)
		return slot->error;
	tell(run, slot);
	for (size_t i = 0; !error && i < slot->points.count; i++)
		error = pass->point(pass->user, slot->block.file, &slot->points.point[i]);
	pfw_points_free(&slot->points);
	if (error)
		return error;
	if (slot->part)
		error = pfw_pass_finish_parts(pass, slot);
	else if (slot->worked && pass->done)
		error = pass->done(pass->user, &slot->block);
	pfw_pass_drop_result(pass, &slot->block);
	pfw_pass_free_parts(pass, slot);
	run->told += slot->progress;
	if (error >= 0 && pass->progress)
		pass->progress(pass->user, run->told, run->all);
	return error;
}

/* Finish slots in order.  With the mutex, which it releases meanwhile. */
static void drain(struct pfw_pass_run *run)
{
	if (run->draining)
		return;
	run->draining = true;
	while (!run->ended && run->finished < run->taken) {
		struct pass_slot *slot = &run->slot[run->finished % run->slots];
		int error;

		if (slot->state != SLOT_FINISHED)
			break;
		pthread_mutex_unlock(&run->mutex);
		error = finish(run, slot);
		pthread_mutex_lock(&run->mutex);
		run->unreadable |= slot->unreadable;
		pfw_pass_give_text(run, slot);
		slot->lines.count = slot->behind.count = 0;
		if (error < 0) {
			pfw_pass_end(run, error);
			break;
		}
		run->paused |= error == PFW_PASS_PAUSE;
		slot->state = SLOT_FREE;
		run->finished++;
		pthread_cond_broadcast(&run->changed);
	}
	run->draining = false;
}

/* ---- threads ---- */

static void work(void *user, unsigned worker)
{
	struct pfw_pass_run *run = user;
	struct pfw_fetch fetch = { 0 };
	struct pass_slot *slot;

	pthread_mutex_lock(&run->mutex);
	while ((slot = pfw_pass_take(run, worker))) {
		struct pass_opened *opened = &run->opened[slot->block.file];

		pthread_mutex_unlock(&run->mutex);
		work_on(run, worker, &fetch, slot);
		pthread_mutex_lock(&run->mutex);
		if (!run->pass->keep_text)
			pfw_pass_give_text(run, slot);
		if (slot->fetch) {
			opened->users--;
			pfw_pass_close_unused(opened);
		}
		slot->state = SLOT_FINISHED;
		drain(run);
	}
	pthread_mutex_unlock(&run->mutex);
	pfw_fetch_free(&fetch);
}

/* More threads than blocks would be idle, and so would be some if a few had long groups. */
static void set_jobs(struct pfw_pass_run *run)
{
	const struct pfw_pass *pass = run->pass;
	unsigned jobs = pfw_pass_jobs(pass->jobs);
	uint64_t blocks = 0;

	for (size_t i = 0; i < pass->traces->count; i++) {
		const struct pfw_blocks *file = &pass->traces->file[i].blocks;

		blocks += file->layout == PFW_LAYOUT_STREAM ? jobs : file->count;
	}
	run->jobs = blocks && blocks < jobs ? (unsigned)blocks : jobs;
	run->together = blocks / GROUPS_PER_JOB / run->jobs;
	if (run->together > PFW_PASS_TOGETHER)
		run->together = PFW_PASS_TOGETHER;
}

static int set_up(struct pfw_pass_run *run)
{
	const struct pfw_traces *traces = run->pass->traces;

	set_jobs(run);
	run->slots = run->jobs * (run->pass->joins ? 2 * PFW_PASS_TOGETHER : SLOTS_PER_JOB);
	run->slot = calloc(run->slots, sizeof(*run->slot));
	run->spare = calloc(run->slots, sizeof(*run->spare));
	run->group = calloc(run->jobs, sizeof(*run->group));
	run->opened = calloc(traces->count + 1, sizeof(*run->opened));
	if (!run->slot || !run->spare || !run->group || !run->opened)
		return -ENOMEM;
	for (unsigned i = 0; i < run->slots; i++)
		run->spare[run->spares++] = &run->slot[i].own;
	for (size_t i = 0; i < traces->count; i++) {
		run->opened[i].fd = -1;
		run->all += traces->file[i].blocks.file_bytes;
	}
	return 0;
}

static void tear_down(struct pfw_pass_run *run)
{
	const struct pfw_pass *pass = run->pass;

	if (run->streaming)
		pfw_stream_close(&run->stream);
	for (unsigned i = 0; run->slot && i < run->slots; i++) {
		struct pass_slot *slot = &run->slot[i];

		pfw_pass_drop_result(pass, &slot->block);
		pfw_pass_free_parts(pass, slot);
		pfw_problems_free(&slot->lines);
		pfw_problems_free(&slot->behind);
		pfw_points_free(&slot->points);
		pfw_buffer_free(&slot->own.text);
	}
	for (size_t i = 0; run->opened && i < pass->traces->count; i++) {
		run->opened[i].users = 0;
		run->opened[i].left = true;
		pfw_pass_close_unused(&run->opened[i]);
	}
	free(run->slot);
	free(run->spare);
	free(run->group);
	free(run->opened);
}

int pfw_pass_open(struct pfw_pass_run **out, const struct pfw_pass *pass)
{
	struct pfw_pass_run *run = calloc(1, sizeof(*run));

	*out = run;
	if (!run)
		return -ENOMEM;
	run->pass = pass;
	pthread_mutex_init(&run->mutex, NULL);
	pthread_cond_init(&run->changed, NULL);
	run->numbering.file = SIZE_MAX;
	if (set_up(run) == 0)
		return 0;
	pfw_pass_close(run);
	*out = NULL;
	return -ENOMEM;
}

int pfw_pass_go(struct pfw_pass_run *run)
{
	const struct pfw_pass *pass = run->pass;

	run->paused = false;
	pfw_pool_each(run->jobs, work, run);
	if (run->error)
		return run->error;
	if (run->paused)
		return PFW_PASS_PAUSE;
	/* blocks that were not wanted */
	if (!run->unreadable && run->told < run->all && pass->progress)
		pass->progress(pass->user, run->all, run->all);
	return run->unreadable ? -EIO : 0;
}

void pfw_pass_close(struct pfw_pass_run *run)
{
	if (!run)
		return;
	tear_down(run);
	pthread_cond_destroy(&run->changed);
	pthread_mutex_destroy(&run->mutex);
	free(run);
}

int pfw_pass_run(const struct pfw_pass *pass)
{
	struct pfw_pass_run *run;
	int error = pfw_pass_open(&run, pass);

	while (!error && (error = pfw_pass_go(run)) == PFW_PASS_PAUSE)
		error = 0;
	pfw_pass_close(run);
	return error;
}

int pfw_pass_text(const struct pfw_pass *pass, size_t file, const char *text, size_t bytes)
{
	static const struct pfw_block nowhere;
	struct pfw_problems problems = { 0 };
	struct pfw_pass_block block = {
		.file = file,
		.block = &nowhere,
		.text = text,
		.bytes = bytes,
		.problems = &problems,
		.last = true,
		.processes = pass->traces->file[file].processes,
	};
	int error = pfw_pass_work(pass, 0, &block);

	for (size_t i = 0; pass->problem && i < problems.count; i++)
		pass->problem(pass->user, file, &problems.problem[i]);
	pfw_problems_free(&problems);
	if (!error)
		error = pass->done(pass->user, &block);
	pfw_pass_drop_result(pass, &block);
	return error;
}
