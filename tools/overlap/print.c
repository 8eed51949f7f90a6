/* tools/overlap/print.c - prints the result of `pfw overlap` as text or Markdown. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/order.h"
#include "overlap/overlap.h"
#include "share/survey.h"
#include "share/unrecorded.h"
#include "store/kit/saturate.h"
#include "store/sys/pool.h"

#define COLUMNS_MAX (OVERLAP_FIGURES + 2)

/* ---- tables ---- */

/* The current table and its columns. */
struct sheet {
	struct grid grid;
	struct grid_column column[COLUMNS_MAX];
	int format;
	size_t width; /* of the terminal */
	unsigned jobs;
	int64_t (*figure)[OVERLAP_FIGURES]; /* of each rank */
	bool *shown;			    /* which ranks have a row */
	bool few;			    /* not all of them */
	bool failed;
};

static void add_columns(struct sheet *sheet, const char *const *titles)
{
	for (; *titles; titles++)
		sheet->column[sheet->grid.columns++].title = *titles;
}

/* `figures`: their numbers, ended by OVERLAP_FIGURES, as below. */
static void add_figures(struct sheet *sheet, const unsigned *figures)
{
	for (; *figures < OVERLAP_FIGURES; figures++)
		sheet->column[sheet->grid.columns++].title = overlap_figures[*figures].header;
}

static void begin(struct sheet *sheet, const char *const *titles)
{
	static const char *const few[] = { "Comm alone", "CPU ops", "Comm",  "I/O+compute",
					   "Loading",	 "Copies",  "Waits", NULL };

	sheet->grid = (struct grid){ .column = sheet->column,
				     .none = "-",
				     .width = sheet->width,
				     .jobs = sheet->jobs,
				     .few = few };
	add_columns(sheet, titles);
}

static void end(struct sheet *sheet, const char *title)
{
	sheet->failed |= sheet->grid.failed;
	if (!sheet->failed) {
		grid_title(stdout, sheet->format, title);
		grid_print(&sheet->grid, stdout, sheet->format, NULL);
	}
	grid_release(&sheet->grid);
}

void overlap_put_rank(struct grid *grid, const struct overlap_rank *rank)
{
	if (rank)
		grid_maybe(grid, GRID_ID, rank->rank >= 0, rank->rank);
	else
		grid_text(grid, "all", strlen("all"));
}

static void put_figures(struct grid *grid, const unsigned *figures, const int64_t *figure)
{
	for (; *figures < OVERLAP_FIGURES; figures++) {
		int64_t ns = figure[*figures];

		grid_maybe(grid, GRID_NS, ns != OVERLAP_UNKNOWN, ns);
	}
}

/* Rows that say how a figure differs between the ranks that have it, by nearest rank. */
static void put_spread(struct sheet *sheet, size_t ranks, const unsigned *figures)
{
	static const struct {
		const char *title;
		unsigned percent;
	} rows[] = { { "least", 0 }, { "median", 50 }, { "95 in 100", 95 }, { "most", 100 } };
	int64_t(*spread)[OVERLAP_FIGURES] = calloc(CLI_ARRAY_LEN(rows), sizeof(*spread));
	int64_t *value = calloc(ranks, sizeof(*value));

	sheet->failed |= !spread || !value;
	for (unsigned at = 0; figures[at] < OVERLAP_FIGURES && !sheet->failed; at++) {
		unsigned number = figures[at];
		size_t count = 0;

		for (size_t i = 0; i < ranks; i++) {
			if (sheet->figure[i][number] != OVERLAP_UNKNOWN)
				value[count++] = sheet->figure[i][number];
		}
		qsort(value, count, sizeof(*value), pfw_order_i64);
		for (size_t i = 0; i < CLI_ARRAY_LEN(rows); i++) {
			size_t place = (count * rows[i].percent + 99) / 100;

			spread[i][number] = count ? value[place ? place - 1 : 0] : OVERLAP_UNKNOWN;
		}
	}
	for (size_t i = 0; i < CLI_ARRAY_LEN(rows) && !sheet->failed; i++) {
		grid_text(&sheet->grid, rows[i].title, strlen(rows[i].title));
		put_figures(&sheet->grid, figures, spread[i]);
	}
	free(spread);
	free(value);
}

