/* pass.c - one pass over the lines of many traces; see pass.h.
 *
 * Blocks are taken in order, each with the next slot of a ring; whoever has finished one gives all
 * that are finished in a row from the oldest on to done().  A slot is free again behind its done(),
 * so what is worked on ahead is bounded by the ring.
 */
#include "pass.h"

#include <errno.h>
#include <inttypes.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cpus.h"
#include "fetch.h"
#include "input.h"

#define JOBS_MAX 64u
/* Blocks in hand a thread: enough for the others to go on while one is late. */
#define SLOTS_PER_JOB 4u
/* A buffer that a long line has made larger is not kept. */
#define TEXT_KEPT (4u * PFW_BLOCK_TEXT)

enum slot_state { SLOT_FREE, SLOT_BUSY, SLOT_FINISHED };

struct slot {
	enum slot_state state;
	struct pfw_pass_block block;
	struct pfw_block place;	     /* block.block of a STREAM */
	struct pfw_problems lines;   /* of its lines */
	struct pfw_problems behind;  /* told behind these */
	struct pfw_points points;    /* made while it was read */
	struct pfw_fetched *fetched; /* NULL: given back */
	struct pfw_fetched own;	     /* memory of one of them: see run->spare */
	uint64_t progress;	     /* bytes of the files from the slot before to its end */
	int error;		     /* what work() said, or -ENOMEM */
	bool fetch, worked, unreadable;
};

/* What is open of a file. */
struct opened {
	int fd; /* -1: not open */
	unsigned users;
	bool left; /* by the cursor: the last user closes it */
};

/* Where line numbers are known: as long as no block of the file was left out. */
struct numbering {
	size_t file, number;
	uint64_t lines;
	bool known;
};

struct run {
	const struct pfw_pass *pass;
	pthread_mutex_t mutex; /* over all below but `numbering`, `told` (the drainer's) and slots in
				* the hand of a thread */
	pthread_cond_t changed;
	struct slot *slot;
	unsigned slots, jobs;
	struct pfw_fetched **spare; /* a stack, so that the memory used last is used next */
	unsigned spares;
	uint64_t taken, finished;
	size_t file, number; /* the cursor: what is taken next */
	uint64_t passed;     /* bytes of blocks that were not wanted, since the last slot */
	struct opened *opened;
	struct pfw_stream stream;
	bool streaming; /* stream is open */
	bool by_points; /* the cursor's file is a STREAM whose wanted blocks are read from points */
	bool reading;	/* by a thread that has not the mutex */
	bool draining;
	bool ended;
	int error;
	bool unreadable;
	uint64_t told, all; /* progress */
	struct numbering numbering;
};

struct thread {
	struct run *run;
	unsigned worker;
	pthread_t id;
};

unsigned pfw_pass_jobs(unsigned jobs)
{
	if (!jobs)
		jobs = pfw_cpus();
	return jobs > JOBS_MAX ? JOBS_MAX : jobs;
}

/* ---- taking the next block; all with the mutex ---- */

static void end_run(struct run *run, int error)
{
	if (!run->ended)
		run->error = error;
	run->ended = true;
	pthread_cond_broadcast(&run->changed);
}

static struct slot *new_slot(struct run *run)
{
	struct slot *slot = &run->slot[run->taken++ % run->slots];

	slot->state = SLOT_BUSY;
	slot->block = (struct pfw_pass_block){ .file = run->file, .problems = &slot->lines };
	slot->fetched = run->spare[--run->spares];
	slot->fetched->text.bytes = slot->fetched->begin = 0;
	slot->fetched->at = 0;
	slot->error = 0;
	slot->fetch = slot->worked = slot->unreadable = false;
	slot->progress = run->passed;
	run->passed = 0;
	return slot;
}

static void give_text_back(struct run *run, struct slot *slot)
{
	if (!slot->fetched)
		return;
	if (slot->fetched->text.room > TEXT_KEPT)
		pfw_text_free(&slot->fetched->text);
	run->spare[run->spares++] = slot->fetched;
	slot->fetched = NULL;
}

