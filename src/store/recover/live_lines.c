/* store/recover/live_lines.c - reads lines that are not written yet; see live_lines.h. */
#include "store/recover/live_lines.h"

#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include "store/recover/recover.h"
#include "store/recover/unwritten.h"

/* Drop the blocks, and the part of a block, from `end` on: a line and a gzip member begin there. */
static void cut(struct pfw_blocks *blocks, uint64_t end)
{
	struct pfw_block *last;

	while (blocks->count && blocks->block[blocks->count - 1].at >= end)
		blocks->count--;
	blocks->file_bytes = end;
	if (!blocks->count)
		return;
	last = &blocks->block[blocks->count - 1];
	if (last->bytes > end - last->at)
		last->bytes = end - last->at;
}

/* The first line of a trace names its spool, so no directory needs to be searched. */
static const char *const no_dir[] = { NULL };
static const struct pfw_spool_places nowhere = { .dir = no_dir };

/* Lines that were written after the blocks were found are no longer in the rings: find the blocks
 * again. 0 or -errno. */
static int catch_up(struct pfw_trace_file *file, uint64_t end)
{
	struct pfw_blocks blocks;
	int error;

	if (end <= file->blocks.file_bytes)
		return 0;
	error = pfw_blocks_find(&blocks, file->path);
	if (error)
		return error;
	pfw_blocks_free(&file->blocks);
	file->blocks = blocks;
	file->due = false;
	return 0;
}

int pfw_live_lines_open(struct pfw_live_lines *lines)
{
	lines->live = calloc(lines->traces->count + 1, sizeof(*lines->live));
	if (!lines->live)
		return -ENOMEM;
	for (size_t i = 0; i < lines->traces->count; i++) {
		struct pfw_trace_file *file = &lines->traces->file[i];
		char why[PFW_LIVE_WHY_BYTES], text[PFW_LIVE_WHY_BYTES + 64];

		/* A compacted file has no writer; a partial's traces need not be on this host. */
		if (file->partial || !file->head.ours || file->blocks.layout == PFW_LAYOUT_STREAM ||
		    file->ranks)
			continue;
		if (pfw_unwritten_open(&lines->live[i], file->path, &nowhere, why) == 0) {
			int error = catch_up(file, pfw_unwritten_offset(lines->live[i]));

			if (error)
				return error;
			cut(&file->blocks, pfw_unwritten_offset(lines->live[i]));
			lines->any = true;
			continue;
		}
		lines->live[i] = NULL;
		if (!*why)
			continue;
		snprintf(text, sizeof(text), "what its process has not written is missing: %s",
			 why);
		lines->say(lines->user, file->path, text);
		lines->missing = true;
	}
	return 0;
}

int pfw_live_lines_read(struct pfw_live_lines *lines, const _Atomic bool *stop,
			int (*take)(void *user, size_t file, const char *text, size_t bytes),
			void *user)
{
	const char *text;
	size_t bytes;
	int error = 0;

	for (size_t i = 0; i < lines->traces->count && !error; i++) {
		while (lines->live[i] && !error && !*stop &&
		       (bytes = pfw_unwritten_next(lines->live[i], &text)))
			error = take(user, i, text, bytes);
	}
	return error;
}

static int take_as_block(void *user, size_t file, const char *text, size_t bytes)
{
	const struct pfw_pass *const *pass = user;

	return pfw_pass_text(*pass, file, text, bytes);
}

int pfw_live_lines_pass(struct pfw_live_lines *lines, const struct pfw_pass *pass)
{
	return pfw_live_lines_read(lines, pass->stop, take_as_block, &pass);
}

int pfw_live_lines_more(void *user,
			int (*take)(void *search, size_t file, const char *text, size_t bytes),
			void *search)
{
	const struct pfw_live_lines *lines = user;
	char why[PFW_LIVE_WHY_BYTES];
	int error = 0;

	for (size_t i = 0; lines->live && i < lines->traces->count && !error; i++) {
		struct pfw_unwritten *live = NULL;
		const char *text;
		size_t bytes;

		/* A process that has ended since pfw_live_lines_open() has written its lines to the
		 * file, after the part that is read.  The lines are still in lines->live, but
		 * their times are not found here. */
		if (!lines->live[i] ||
		    pfw_unwritten_open(&live, lines->traces->file[i].path, &nowhere, why) != 0)
			continue;
		while (!error && (bytes = pfw_unwritten_next(live, &text)))
			error = take(search, i, text, bytes);
		pfw_unwritten_close(live);
	}
	return error;
}

void pfw_live_lines_close(struct pfw_live_lines *lines)
{
	for (size_t i = 0; lines->live && i < lines->traces->count; i++) {
		if (lines->live[i])
			pfw_unwritten_close(lines->live[i]);
	}
	free(lines->live);
	lines->live = NULL;
}