static void print_ranks(struct sheet *sheet, const struct overlap *overlap,
			const struct overlap_totals *totals, const char *title,
			const unsigned *figures)
{
	static const char *const titles[] = { "Rank", NULL };
	struct grid *grid = &sheet->grid;

	begin(sheet, titles);
	add_figures(sheet, figures);
	for (size_t i = 0; i < overlap->ranks; i++) {
		if (!sheet->shown[i])
			continue;
		overlap_put_rank(grid, &overlap->rank[i]);
		put_figures(grid, figures, sheet->figure[i]);
	}
	if (sheet->few)
		put_spread(sheet, overlap->ranks, figures);
	if (overlap->ranks > 1) {
		overlap_put_rank(grid, NULL);
		put_figures(grid, figures, totals->figure);
	}
	end(sheet, title);
}

static void put_mean(struct grid *grid, int64_t ns, uint64_t count)
{
	grid_maybe(grid, GRID_NS, count, overlap_mean(ns, count));
}

static void put_gaps(struct grid *grid, const struct pfw_launch_gaps *gaps)
{
	grid_u64(grid, GRID_COUNT, gaps->count);
	put_mean(grid, gaps->sum_ns, gaps->count);
	put_mean(grid, pfw_sketch_quantile(&gaps->gap, 0.5), gaps->count != 0);
	put_mean(grid, pfw_sketch_quantile(&gaps->gap, 0.99), gaps->count != 0);
	put_mean(grid, gaps->max_ns, gaps->count != 0);
	grid_u64(grid, GRID_COUNT, gaps->unmatched);
}

static void print_gaps(struct sheet *sheet, const struct overlap *overlap,
		       const struct overlap_totals *totals)
{
	static const char *const titles[] = {
		"Rank", "Kernels", "Mean", "Median", "99 in 100", "Longest", "No launch known", NULL
	};

	begin(sheet, titles);
	for (size_t i = 0; i < overlap->ranks; i++) {
		if (!sheet->shown[i])
			continue;
		overlap_put_rank(&sheet->grid, &overlap->rank[i]);
		put_gaps(&sheet->grid, &overlap->rank[i].overlap.gaps);
	}
	if (overlap->ranks > 1) {
		overlap_put_rank(&sheet->grid, NULL);
		put_gaps(&sheet->grid, &totals->gaps);
	}
	end(sheet, "From a kernel's launch to its start");
}

static void print_stragglers(struct sheet *sheet, const struct overlap *overlap,
			     const struct overlap_straggler *straggler)
{
	static const char *const titles[] = {
		"Rank", "Steps", "Own time a step", "Slowest in", "Behind the median then", NULL
	};

	begin(sheet, titles);
	for (size_t i = 0; i < overlap->ranks; i++) {
		const struct overlap_straggler *of = &straggler[i];

		if (!sheet->shown[i])
			continue;
		overlap_put_rank(&sheet->grid, &overlap->rank[i]);
		grid_u64(&sheet->grid, GRID_COUNT, of->steps);
		put_mean(&sheet->grid, of->own_ns, of->steps);
		grid_u64(&sheet->grid, GRID_COUNT, of->slowest);
		put_mean(&sheet->grid, of->behind_ns, of->slowest);
	}
	end(sheet, "Stragglers");
}

static const unsigned step_figures[] = {
	OVERLAP_WALL, OVERLAP_IO,   OVERLAP_COMPUTE,	     OVERLAP_GPU,  OVERLAP_COMM,
	OVERLAP_COPY, OVERLAP_LOAD, OVERLAP_IO_UNOVERLAPPED, OVERLAP_IDLE, OVERLAP_FIGURES
};

/* More steps are shown only if asked for. */
#define STEPS_FEW 12

/* Steps whose rows several threads fill. */
struct filling {
	const struct overlap_steps *steps;
	struct grid_cell *cell;
	size_t columns;
	uint64_t wanted;
};