static void close_unused(struct opened *opened)
{
	if (opened->fd < 0 || opened->users || !opened->left)
		return;
	close(opened->fd);
	opened->fd = -1;
}

static void next_file(struct run *run)
{
	if (run->by_points)
		run->passed += run->pass->traces->file[run->file].blocks.file_bytes;
	run->by_points = false;
	run->opened[run->file].left = true;
	close_unused(&run->opened[run->file]);
	run->file++;
	run->number = 0;
}

/* A slot that only says why the cursor's file cannot be read; the cursor leaves it. */
static struct slot *unreadable(struct run *run, int error)
{
	struct slot *slot = new_slot(run);

	pfw_problems_add(&slot->behind, 0, 0, "cannot be opened: %s", strerror(-error));
	slot->unreadable = true;
	next_file(run);
	return slot;
}

/* The next block of a file whose blocks are known, or NULL: none is wanted any more. */
static struct slot *take_block(struct run *run)
{
	const struct pfw_pass *pass = run->pass;
	const struct pfw_trace_file *file = &pass->traces->file[run->file];
	struct opened *opened = &run->opened[run->file];
	const struct pfw_block *block;
	struct slot *slot;

	for (;; run->number++) {
		if (run->number == file->blocks.count)
			return NULL;
		block = &file->blocks.block[run->number];
		if (!pass->want || pass->want(pass->user, run->file, block))
			break;
		if (file->blocks.layout != PFW_LAYOUT_STREAM)
			run->passed += block->bytes;
	}
	if (opened->fd < 0) {
		opened->fd = pfw_input_open_fd(file->path);
		if (opened->fd < 0)
			return unreadable(run, opened->fd);
	}
	slot = new_slot(run);
	slot->fetch = true;
	slot->block.number = run->number++;
	slot->block.block = block;
	/* Of a STREAM the block's bytes are those of the text. */
	slot->progress += file->blocks.layout == PFW_LAYOUT_STREAM ? 0 : block->bytes;
	opened->users++;
	return slot;
}

static int open_stream(struct run *run)
{
	int error = pfw_input_open(&run->stream.input, run->pass->traces->file[run->file].path);

	run->streaming = !error;
	if (!error && run->pass->point)
		error = pfw_input_make_points(run->stream.input);
	return error;
}

/* The block of an index that the one just read is. */
static const struct pfw_block *known_block(const struct run *run, const struct pfw_block *place)
{
	const struct pfw_blocks *blocks = &run->pass->traces->file[run->file].blocks;
	const struct pfw_block *known;

	if (run->number >= blocks->count)
		return place;
	known = &blocks->block[run->number];
	return known->at == place->at && known->bytes == place->bytes ? known : place;
}

/* The next block of a file that is read in order.  Lets the mutex go while it reads. */
static struct slot *take_streamed(struct run *run)
{
	int error = run->streaming ? 0 : open_stream(run);
	struct pfw_stream *stream = &run->stream;
	struct slot *slot;
	uint64_t before;

	if (error)
		return unreadable(run, error);
	slot = new_slot(run);
	slot->block.number = run->number;
	slot->block.block = &slot->place;
	slot->place = (struct pfw_block){ .at = stream->at };
	slot->fetched->at = stream->at;
	before = pfw_input_at(stream->input);
	run->reading = true;
	pthread_mutex_unlock(&run->mutex);
	error = pfw_stream_read(stream, &slot->fetched->text, PFW_BLOCK_TEXT, &slot->behind);
	pthread_mutex_lock(&run->mutex);
	run->reading = false;
	slot->progress += pfw_input_at(stream->input) - before;
	slot->place.bytes = slot->fetched->text.bytes;
	slot->block.block = known_block(run, &slot->place);
	pfw_input_take_points(stream->input, &slot->points);
	run->number += slot->place.bytes != 0;
	slot->unreadable = error && error != -ENOMEM;
	slot->error = error == -ENOMEM ? error : 0;
	if (error || stream->ended) {
		pfw_stream_close(stream);
		run->streaming = false;
		next_file(run);
	}
	pthread_cond_broadcast(&run->changed);
	return slot;
}

