/* tools/overlap/series.c - bins of time: of lines, or of an index and the blocks that bins cut.
 *
 * An index has the times of sets between marks (store/overlap/marks.h).  So the times up to the end of a
 * bin are those up to the mark behind it less what lines say until there.  A block of which no line is
 * needed lies in one bin.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/order.h"
#include "overlap/overlap.h"
#include "share/select_args.h"
#include "store/index/index.h"
#include "store/overlap/in_index.h"
#include "store/overlap/marks.h"

/* If it spares fewer blocks, the index takes longer than they do. */
#define BLOCKS_LEAST 2u

/* The end of a bin, and the stretch from it to the mark behind it. */
struct cut {
	int64_t at_ns, end_ns;
	size_t mark;		       /* so many marks are not behind the stretch */
	int64_t ns[OVERLAP_BIN_TIMES]; /* of the stretch */
};

struct overlap_series {
	struct pfw_overlap all; /* the whole rank, with marks */
	uint8_t *skip;		/* of each block */
	struct cut *cut;	/* bins - 1 */
	size_t cuts, next;	/* the first one whose stretch has not passed */
};

int overlap_series_lay_out(struct overlap_options *options, struct survey_input *input)
{
	struct pfw_extent extent;
	int64_t since = INT64_MAX, until = INT64_MIN;
	uint64_t width;
	int error = survey_extent(&options->survey, input, &extent);

	if (error)
		return error;
	for (size_t i = 0; options->reach.times && i < input->traces.count; i++) {
		const struct pfw_select_window *window = &options->reach.window[i];

		since = window->wanted && window->since_ns < since ? window->since_ns : since;
		until = window->wanted && window->until_ns > until ? window->until_ns : until;
	}
	if (options->reach.times && since > extent.least_ns)
		extent.least_ns = since;
	if (options->reach.times && until < extent.greatest_ns)
		extent.greatest_ns = until;
	if (extent.least_ns > extent.greatest_ns)
		extent.least_ns = extent.greatest_ns = 0;
	options->first_ns = extent.least_ns;
	/* A trace may claim times that lie further apart than a number holds: the last bin has the
	 * rest. */
	width = (uint64_t)extent.greatest_ns - (uint64_t)extent.least_ns;
	if (width > INT64_MAX - 1)
		width = INT64_MAX - 1;
	if (!options->bin_ns)
		options->bin_ns = (int64_t)(width / options->bins) + 1;
	options->bins = width / (uint64_t)options->bin_ns + 1;
	pfw_extent_free(&extent);
	return options->bins > OVERLAP_BINS_MAX ? -E2BIG : 0;
}

/* ---- bins ---- */

/* The bin of a time; times after the last bin, from lines in rings, are in the last one. */
static uint64_t bin_of(const struct overlap_options *options, int64_t ns)
{
	uint64_t bin = ns < options->first_ns ? 0
					      : ((uint64_t)ns - (uint64_t)options->first_ns) /
							(uint64_t)options->bin_ns;

	return bin < options->bins ? bin : options->bins - 1;
}

/* The end of a bin; the last one has none. */
static int64_t bin_end(const struct overlap_options *options, uint64_t bin)
{
	return bin + 1 == options->bins ? INT64_MAX
					: options->first_ns + (int64_t)(bin + 1) * options->bin_ns;
}

static void add_times(int64_t ns[OVERLAP_BIN_TIMES], unsigned set, int64_t more_ns)
{
	for (unsigned i = 0; i < OVERLAP_BIN_TIMES; i++)
		ns[i] += set & overlap_bin_sets[i] ? more_ns : 0;
}

static void tell(void *user, int64_t begin, int64_t end, unsigned set)
{
	struct overlap_rank *rank = user;

	for (uint64_t i = bin_of(rank->options, begin); begin < end; i++) {
		int64_t until = bin_end(rank->options, i);

		until = until < end ? until : end;
		add_times(rank->bin[i].ns, set, until - begin);
		begin = until;
	}
}