/* A thread takes so many at a time. */
#define STEPS_A_PART 1024u

static void fill_step(const struct filling *filling, const struct overlap_step *step,
		      struct grid_cell *cell)
{
	int64_t figure[OVERLAP_FIGURES];

	overlap_measure_step(filling->steps, step, filling->wanted, figure);
	*cell++ = grid_cell(GRID_ID, true, pfw_saturate_i128(step->number));
	for (const unsigned *at = step_figures; *at < OVERLAP_FIGURES; at++)
		*cell++ = grid_cell(GRID_NS, figure[*at] != OVERLAP_UNKNOWN, figure[*at]);
	*cell = grid_cell(GRID_ID, step->rank->rank >= 0, step->rank->rank);
}

static void fill_part(void *user, size_t number)
{
	const struct filling *filling = user;
	size_t first = number * STEPS_A_PART;

	for (size_t i = first; i < filling->steps->count && i < first + STEPS_A_PART; i++)
		fill_step(filling, &filling->steps->step[i], filling->cell + i * filling->columns);
}

static void print_steps(struct sheet *sheet, const struct overlap_steps *steps)
{
	static const char *const before[] = { "Step", NULL }, *const behind[] = { "Rank", NULL };
	struct filling filling = { .steps = steps };

	for (const unsigned *at = step_figures; *at < OVERLAP_FIGURES; at++)
		filling.wanted |= OVERLAP_BIT(*at);
	begin(sheet, before);
	add_figures(sheet, step_figures);
	add_columns(sheet, behind);
	filling.columns = sheet->grid.columns;
	filling.cell = grid_extend(&sheet->grid, steps->count);
	if (filling.cell)
		pfw_pool_share(sheet->jobs, (steps->count + STEPS_A_PART - 1) / STEPS_A_PART,
			       fill_part, &filling);
	end(sheet, "Steps");
}

static void print_series(struct sheet *sheet, const struct overlap *overlap,
			 const struct overlap_options *options)
{
	static const char *const titles[] = { "From",		"Rank",	  "I/O a second",
					      "Calls a second", "I/O",	  "CPU ops",
					      "Kernels",	"Copies", NULL };
	double seconds = (double)options->bin_ns / 1e9;
	struct grid *grid = &sheet->grid;

	begin(sheet, titles);
	for (uint64_t i = 0; i < options->bins * overlap->ranks; i++) {
		const struct overlap_rank *rank = &overlap->rank[i % overlap->ranks];
		const struct overlap_bin *bin = &rank->bin[i / overlap->ranks];
		unsigned known = rank->known;

		grid_whole(grid, GRID_NS, (int64_t)(i / overlap->ranks) * options->bin_ns);
		overlap_put_rank(grid, rank);
		grid_maybe(grid, GRID_BYTES, known & overlap_bin_sets[0],
			   pfw_saturate_whole((double)bin->io_bytes / seconds));
		grid_maybe(grid, GRID_COUNT, known & overlap_bin_sets[0],
			   pfw_saturate_whole((double)bin->io_calls / seconds));
		for (unsigned j = 0; j < OVERLAP_BIN_TIMES; j++)
			grid_maybe(grid, GRID_NS, known & overlap_bin_sets[j], bin->ns[j]);
	}
	end(sheet, "Over time");
}

/* A launcher has a row, but is none of the ranks that it starts. */
static size_t count_ranks(const struct overlap *overlap)
{
	size_t count = 0;

	for (size_t i = 0; i < overlap->ranks; i++)
		count += overlap->rank[i].rank >= 0;
	return count ? count : overlap->ranks;
}

