/* store/pass/parts.c - gives a block of several ranks to a pass once for each rank; see pass.h. */
#include <errno.h>
#include <stdlib.h>

#include "store/kit/grow.h"
#include "store/pass/internal.h"
#include "store/traces/ranks.h"

bool pfw_pass_wants(const struct pfw_pass *pass, size_t file, const struct pfw_block *block)
{
	const struct pfw_ranks *ranks = pass->traces->file[file].ranks;

	if (!pass->want)
		return true;
	if (!ranks)
		return pass->want(pass->user, file, block);
	for (size_t i = 0; i < ranks->count; i++) {
		if (pass->want(pass->user, ranks->file[i], block))
			return true;
	}
	return false;
}

/* Add the next line of a part. */
static int add_line(struct pass_part *part, size_t begin, size_t end, uint64_t line)
{
	struct pfw_pass_piece *piece = part->piece;

	if (part->pieces && piece[part->pieces - 1].end == begin) {
		piece[part->pieces - 1].end = end;
		return 0;
	}
	return PFW_PUSH(part->piece, part->pieces, part->room,
			(struct pfw_pass_piece){ .begin = begin, .end = end, .line = line - 1 });
}

/* Find the part of each line, and report bad lines. */
static int find_pieces(struct pass_slot *slot, const struct pfw_ranks *ranks)
{
	struct pfw_pass_block *block = &slot->block;
	struct pfw_pass_lines lines;
	int error = 0;

	pfw_pass_lines_init(&lines, block);
	while (!error && pfw_pass_lines_next(&lines))
		error = add_line(&slot->part[pfw_ranks_of(ranks, &lines.entry)],
				 (size_t)(lines.text - block->text),
				 (size_t)(lines.next - block->text), block->lines);
	return error;
}

int pfw_pass_work_parts(const struct pfw_pass *pass, unsigned worker, struct pass_slot *slot)
{
	const struct pfw_ranks *ranks = pass->traces->file[slot->block.file].ranks;
	int error;

	slot->part = calloc(ranks->count, sizeof(*slot->part));
	if (!slot->part)
		return -ENOMEM;
	slot->parts = ranks->count;
	error = find_pieces(slot, ranks);
	for (size_t i = 0; i < ranks->count && !error; i++) {
		struct pass_part *part = &slot->part[i];

		if (!part->pieces ||
		    (pass->want && !pass->want(pass->user, ranks->file[i], slot->block.block)))
			continue;
		part->block = slot->block;
		part->block.file = ranks->file[i];
		part->block.traces = NULL;
		part->block.piece = part->piece;
		part->block.pieces = part->pieces;
		part->worked = true;
		error = pfw_pass_work(pass, worker, &part->block);
	}
	return error;
}

int pfw_pass_finish_parts(const struct pfw_pass *pass, struct pass_slot *slot)
{
	int error = 0, pause = 0;

	for (size_t i = 0; i < slot->parts && error >= 0 && pass->done; i++) {
		if (!slot->part[i].worked)
			continue;
		error = pass->done(pass->user, &slot->part[i].block);
		pause |= error == PFW_PASS_PAUSE;
	}
	return error < 0 ? error : pause;
}

void pfw_pass_free_parts(const struct pfw_pass *pass, struct pass_slot *slot)
{
	for (size_t i = 0; i < slot->parts; i++) {
		pfw_pass_drop_result(pass, &slot->part[i].block);
		free(slot->part[i].piece);
	}
	free(slot->part);
	slot->part = NULL;
	slot->parts = 0;
}