/* Whether to read the wanted blocks of a STREAM from the points before them: where they are few,
 * since threads that read from points read a part of the text each for itself. */
static bool pays_by_points(const struct pfw_pass *pass, size_t number)
{
	const struct pfw_blocks *blocks = &pass->traces->file[number].blocks;
	uint64_t wanted = 0, all = 0;

	if (blocks->layout != PFW_LAYOUT_STREAM || !blocks->points.count || !pass->want)
		return false;
	for (size_t i = 0; i < blocks->count; i++) {
		all += blocks->block[i].bytes;
		if (pass->want(pass->user, number, &blocks->block[i]))
			wanted += blocks->block[i].bytes;
	}
	return wanted < all / 4;
}

static bool is_streamed(const struct run *run)
{
	return run->pass->traces->file[run->file].blocks.layout == PFW_LAYOUT_STREAM &&
	       !run->by_points;
}

/* The next slot to work on, or NULL at the end. */
static struct slot *take(struct run *run)
{
	const struct pfw_pass *pass = run->pass;

	for (;;) {
		struct slot *slot = NULL;

		if (pass->stop && *pass->stop)
			end_run(run, -EINTR);
		if (run->ended)
			return NULL;
		if (run->reading || run->taken - run->finished == run->slots) {
			pthread_cond_wait(&run->changed, &run->mutex);
			continue;
		}
		if (run->file == pass->traces->count)
			return NULL;
		if (run->number == 0)
			run->by_points = pays_by_points(pass, run->file);
		if (is_streamed(run))
			return take_streamed(run);
		slot = take_block(run);
		if (slot)
			return slot;
		next_file(run);
	}
}

/* ---- working on it; without the mutex ---- */

/* What a member's header says of its lines.  Times may be cut to whole µs in the text. */
static void check_summary(struct slot *slot)
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
	else if (block->least_ns <= block->greatest_ns &&
		 (block->least_ns < place->least_ns - 1000 ||
		  block->greatest_ns > place->greatest_ns))
		pfw_problems_add(&slot->behind, 0, place->at,
				 "the header of this gzip member says times that are not those of "
				 "its lines");
}

/* Lines are taken apart ahead of the end of the text. */
static int end_text(struct pfw_text *text)
{
	int error = pfw_text_room(text, text->bytes + PFW_ENTRY_PADDING);

	if (!error)
		memset(text->data + text->bytes, 0, PFW_ENTRY_PADDING);
	return error;
}

static int fetch_slot(const struct run *run, struct pfw_fetch *fetch, struct slot *slot)
{
	const struct pfw_trace_file *file = &run->pass->traces->file[slot->block.file];

	if (file->blocks.layout == PFW_LAYOUT_STREAM)
		return pfw_fetch_streamed(fetch, file->path, &file->blocks.points,
					  slot->block.block, slot->fetched, &slot->behind);
	return pfw_fetch_block(fetch, file->path, run->opened[slot->block.file].fd,
			       file->blocks.layout, slot->block.block, slot->fetched,
			       &slot->behind);
}

static void work_on(struct run *run, unsigned worker, struct pfw_fetch *fetch, struct slot *slot)
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
	    (slot->fetch ? !slot->unreadable || block->bytes
			 : block->bytes && (!pass->want ||
					    pass->want(pass->user, block->file, block->block)))) {
		slot->worked = true;
		error = pass->work(pass->user, worker, block);
		if (file->blocks.layout == PFW_LAYOUT_MEMBERS)
			check_summary(slot);
	}
	slot->error = error;
}

/* ---- in order again ---- */