static void print_head(const struct overlap *overlap, const struct overlap_totals *totals)
{
	size_t ranks = count_ranks(overlap);

	printf("%s rank%s, %s events; I/O: %s calls, %s\n", cli_count(ranks), cli_plural(ranks),
	       cli_count(totals->sums.events), cli_count(totals->sums.io_calls),
	       cli_bytes(totals->sums.io_bytes));
	if (totals->sums.summed_calls)
		printf("%s more calls, of %s together, were too short for lines of their own: they "
		       "are in no figure below\n",
		       cli_count(totals->sums.summed_calls), cli_time(totals->sums.summed_ns));
	if (totals->steps_left_out)
		printf("%s steps are in the totals only: there are too many\n",
		       cli_count(totals->steps_left_out));
}

/* Compute the figures of all ranks, and choose those that have a row: of many the slowest, by their
 * own time in steps that they have in common, else by their wall time. */
static void measure_ranks(struct sheet *sheet, const struct overlap *overlap,
			  const struct overlap_options *options,
			  const struct overlap_straggler *straggler)
{
	int64_t *score = calloc(overlap->ranks + 1, sizeof(*score));

	sheet->few = slowest_only(&options->survey, overlap->ranks);
	sheet->figure = calloc(overlap->ranks + 1, sizeof(*sheet->figure));
	for (size_t i = 0; score && sheet->figure && i < overlap->ranks; i++) {
		const struct overlap_rank *rank = &overlap->rank[i];

		overlap_measure(&rank->overlap, rank->unknown, sheet->figure[i]);
		score[i] = straggler ? overlap_mean(straggler[i].own_ns, straggler[i].steps)
				     : sheet->figure[i][OVERLAP_WALL];
	}
	if (score && sheet->figure)
		sheet->shown = slowest_ranks(&options->survey, score, overlap->ranks);
	free(score);
	sheet->failed = !sheet->shown;
	if (sheet->few && !sheet->failed)
		printf("The %u slowest ranks are shown, by %s: --all-ranks shows each\n",
		       SLOWEST_SHOWN,
		       straggler ? "their own time in common steps" : "their wall time");
}

/* Why figures are not known, and what would record them. */
static void print_unknown(const struct sheet *sheet, const struct overlap_options *options,
			  const struct overlap_totals *totals)
{
	static const struct {
		unsigned figure;
		const char *figures;
		enum unrecorded kind;
	} unknown[] = {
		{ OVERLAP_IO, "I/O", UNRECORDED_IO },
		{ OVERLAP_CPU, "CPU ops and Loading", UNRECORDED_OPERATORS },
		{ OVERLAP_GPU, "GPU and Comm", UNRECORDED_KERNELS },
	};
	bool any = false;

	for (size_t i = 0; i < CLI_ARRAY_LEN(unknown) && !sheet->failed; i++) {
		if (totals->figure[unknown[i].figure] == OVERLAP_UNKNOWN)
			unrecorded_say(unknown[i].figures, unknown[i].kind,
				       select_args_but_rank(&options->reach), &any);
	}
}

static void print_tables(struct sheet *sheet, const struct overlap *overlap,
			 const struct overlap_options *options, const struct overlap_answer *answer)
{
	const bool waits = answer->totals.figure[OVERLAP_WAIT] != OVERLAP_UNKNOWN;
	const unsigned times[] = { OVERLAP_WALL, OVERLAP_IO, OVERLAP_COMPUTE, OVERLAP_CPU,
				   OVERLAP_GPU, OVERLAP_COMM, OVERLAP_COPY, OVERLAP_LOAD,
				   OVERLAP_IO_COMPUTE, OVERLAP_IO_UNOVERLAPPED,
				   OVERLAP_COMM_UNOVERLAPPED,
				   /* Only who asks for them records them (PFW_CALLS=+sync). */
				   waits ? OVERLAP_WAIT : OVERLAP_FIGURES,
				   OVERLAP_WAIT_UNOVERLAPPED, OVERLAP_FIGURES };
	static const unsigned idle[] = { OVERLAP_WALL,	      OVERLAP_IDLE,
					 OVERLAP_IDLE_LAUNCH, OVERLAP_IDLE_QUEUED,
					 OVERLAP_IDLE_COPY,   OVERLAP_IDLE_LOAD,
					 OVERLAP_IDLE_IO,     OVERLAP_FIGURES };

	print_ranks(sheet, overlap, &answer->totals, "Time in which", times);
	if (answer->totals.sums.kernels) {
		print_ranks(sheet, overlap, &answer->totals,
			    "No kernel ran, and the GPU waited for", idle);
		print_gaps(sheet, overlap, &answer->totals);
	}
	if (answer->straggler)
		print_stragglers(sheet, overlap, answer->straggler);
	if (answer->steps.count && (options->steps || answer->steps.count <= STEPS_FEW))
		print_steps(sheet, &answer->steps);
	else if (answer->steps.count && !sheet->failed)
		printf("\nSteps: --steps shows them (%s rows)\n", cli_count(answer->steps.count));
	if (options->bin_ns)
		print_series(sheet, overlap, options);
	print_unknown(sheet, options, &answer->totals);
}

