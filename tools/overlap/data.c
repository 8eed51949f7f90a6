/* tools/overlap/data.c - prints the result of `pfw overlap` as NDJSON or CSV. */
#include <errno.h>
#include <math.h>

#include "overlap/overlap.h"
#include "ui/host.h"

#define COLUMNS_MAX (OVERLAP_FIGURES + 24)

/* Rows of one type.  Each is written when it is complete, since there may be a million. */
struct sheet {
	struct grid grid;
	struct grid_column column[COLUMNS_MAX];
	int format;
	const char *type;
};

static void add_columns(struct sheet *sheet, const struct grid_column *columns)
{
	for (; columns->key; columns++)
		sheet->column[sheet->grid.columns++] = *columns;
}

static void add_figures(struct sheet *sheet)
{
	for (unsigned i = 0; i < OVERLAP_FIGURES; i++)
		sheet->column[sheet->grid.columns++] =
			(struct grid_column){ .key = overlap_figures[i].key, .kind = GRID_NS };
}

static void begin(struct sheet *sheet, int format, const char *type,
		  const struct grid_column *columns)
{
	*sheet = (struct sheet){ .format = format, .type = type };
	sheet->grid.column = sheet->column;
	sheet->grid.kind = "type";
	add_columns(sheet, columns);
}

static void write_row(struct sheet *sheet)
{
	grid_print(&sheet->grid, stdout, sheet->format,
		   sheet->format == CLI_NDJSON || cli_host ? sheet->type : NULL);
}

static int end(struct sheet *sheet)
{
	grid_release(&sheet->grid);
	return sheet->grid.failed ? -ENOMEM : 0;
}

/* ---- rows ---- */

static void put_figures(struct grid *grid, const int64_t *figure)
{
	for (unsigned i = 0; i < OVERLAP_FIGURES; i++)
		grid_maybe(grid, GRID_NS, figure[i] != OVERLAP_UNKNOWN, figure[i]);
}

static void put_sums(struct grid *grid, const struct pfw_overlap_sums *sums)
{
	const __int128 no = GRID_NO;
	bool calls = sums->io_calls, kernels = sums->kernels, copies = kernels || sums->copies;

	/* What was not recorded at all is not 0. */
	GRID_PUT(grid, sums->events, calls ? sums->io_calls : no, calls ? sums->io_bytes : no,
		 sums->summed_calls, sums->summed_ns, kernels ? sums->kernels : no,
		 copies ? sums->copies : no, copies ? sums->copy_bytes : no);
}

static void put_gaps(struct grid *grid, const struct pfw_launch_gaps *gaps)
{
	const __int128 no = GRID_NO;
	bool any = gaps->count;

	GRID_PUT(grid, gaps->count, gaps->unmatched, any ? gaps->sum_ns : no,
		 any ? overlap_mean(gaps->sum_ns, gaps->count) : no,
		 any ? pfw_sketch_quantile(&gaps->gap, 0.5) : no,
		 any ? pfw_sketch_quantile(&gaps->gap, 0.99) : no, any ? gaps->max_ns : no);
}

static void put_straggler(struct grid *grid, const struct overlap_straggler *of)
{
	const __int128 no = GRID_NO;

	GRID_PUT(grid, of ? of->steps : no, of ? of->own_ns : no, of ? of->slowest : no,
		 of ? of->behind_ns : no);
}

/* The row of a rank, or of all ranks (NULL). */
static void put_row(struct sheet *sheet, const struct overlap_answer *answer,
		    const struct overlap *overlap, const struct overlap_rank *rank)
{
	const struct pfw_overlap *of = rank ? &rank->overlap : NULL;
	const struct pfw_overlap_sums *sums = of ? &of->sums : &answer->totals.sums;
	int64_t figure[OVERLAP_FIGURES];
	struct grid *grid = &sheet->grid;

	if (cli_host && !rank)
		sheet->type = "all"; /* the rank is a number there */
	overlap_put_rank(grid, rank);
	grid_maybe(grid, GRID_NS, of && of->least_ns <= of->greatest_ns, of ? of->least_ns : 0);
	if (of)
		overlap_measure(of, rank->unknown, figure);
	put_figures(grid, of ? figure : answer->totals.figure);
	put_sums(grid, sums);
	put_gaps(grid, of ? &of->gaps : &answer->totals.gaps);
	put_straggler(grid,
		      rank && answer->straggler ? &answer->straggler[rank - overlap->rank] : NULL);
	write_row(sheet);
}

