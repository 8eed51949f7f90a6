/* store/pass/take.c - takes the next block of a pass; see pass.h.
 *
 * One cursor goes through the files.  The text of a file that must be read in order is read here,
 * by one thread at a time.
 */
#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "store/pass/internal.h"
#include "store/read/input.h"

/* A larger buffer, made for a long line, is not kept. */
#define TEXT_KEPT (4u * PFW_BLOCK_TEXT)

void pfw_pass_end(struct pfw_pass_run *run, int error)
{
	if (!run->ended)
		run->error = error;
	run->ended = true;
	pthread_cond_broadcast(&run->changed);
}

static struct pass_slot *new_slot(struct pfw_pass_run *run)
{
	struct pass_slot *slot = &run->slot[run->taken++ % run->slots];

	slot->state = SLOT_BUSY;
	slot->block = (struct pfw_pass_block){ .file = run->file, .problems = &slot->lines };
	slot->error = 0;
	slot->fetch = slot->worked = slot->unreadable = false;
	slot->progress = run->passed;
	run->passed = 0;
	return slot;
}

/* The slots whose text a thread has are no more than the buffers: others have none. */
static struct pass_slot *get_text(struct pfw_pass_run *run, struct pass_slot *slot)
{
	slot->fetched = run->spare[--run->spares];
	slot->fetched->text.bytes = slot->fetched->begin = 0;
	slot->fetched->at = 0;
	return slot;
}

void pfw_pass_give_text(struct pfw_pass_run *run, struct pass_slot *slot)
{
	if (!slot->fetched)
		return;
	if (slot->fetched->text.room > TEXT_KEPT)
		pfw_buffer_free(&slot->fetched->text);
	run->spare[run->spares++] = slot->fetched;
	slot->fetched = NULL;
}

void pfw_pass_close_unused(struct pass_opened *opened)
{
	if (opened->fd < 0 || opened->users || !opened->left)
		return;
	close(opened->fd);
	opened->fd = -1;
}

static void next_file(struct pfw_pass_run *run)
{
	if (run->by_points)
		run->passed += run->pass->traces->file[run->file].blocks.file_bytes;
	run->by_points = false;
	run->opened[run->file].left = true;
	pfw_pass_close_unused(&run->opened[run->file]);
	run->file++;
	run->number = 0;
}

/* A slot that only reports why the cursor's file cannot be read. */
static struct pass_slot *unreadable(struct pfw_pass_run *run, int error)
{
	struct pass_slot *slot = new_slot(run);

	pfw_problems_add(&slot->behind, 0, 0, PFW_PROBLEM_CANNOT "opened: %s", strerror(-error));
	slot->unreadable = true;
	next_file(run);
	return slot;
}

/* Find the next wanted block of a file whose blocks are known; NULL: none. */
static const struct pfw_block *find_block(struct pfw_pass_run *run)
{
	const struct pfw_pass *pass = run->pass;
	const struct pfw_blocks *blocks = &pass->traces->file[run->file].blocks;

	for (; run->number < blocks->count; run->number++) {
		const struct pfw_block *block = &blocks->block[run->number];

		if (pfw_pass_wants(pass, run->file, block))
			return block;
		if (blocks->layout != PFW_LAYOUT_STREAM)
			run->passed += block->bytes;
	}
	return NULL;
}

/* Take the block that was found. */
static struct pass_slot *take_block(struct pfw_pass_run *run, const struct pfw_block *block)
{
	const struct pfw_trace_file *file = &run->pass->traces->file[run->file];
	struct pass_opened *opened = &run->opened[run->file];
	struct pass_slot *slot;

	if (opened->fd < 0) {
		opened->fd = pfw_input_open_fd(file->path);
		if (opened->fd < 0)
			return unreadable(run, opened->fd);
	}
	slot = new_slot(run);
	slot->fetch = true;
	slot->block.number = run->number++;
	slot->block.block = block;
	/* In a STREAM the block's bytes are bytes of the text. */
	slot->progress += file->blocks.layout == PFW_LAYOUT_STREAM ? 0 : block->bytes;
	opened->users++;
	return slot;
}

static int open_stream(struct pfw_pass_run *run)
{
	int error = pfw_input_open(&run->stream.input, run->pass->traces->file[run->file].path);

	run->streaming = !error;
	if (!error && run->pass->point)
		error = pfw_input_make_points(run->stream.input);
	return error;
}

/* The index's block at this place, or `place`. */
static const struct pfw_block *known_block(const struct pfw_pass_run *run,
					   const struct pfw_block *place)
{
	const struct pfw_blocks *blocks = &run->pass->traces->file[run->file].blocks;
	const struct pfw_block *known;

	if (run->number >= blocks->count)
		return place;
	known = &blocks->block[run->number];
	return known->at == place->at && known->bytes == place->bytes ? known : place;
}

/* The next block of a file that is read in order.  Releases the mutex while it reads. */
static struct pass_slot *take_streamed(struct pfw_pass_run *run)
{
	int error = run->streaming ? 0 : open_stream(run);
	struct pfw_stream *stream = &run->stream;
	struct pass_slot *slot;
	uint64_t before;

	if (error)
		return unreadable(run, error);
	slot = get_text(run, new_slot(run));
	slot->block.last = true;
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

/* Whether to read the wanted blocks of a STREAM from seek points: only if they are under a quarter
 * of the text, since threads that seek inflate overlapping parts. */
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

static bool is_streamed(const struct pfw_pass_run *run)
{
	return run->pass->traces->file[run->file].blocks.layout == PFW_LAYOUT_STREAM &&
	       !run->by_points;
}

/* Take the block that was found, and those of its group for the same worker. */
static void take_group(struct pfw_pass_run *run, struct pass_group *group,
		       const struct pfw_block *block)
{
	const struct pfw_pass *pass = run->pass;
	size_t file = run->file;
	struct pass_slot *slot;

	group->next = run->taken;
	if (pass->joins)
		pass->joins(pass->user, file, block, true);
	do {
		slot = take_block(run, block);
	} while (pass->joins && run->file == file && (block = find_block(run)) &&
		 run->taken - group->next < run->together &&
		 run->taken - run->finished < run->slots &&
		 pass->joins(pass->user, file, block, false));
	slot->block.last = true;
	group->end = run->taken;
}

static bool has_ended(struct pfw_pass_run *run)
{
	if (run->pass->stop && *run->pass->stop)
		pfw_pass_end(run, -EINTR);
	return run->ended;
}

/* Wait for a free slot, if there is none; false: the pass has ended, or pauses. */
static bool may_take(struct pfw_pass_run *run)
{
	for (;;) {
		if (has_ended(run) || run->paused || run->file == run->pass->traces->count)
			return false;
		if (!run->reading && run->taken - run->finished < run->slots)
			return true;
		pthread_cond_wait(&run->changed, &run->mutex);
	}
}

struct pass_slot *pfw_pass_take(struct pfw_pass_run *run, unsigned worker)
{
	struct pass_group *group = &run->group[worker];

	while (group->next == group->end) {
		const struct pfw_block *block;

		if (!may_take(run))
			return NULL;
		if (run->number == 0)
			run->by_points = pays_by_points(run->pass, run->file);
		if (is_streamed(run))
			return take_streamed(run);
		block = find_block(run);
		if (block)
			take_group(run, group, block);
		else
			next_file(run);
	}
	return has_ended(run) ? NULL : get_text(run, &run->slot[group->next++ % run->slots]);
}
