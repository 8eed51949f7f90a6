/* tools/overlap/windows.c - takes the middle of windows from indexes; see overlap.h. */
#include <errno.h>
#include <stdlib.h>

#include "overlap/overlap.h"
#include "share/select_args.h"
#include "store/index/index.h"
#include "store/overlap/window.h"

/* Whether times, and ranks, are all that lines are selected by. */
static bool is_window(const struct overlap_options *options)
{
	struct pfw_select reach = options->reach;

	reach.since.kind = reach.until.kind = PFW_TIME_NONE;
	return options->reach.times && !options->survey.no_index && !options->compute.name.count &&
	       !options->bin_ns && !select_args_but_rank(&reach);
}

/* With fewer blocks in the window, the index takes longer than they do. */
#define BLOCKS_LEAST 4u

static bool has_blocks(const struct pfw_blocks *blocks, const struct pfw_select_window *window)
{
	size_t inside = 0;

	for (size_t i = 0; i < blocks->count && inside < BLOCKS_LEAST; i++)
		inside += blocks->block[i].least_ns >= window->since_ns &&
			  blocks->block[i].greatest_ns < window->until_ns;
	return inside == BLOCKS_LEAST;
}

static int find_window(struct overlap_rank *rank, const struct pfw_select_window *window,
		       const struct pfw_trace_file *file)
{
	struct pfw_index *index;
	int error = has_blocks(&file->blocks, window) ? pfw_index_of(&index, file) : -ENOENT;

	if (error)
		return error;
	error = pfw_index_has_blocks(index, &file->blocks) ? 0 : -ENOENT;
	error = error ? error
		      : pfw_overlap_window_open(&rank->window, index, window->since_ns,
						window->until_ns);
	pfw_index_close(index);
	return error ? error : pfw_overlap_use_window(&rank->overlap, rank->window);
}

int overlap_find_windows(struct overlap *overlap, const struct overlap_options *options,
			 const struct survey_input *input)
{
	int error = 0;

	for (size_t i = 0; i < overlap->ranks && is_window(options) && !error; i++) {
		struct overlap_rank *rank = &overlap->rank[i];
		const struct pfw_trace_file *file = &input->traces.file[rank->last];

		if (rank->files != 1 || file->partial || input->live.live[rank->last])
			continue;
		if (find_window(rank, &options->reach.window[rank->last], file) == -ENOMEM)
			error = -ENOMEM;
	}
	return error;
}

bool overlap_skips(const struct overlap *overlap, const struct survey_input *input, size_t file,
		   const struct pfw_block *block)
{
	const struct overlap_rank *rank = &overlap->rank[overlap->rank_of[file]];
	size_t number = (size_t)(block - input->traces.file[file].blocks.block);

	return (rank->window && rank->window->skip[number]) || overlap_series_skips(rank, number);
}

static void forget(struct overlap_rank *rank)
{
	pfw_overlap_window_close(rank->window);
	rank->window = NULL;
}

bool overlap_undo_windows(struct overlap *overlap)
{
	bool misfit = false;

	for (size_t i = 0; i < overlap->ranks; i++)
		misfit |= overlap->rank[i].overlap.misfit;
	for (size_t i = 0; i < overlap->ranks; i++) {
		forget(&overlap->rank[i]);
		if (misfit && !overlap->rank[i].indexed)
			pfw_overlap_release(&overlap->rank[i].overlap);
	}
	return misfit;
}