/* Of a series by an index: only the stretches count. */
static void tell_cuts(void *user, int64_t begin, int64_t end, unsigned set)
{
	struct overlap_series *series = ((struct overlap_rank *)user)->series;

	while (series->next < series->cuts && series->cut[series->next].end_ns <= begin)
		series->next++;
	for (size_t i = series->next; i < series->cuts && series->cut[i].at_ns < end; i++) {
		struct cut *cut = &series->cut[i];
		int64_t from = cut->at_ns > begin ? cut->at_ns : begin;
		int64_t until = cut->end_ns < end ? cut->end_ns : end;

		if (from < until)
			add_times(cut->ns, set, until - from);
	}
}

/* The bytes that a call has moved by that time, spread evenly. */
static uint64_t moved_by(const struct pfw_overlap_call *call, int64_t ns)
{
	return ns >= call->end
		       ? call->bytes
		       : (uint64_t)((unsigned __int128)call->bytes * (uint64_t)(ns - call->begin) /
				    (uint64_t)(call->end - call->begin));
}

void overlap_series_call(struct overlap_rank *rank, const struct pfw_overlap_call *call)
{
	uint64_t bin = bin_of(rank->options, call->begin), before = 0;

	rank->bin[bin].io_calls++;
	for (; before < call->bytes; bin++) {
		uint64_t moved = moved_by(call, bin_end(rank->options, bin));

		rank->bin[bin].io_bytes += moved - before;
		before = moved;
	}
}

int overlap_series_begin(struct overlap_rank *rank)
{
	if (!rank->options->bin_ns || rank->bin)
		return 0;
	rank->bin = calloc(rank->options->bins, sizeof(*rank->bin));
	rank->overlap.tell = rank->series ? tell_cuts : tell;
	rank->overlap.user = rank;
	return rank->bin ? 0 : -ENOMEM;
}

void overlap_series_release(struct overlap_rank *rank)
{
	if (rank->series) {
		pfw_overlap_release(&rank->series->all);
		free(rank->series->skip);
		free(rank->series->cut);
		free(rank->series);
		rank->series = NULL;
	}
	free(rank->bin);
	rank->bin = NULL;
}

/* ---- from an index ---- */

/* Make the cut behind a bin, with the mark behind it, so that the stretches are in order. */
static struct cut make_cut(const struct overlap_options *options, const struct pfw_overlap *all,
			   uint64_t bin)
{
	const struct pfw_overlap_marks *marks = all->marks;
	struct cut cut = { .at_ns = bin_end(options, bin) };

	cut.end_ns = cut.at_ns;
	if (cut.at_ns <= all->least_ns)
		return cut;
	cut.mark = PFW_BISECT(i, marks->passed, marks->stretches.end[i] < cut.at_ns);
	if (cut.mark < marks->passed)
		cut.end_ns = marks->stretches.end[cut.mark++];
	return cut;
}

/* Whether a block has something in the stretch of a cut, or on both sides of it. */
static bool is_cut(const struct pfw_overlap_part *part, const struct overlap_series *series)
{
	size_t i = PFW_BISECT(j, series->cuts, series->cut[j].end_ns <= part->least_ns);
	int64_t at_ns;

	if (i == series->cuts)
		return false;
	at_ns = series->cut[i].at_ns;
	return part->greatest_ns > at_ns || (part->greatest_ns == at_ns && part->least_ns < at_ns);
}

/* Make the cuts, and choose the blocks.  1; 0: all blocks may as well be read; or -ENOMEM. */
static int make_series(struct overlap_series *series, const struct overlap_options *options)
{
	const struct pfw_overlap_marks *marks = series->all.marks;
	size_t wanted = 0;

	series->cuts = options->bins - 1;
	if (!marks->passed || series->cuts > marks->parts)
		return 0;
	series->cut = calloc(series->cuts + 1, sizeof(*series->cut));
	series->skip = malloc(marks->parts + 1);
	if (!series->cut || !series->skip)
		return -ENOMEM;
	for (size_t i = 0; i < series->cuts; i++)
		series->cut[i] = make_cut(options, &series->all, i);
	for (size_t i = 0; i < marks->parts; i++) {
		series->skip[i] = !is_cut(&marks->part[i], series);
		wanted += !series->skip[i];
	}
	return wanted + BLOCKS_LEAST <= marks->parts;
}