/* The number of the first line of this block less one; false: it is not known. */
static bool number_lines(struct numbering *numbering, const struct slot *slot, uint64_t *base)
{
	const struct pfw_pass_block *block = &slot->block;

	if (numbering->file != block->file)
		*numbering = (struct numbering){ .file = block->file, .known = block->number == 0 };
	if (numbering->number != block->number)
		numbering->known = false;
	*base = numbering->lines;
	return numbering->known;
}

static void tell(struct run *run, struct slot *slot)
{
	const struct pfw_pass *pass = run->pass;
	struct numbering *numbering = &run->numbering;
	const struct pfw_pass_block *block = &slot->block;
	uint64_t base;
	bool known = number_lines(numbering, slot, &base);
	bool in_place = pass->traces->file[block->file].blocks.layout != PFW_LAYOUT_MEMBERS;

	for (size_t i = 0; i < slot->lines.count; i++) {
		struct pfw_scan_problem *problem = &slot->lines.problem[i];

		problem->line = known ? base + problem->line : 0;
		if (!in_place) /* the place in its member is no place in the file */
			problem->at = block->block->at;
		if (pass->problem)
			pass->problem(pass->user, block->file, problem);
	}
	for (size_t i = 0; i < slot->behind.count; i++) {
		struct pfw_scan_problem *problem = &slot->behind.problem[i];

		if (problem->line) {
			problem->line = known && (block->walked || !block->bytes)
						? base + block->lines + problem->line
						: 0;
			/* It counts as a line, though it was not given. */
			numbering->lines++;
		}
		if (pass->problem)
			pass->problem(pass->user, block->file, problem);
	}
	numbering->lines += block->lines;
	numbering->known = known && (block->walked || !block->bytes);
	numbering->number = block->number + (slot->fetch || block->bytes);
}

static void drop_result(const struct pfw_pass *pass, struct pfw_pass_block *block)
{
	if (block->result && pass->drop)
		pass->drop(pass->user, block->result);
	else
		free(block->result);
	block->result = NULL;
}

static int finish(struct run *run, struct slot *slot)
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
	error = slot->worked && pass->done ? pass->done(pass->user, &slot->block) : 0;
	if (pass->done)
		slot->block.result = NULL; /* it has freed it */
	drop_result(pass, &slot->block);
	run->told += slot->progress;
	if (!error && pass->progress)
		pass->progress(pass->user, run->told, run->all);
	return error;
}

/* Give what is finished to done(), in order.  With the mutex, let go meanwhile. */
static void drain(struct run *run)
{
	if (run->draining)
		return;
	run->draining = true;
	while (!run->ended && run->finished < run->taken) {
		struct slot *slot = &run->slot[run->finished % run->slots];
		int error;

		if (slot->state != SLOT_FINISHED)
			break;
		pthread_mutex_unlock(&run->mutex);
		error = finish(run, slot);
		pthread_mutex_lock(&run->mutex);
		run->unreadable |= slot->unreadable;
		give_text_back(run, slot);
		slot->lines.count = slot->behind.count = 0;
		if (error) {
			end_run(run, error);
			break;
		}
		slot->state = SLOT_FREE;
		run->finished++;
		pthread_cond_broadcast(&run->changed);
	}
	run->draining = false;
}

/* ---- threads ---- */

static void *work(void *argument)
{
	struct thread *thread = argument;
	struct run *run = thread->run;
	struct pfw_fetch fetch = { 0 };
	struct slot *slot;

	pthread_mutex_lock(&run->mutex);
	while ((slot = take(run))) {
		struct opened *opened = &run->opened[slot->block.file];

		pthread_mutex_unlock(&run->mutex);
		work_on(run, thread->worker, &fetch, slot);
		pthread_mutex_lock(&run->mutex);
		if (!run->pass->keep_text)
			give_text_back(run, slot);
		if (slot->fetch) {
			opened->users--;
			close_unused(opened);
		}
		slot->state = SLOT_FINISHED;
		drain(run);
	}
	pthread_mutex_unlock(&run->mutex);
	pfw_fetch_free(&fetch);
	return NULL;
}