static int print_ranks(struct sheet *sheet, int format, const struct overlap *overlap,
		       const struct overlap_answer *answer)
{
	static const struct grid_column before[] = { { "rank", NULL, GRID_ID },
						     { "ts", NULL, GRID_TS },
						     { NULL, NULL, GRID_NONE } };
	static const struct grid_column behind[] = {
		{ "events", NULL, GRID_COUNT },	     { "io_calls", NULL, GRID_COUNT },
		{ "io_bytes", NULL, GRID_BYTES },    { "summed_calls", NULL, GRID_COUNT },
		{ "summed", NULL, GRID_NS },	     { "kernel_count", NULL, GRID_COUNT },
		{ "copy_count", NULL, GRID_COUNT },  { "copy_bytes", NULL, GRID_BYTES },
		{ "launches", NULL, GRID_COUNT },    { "launches_unknown", NULL, GRID_COUNT },
		{ "launch_gap", NULL, GRID_NS },     { "launch_gap_mean", NULL, GRID_NS },
		{ "launch_gap_p50", NULL, GRID_NS }, { "launch_gap_p99", NULL, GRID_NS },
		{ "launch_gap_max", NULL, GRID_NS }, { "steps_compared", NULL, GRID_COUNT },
		{ "steps_own", NULL, GRID_NS },	     { "steps_slowest", NULL, GRID_COUNT },
		{ "steps_behind", NULL, GRID_NS },   { NULL, NULL, GRID_NONE }
	};

	begin(sheet, format, "rank", before);
	add_figures(sheet);
	add_columns(sheet, behind);
	for (size_t i = 0; i < overlap->ranks; i++)
		put_row(sheet, answer, overlap, &overlap->rank[i]);
	put_row(sheet, answer, overlap, NULL);
	return end(sheet);
}

static int print_steps(struct sheet *sheet, int format, const struct overlap_steps *steps)
{
	static const struct grid_column before[] = { { "step", NULL, GRID_ID },
						     { "rank", NULL, GRID_ID },
						     { "ts", NULL, GRID_TS },
						     { NULL, NULL, GRID_NONE } };
	int64_t figure[OVERLAP_FIGURES];

	begin(sheet, format, "step", before);
	add_figures(sheet);
	write_row(sheet); /* the line of keys */
	for (size_t i = 0; i < steps->count; i++) {
		const struct overlap_step *step = &steps->step[i];

		overlap_measure_step(steps, step, OVERLAP_ALL, figure);
		grid_u64(&sheet->grid, GRID_ID, step->number);
		overlap_put_rank(&sheet->grid, step->rank);
		grid_whole(&sheet->grid, GRID_NS, step->begin);
		put_figures(&sheet->grid, figure);
		write_row(sheet);
	}
	return end(sheet);
}

static void put_bin(struct grid *grid, const struct overlap_options *options,
		    const struct overlap_rank *rank, uint64_t number)
{
	const struct overlap_bin *bin = &rank->bin[number];
	double bin_ns = rank->overlap.sums.io_calls ? (double)options->bin_ns : NAN;

	GRID_PUT(grid, options->first_ns + (int64_t)number * options->bin_ns, options->bin_ns);
	overlap_put_rank(grid, rank);
	GRID_PUT(grid, rank->overlap.sums.io_calls ? bin->io_bytes : GRID_NO);
	grid_number(grid, GRID_FIXED, (double)bin->io_bytes * 1e9 / bin_ns);
	GRID_PUT(grid, rank->overlap.sums.io_calls ? bin->io_calls : GRID_NO);
	grid_number(grid, GRID_FIXED, (double)bin->io_calls * 1e9 / bin_ns);
	for (unsigned i = 0; i < OVERLAP_BIN_TIMES; i++)
		grid_maybe(grid, GRID_NS, rank->known & overlap_bin_sets[i], bin->ns[i]);
}

static int print_series(struct sheet *sheet, const struct overlap *overlap,
			const struct overlap_options *options)
{
	static const struct grid_column columns[] = { { "ts", NULL, GRID_TS },
						      { "dur", NULL, GRID_NS },
						      { "rank", NULL, GRID_ID },
						      { "io_bytes", NULL, GRID_BYTES },
						      { "io_bandwidth", NULL, GRID_FIXED },
						      { "io_calls", NULL, GRID_COUNT },
						      { "iops", NULL, GRID_FIXED },
						      { "io", NULL, GRID_NS },
						      { "cpu", NULL, GRID_NS },
						      { "kernels", NULL, GRID_NS },
						      { "copy", NULL, GRID_NS },
						      { NULL, NULL, GRID_NONE } };

	begin(sheet, options->survey.format, "bin", columns);
	write_row(sheet); /* the line of keys */
	for (uint64_t i = 0; i < options->bins; i++) {
		for (size_t j = 0; j < overlap->ranks; j++) {
			put_bin(&sheet->grid, options, &overlap->rank[j], i);
			write_row(sheet);
		}
	}
	return end(sheet);
}

int overlap_print_data(const struct overlap *overlap, const struct overlap_options *options,
		       const struct overlap_answer *answer)
{
	bool all = options->survey.format == CLI_NDJSON;
	bool bins = options->bins || options->bin_ns; /* asked for, also if no rank has any */
	struct sheet sheet;
	int error = 0;

	/* CSV has rows of one type: the steps or the series if asked for, else the ranks. */
	if (all || (!options->steps && !bins))
		error = print_ranks(&sheet, options->survey.format, overlap, answer);
	if (!error && options->steps)
		error = print_steps(&sheet, options->survey.format, &answer->steps);
	if (!error && bins && (all || !options->steps))
		error = print_series(&sheet, overlap, options);
	return error;
}