/* As make_series(). */
static int open_series(struct overlap_rank *rank, const struct pfw_trace_file *file)
{
	struct pfw_overlap *all;
	struct pfw_index *index;
	int error = pfw_index_of(&index, file);

	if (error)
		return error == -ENOMEM ? error : 0;
	rank->series = calloc(1, sizeof(*rank->series));
	if (!rank->series) {
		pfw_index_close(index);
		return -ENOMEM;
	}
	all = &rank->series->all;
	pfw_overlap_init(all);
	all->marks = pfw_overlap_marks_create();
	error = !all->marks ? -ENOMEM : 0;
	if (!error &&
	    (pfw_index_meta(index)->problems || !pfw_index_has_blocks(index, &file->blocks)))
		error = -ENOENT;
	error = error ?: pfw_overlap_from_index(all, index);
	pfw_index_close(index);
	if (error)
		return error == -ENOMEM ? error : 0;
	return make_series(rank->series, rank->options);
}

bool overlap_series_asks(const struct overlap_options *options)
{
	return (options->bins || options->bin_ns) && !options->survey.no_index &&
	       !options->compute.name.count && !select_args_but_rank(&options->reach);
}

int overlap_find_series(struct overlap *overlap, const struct overlap_options *options,
			const struct survey_input *input)
{
	if (!overlap_series_asks(options))
		return 0;
	for (size_t i = 0; i < overlap->ranks; i++) {
		struct overlap_rank *rank = &overlap->rank[i];
		const struct pfw_trace_file *file = &input->traces.file[rank->last];
		int found = 0;

		if (rank->files == 1 && !file->partial && !input->live.live[rank->last] &&
		    file->blocks.count > BLOCKS_LEAST)
			found = open_series(rank, file);
		if (found < 0)
			return found;
		if (!found)
			overlap_series_release(rank);
	}
	return 0;
}

bool overlap_series_skips(const struct overlap_rank *rank, size_t block)
{
	return rank->series && rank->series->skip[block];
}

/* The times up to each mark. */
static int64_t (*add_marks(const struct pfw_overlap_marks *marks))[OVERLAP_BIN_TIMES]
{
	int64_t(*until)[OVERLAP_BIN_TIMES] = calloc(marks->passed + 1, sizeof(*until));

	for (size_t i = 0; i < marks->passed && until; i++) {
		const struct pfw_overlap_times *since = &marks->mark[i].since;

		memcpy(until[i + 1], until[i], sizeof(*until));
		for (size_t j = since->first; j < since->first + since->count; j++)
			add_times(until[i + 1], marks->time[j].set, marks->time[j].ns);
	}
	return until;
}

int overlap_series_end(struct overlap_rank *rank)
{
	struct overlap_series *series = rank->series;
	const struct pfw_overlap_marks *marks;
	int64_t before[OVERLAP_BIN_TIMES] = { 0 }, (*until)[OVERLAP_BIN_TIMES];

	if (!series)
		return 0;
	marks = series->all.marks;
	until = add_marks(marks);
	if (!until)
		return -ENOMEM;
	for (size_t i = 0; i < marks->parts; i++) {
		struct overlap_bin *bin =
			&rank->bin[bin_of(rank->options, marks->part[i].least_ns)];

		if (!series->skip[i])
			continue;
		bin->io_calls += marks->part[i].sums.io_calls;
		bin->io_bytes += marks->part[i].sums.io_bytes;
	}
	for (uint64_t i = 0; i < rank->options->bins; i++) {
		for (unsigned j = 0; j < OVERLAP_BIN_TIMES; j++) {
			int64_t end_ns = until[marks->passed][j];

			if (i < series->cuts) {
				const struct cut *cut = &series->cut[i];

				end_ns = until[cut->mark][j] - cut->ns[j];
			}
			rank->bin[i].ns[j] = end_ns - before[j];
			before[j] = end_ns;
		}
	}
	free(until);
	pfw_overlap_release(&rank->overlap);
	rank->overlap = series->all;
	pfw_overlap_init(&series->all);
	return 0;
}