static int print_text(const struct overlap *overlap, const struct overlap_options *options,
		      const struct overlap_answer *answer)
{
	struct sheet sheet = { .format = options->survey.format,
			       .width = options->survey.width,
			       .jobs = options->survey.jobs };

	print_head(overlap, &answer->totals);
	measure_ranks(&sheet, overlap, options, answer->straggler);
	if (!sheet.failed)
		print_tables(&sheet, overlap, options, answer);
	free(sheet.figure);
	free(sheet.shown);
	return sheet.failed ? -ENOMEM : 0;
}

/* ---- all ---- */

static void add_figures_of(struct overlap_totals *totals, const struct overlap_rank *rank)
{
	int64_t figure[OVERLAP_FIGURES];

	overlap_measure(&rank->overlap, rank->unknown, figure);
	for (unsigned i = 0; i < OVERLAP_FIGURES; i++) {
		int64_t *total = &totals->figure[i];

		if (figure[i] != OVERLAP_UNKNOWN)
			*total =
				pfw_saturate_add(*total != OVERLAP_UNKNOWN ? *total : 0, figure[i]);
	}
}

static int add_totals(struct overlap_totals *totals, const struct overlap *overlap)
{
	for (unsigned i = 0; i < OVERLAP_FIGURES; i++)
		totals->figure[i] = OVERLAP_UNKNOWN;
	for (size_t i = 0; i < overlap->ranks; i++) {
		const struct pfw_overlap *of = &overlap->rank[i].overlap;

		add_figures_of(totals, &overlap->rank[i]);
		pfw_overlap_add_sums(&totals->sums, &of->sums);
		totals->steps_left_out += of->steps_left_out;
		totals->gaps.count += of->gaps.count;
		totals->gaps.unmatched += of->gaps.unmatched;
		totals->gaps.sum_ns = pfw_saturate_add(totals->gaps.sum_ns, of->gaps.sum_ns);
		if (of->gaps.max_ns > totals->gaps.max_ns)
			totals->gaps.max_ns = of->gaps.max_ns;
		if (pfw_sketch_merge(&totals->gaps.gap, &of->gaps.gap, true))
			return -ENOMEM;
	}
	return 0;
}

int overlap_print(const struct overlap *overlap, const struct overlap_options *options)
{
	struct overlap_answer answer = { 0 };
	int error = add_totals(&answer.totals, overlap);

	if (!error &&
	    (options->steps || overlap->ranks > 1 || cli_for_people(options->survey.format)))
		error = overlap_steps_find(&answer.steps, overlap);
	if (!error && options->steps && !answer.steps.count && !options->survey.quiet)
		cli_error(
			"overlap",
			"these traces have no steps: record with `pfw run --torch` (each batch is "
			"a step) or `pfw run --step NAME` (each span of that name is one), or call "
			"pfw_step() or pfw.step() in the program");
	if (!error && overlap->ranks > 1)
		answer.straggler = overlap_stragglers(overlap, &answer.steps);
	if (!error)
		error = cli_for_people(options->survey.format)
				? print_text(overlap, options, &answer)
				: overlap_print_data(overlap, options, &answer);
	pfw_sketch_release(&answer.totals.gaps.gap);
	free(answer.straggler);
	overlap_steps_release(&answer.steps);
	return error;
}