/* More threads than blocks would find nothing to do. */
static unsigned threads_for(const struct pfw_pass *pass)
{
	unsigned jobs = pfw_pass_jobs(pass->jobs);
	uint64_t blocks = 0;

	for (size_t i = 0; i < pass->traces->count; i++) {
		const struct pfw_blocks *file = &pass->traces->file[i].blocks;

		blocks += file->layout == PFW_LAYOUT_STREAM ? jobs : file->count;
	}
	return blocks && blocks < jobs ? (unsigned)blocks : jobs;
}

static int set_up(struct run *run)
{
	const struct pfw_traces *traces = run->pass->traces;

	run->jobs = threads_for(run->pass);
	run->slots = run->jobs * SLOTS_PER_JOB;
	run->slot = calloc(run->slots, sizeof(*run->slot));
	run->spare = calloc(run->slots, sizeof(*run->spare));
	run->opened = calloc(traces->count + 1, sizeof(*run->opened));
	if (!run->slot || !run->spare || !run->opened)
		return -ENOMEM;
	for (unsigned i = 0; i < run->slots; i++)
		run->spare[run->spares++] = &run->slot[i].own;
	for (size_t i = 0; i < traces->count; i++) {
		run->opened[i].fd = -1;
		run->all += traces->file[i].blocks.file_bytes;
	}
	return 0;
}

static void tear_down(struct run *run)
{
	const struct pfw_pass *pass = run->pass;

	if (run->streaming)
		pfw_stream_close(&run->stream);
	for (unsigned i = 0; run->slot && i < run->slots; i++) {
		struct slot *slot = &run->slot[i];

		drop_result(pass, &slot->block);
		pfw_problems_free(&slot->lines);
		pfw_problems_free(&slot->behind);
		pfw_points_free(&slot->points);
		pfw_text_free(&slot->own.text);
	}
	for (size_t i = 0; run->opened && i < pass->traces->count; i++) {
		run->opened[i].users = 0;
		run->opened[i].left = true;
		close_unused(&run->opened[i]);
	}
	free(run->slot);
	free(run->spare);
	free(run->opened);
}

/* Signals are for the thread that the command runs in.  Fewer threads than wanted will do. */
static unsigned start_threads(struct run *run, struct thread *thread)
{
	sigset_t all, before;
	unsigned count = 1;

	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	for (; count < run->jobs; count++) {
		thread[count] = (struct thread){ .run = run, .worker = count };
		if (pthread_create(&thread[count].id, NULL, work, &thread[count]))
			break;
	}
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	return count;
}

int pfw_pass_run(const struct pfw_pass *pass)
{
	struct run run = { .pass = pass,
			   .mutex = PTHREAD_MUTEX_INITIALIZER,
			   .changed = PTHREAD_COND_INITIALIZER,
			   .numbering = { .file = SIZE_MAX } };
	struct thread thread[JOBS_MAX] = { { .run = &run } };
	int error = set_up(&run);

	if (!error) {
		unsigned count = start_threads(&run, thread);

		work(&thread[0]);
		while (--count)
			pthread_join(thread[count].id, NULL);
		error = run.error ? run.error : run.unreadable ? -EIO : 0;
		if (!error && run.told < run.all && pass->progress) /* what was not wanted */
			pass->progress(pass->user, run.all, run.all);
	}
	tear_down(&run);
	return error;
}

int pfw_pass_text(const struct pfw_pass *pass, size_t file, const char *text, size_t bytes)
{
	static const struct pfw_block nowhere;
	struct pfw_problems problems = { 0 };
	struct pfw_pass_block block = {
		.file = file, .block = &nowhere, .text = text, .bytes = bytes, .problems = &problems
	};
	int error = pass->work(pass->user, 0, &block);

	for (size_t i = 0; pass->problem && i < problems.count; i++)
		pass->problem(pass->user, file, &problems.problem[i]);
	pfw_problems_free(&problems);
	if (!error)
		return pass->done(pass->user, &block);
	drop_result(pass, &block);
	return error;
}
