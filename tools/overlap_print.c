/* overlap_print.c - the answer of `pfw overlap`, for people: as text, or as a page of Markdown. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "grid.h"
#include "overlap.h"
#include "overlap_output.h"
#include "store/more.h"
#include "store/saturate.h"

#define CELL_BYTES 32
#define COLUMNS_MAX (OVERLAP_FIGURES + 2)

/* ---- tables for people ---- */

/* Four digits are enough to compare: "12.34 µs", "435.2 ms".  One of four buffers in turn. */
static const char *span(int64_t ns)
{
	static const char *const units[] = { "ns", "µs", "ms", "s" };
	static char text[4][CELL_BYTES];
	static unsigned turn;
	char *out = text[turn++ % 4];
	double value = (double)ns;
	unsigned unit = 0;

	for (; unit < 3 && value >= 999.95; unit++)
		value /= 1000;
	snprintf(out, CELL_BYTES, "%.*f %s",
		 !unit || value >= 1000 ? 0
		 : value < 10		? 3
		 : value < 100		? 2
					: 1,
		 value, units[unit]);
	return out;
}

/* Rows of short texts, right-aligned under their headers. */
struct sheet {
	char (*cell)[CELL_BYTES];
	size_t columns, cells, room;
	bool failed, md;
};

static void put(struct sheet *sheet, const char *text)
{
	char(*more)[CELL_BYTES] = pfw_more(sheet->cell, sheet->cells, &sheet->room, CELL_BYTES);

	if (!more) {
		sheet->failed = true;
		return;
	}
	sheet->cell = more;
	snprintf(more[sheet->cells++], CELL_BYTES, "%s", text);
}

static void put_rank(struct sheet *sheet, const struct overlap_rank *rank)
{
	char text[CELL_BYTES];

	snprintf(text, sizeof(text), "%" PRId64, rank ? rank->rank : 0);
	put(sheet, !rank ? "all" : rank->rank < 0 ? "-" : text);
}

/* Of UTF-8. */
static size_t characters(const char *text)
{
	size_t count = 0;

	for (; *text; text++)
		count += ((unsigned char)*text & 0xc0) != 0x80;
	return count;
}

/* Characters of a column's widest cell. */
static size_t width_of(const struct sheet *sheet, size_t column)
{
	size_t width = 0;

	for (size_t i = column; i < sheet->cells; i += sheet->columns) {
		size_t used = characters(sheet->cell[i]);

		width = used > width ? used : width;
	}
	return width;
}

static void print_md(const struct sheet *sheet, const char *title)
{
	printf("%s\n\n", title);
	for (size_t i = 0; i + sheet->columns <= sheet->cells; i += sheet->columns) {
		for (size_t j = i; j < i + sheet->columns; j++) {
			grid_put_md_cell(stdout, sheet->cell[j], strlen(sheet->cell[j]));
		}
		puts("|");
		for (size_t j = 0; !i && j < sheet->columns; j++)
			fputs(j + 1 < sheet->columns ? "|--:" : "|--:|\n", stdout);
	}
}

/* Print what there is, and make it empty. */
static void flush(struct sheet *sheet, const char *title)
{
	bool colours = cli_colours(stdout);
	size_t whole = sheet->cells - sheet->cells % sheet->columns, width[COLUMNS_MAX];

	if (sheet->md) {
		print_md(sheet, title);
		sheet->cells = 0;
		return;
	}
	printf("%s%s%s\n", cli_style(colours, CLI_BOLD), title, cli_style(colours, CLI_PLAIN));
	for (size_t j = 0; j < sheet->columns; j++)
		width[j] = width_of(sheet, j);
	for (size_t i = 0; i < whole; i++) {
		const char *cell = sheet->cell[i];
		size_t column = i % sheet->columns;

		printf("%s%*s%s%s", column ? "  " : "", (int)(width[column] - characters(cell)), "",
		       cell, column + 1 == sheet->columns ? "\n" : "");
	}
	sheet->cells = 0;
}

static void put_figures(struct sheet *sheet, const char *const *keys, const int64_t *figure,
			bool device)
{
	for (; *keys; keys++) {
		unsigned number = overlap_figure(*keys);

		put(sheet, overlap_figures[number].device && !device ? "-" : span(figure[number]));
	}
}

/* Of time by set. */
static void put_sets(struct sheet *sheet, const char *const *keys, const int64_t *set_ns,
		     bool device)
{
	int64_t figure[OVERLAP_FIGURES];

	overlap_measure(set_ns, figure);
	put_figures(sheet, keys, figure, device);
}

static void put_headers(struct sheet *sheet, const char *first, const char *const *keys)
{
	sheet->columns = 1;
	put(sheet, first);
	for (; *keys; keys++, sheet->columns++)
		put(sheet, overlap_figures[overlap_figure(*keys)].header);
}

static void print_ranks(struct sheet *sheet, const struct overlap *overlap,
			const struct overlap_totals *totals, const char *title,
			const char *const *keys)
{
	put_headers(sheet, "Rank", keys);
	for (size_t i = 0; i < overlap->ranks; i++) {
		const struct pfw_overlap *of = &overlap->rank[i].overlap;

		put_rank(sheet, &overlap->rank[i]);
		put_sets(sheet, keys, of->set_ns, of->sums.kernels != 0);
	}
	if (overlap->ranks > 1) {
		put_rank(sheet, NULL);
		put_sets(sheet, keys, totals->set_ns, totals->sums.kernels != 0);
	}
	flush(sheet, title);
}

static void put_gaps(struct sheet *sheet, const struct pfw_launch_gaps *gaps)
{
	put(sheet, cli_count(gaps->count));
	put(sheet, gaps->count ? span(gaps->sum_ns / (int64_t)gaps->count) : "-");
	put(sheet, span(pfw_sketch_quantile(&gaps->gap, 0.5)));
	put(sheet, span(pfw_sketch_quantile(&gaps->gap, 0.99)));
	put(sheet, span(gaps->max_ns));
	put(sheet, cli_count(gaps->unmatched));
}

static void print_gaps(struct sheet *sheet, const struct overlap *overlap,
		       const struct overlap_totals *totals)
{
	static const char *const headers[] = { "Rank",	    "Kernels", "Mean",		 "Median",
					       "99 in 100", "Longest", "No launch known" };

	sheet->columns = CLI_ARRAY_LEN(headers);
	for (size_t i = 0; i < CLI_ARRAY_LEN(headers); i++)
		put(sheet, headers[i]);
	for (size_t i = 0; i < overlap->ranks; i++) {
		put_rank(sheet, &overlap->rank[i]);
		put_gaps(sheet, &overlap->rank[i].overlap.gaps);
	}
	if (overlap->ranks > 1) {
		put_rank(sheet, NULL);
		put_gaps(sheet, &totals->gaps);
	}
	flush(sheet, "\nFrom a kernel's launch to its start");
}

static void print_stragglers(struct sheet *sheet, const struct overlap *overlap,
			     const struct overlap_straggler *straggler)
{
	static const char *const headers[] = { "Rank", "Steps", "Own time a step", "Slowest in",
					       "Behind the median then" };

	sheet->columns = CLI_ARRAY_LEN(headers);
	for (size_t i = 0; i < CLI_ARRAY_LEN(headers); i++)
		put(sheet, headers[i]);
	for (size_t i = 0; i < overlap->ranks; i++) {
		const struct overlap_straggler *of = &straggler[i];

		put_rank(sheet, &overlap->rank[i]);
		put(sheet, cli_count(of->steps));
		put(sheet, of->steps ? span(of->own_ns / (int64_t)of->steps) : "-");
		put(sheet, cli_count(of->slowest));
		put(sheet, of->slowest ? span(of->behind_ns / (int64_t)of->slowest) : "-");
	}
	flush(sheet, "\nStragglers");
}

static const char *const step_keys[] = { "wall", "io",	 "compute",	    "gpu",  "comm",
					 "copy", "load", "io_unoverlapped", "idle", NULL };

/* So many are shown unasked. */
#define STEPS_FEW 12

static void print_steps(struct sheet *sheet, const struct overlap_steps *steps)
{
	int64_t figure[OVERLAP_FIGURES];
	char text[CELL_BYTES];

	put_headers(sheet, "Step", step_keys);
	sheet->columns++;
	put(sheet, "Rank");
	for (size_t i = 0; i < steps->count; i++) {
		const struct overlap_step *step = &steps->step[i];

		overlap_measure_step(steps, step, figure);
		snprintf(text, sizeof(text), "%" PRIu64, step->number);
		put(sheet, text);
		put_figures(sheet, step_keys, figure, step->rank->overlap.sums.kernels != 0);
		put_rank(sheet, step->rank);
	}
	flush(sheet, "\nSteps");
}

static void print_series(struct sheet *sheet, const struct overlap *overlap,
			 const struct overlap_options *options)
{
	static const char *const headers[] = { "From", "Rank",	  "I/O a second", "Calls a second",
					       "I/O",  "CPU ops", "Kernels",	  "Copies" };
	double seconds = (double)options->bin_ns / 1e9;

	sheet->columns = CLI_ARRAY_LEN(headers);
	for (size_t i = 0; i < CLI_ARRAY_LEN(headers); i++)
		put(sheet, headers[i]);
	for (uint64_t i = 0; i < options->bins * overlap->ranks; i++) {
		const struct overlap_rank *rank = &overlap->rank[i % overlap->ranks];
		const struct overlap_bin *bin = &rank->bin[i / overlap->ranks];

		put(sheet, span((int64_t)(i / overlap->ranks) * options->bin_ns));
		put_rank(sheet, rank);
		put(sheet, cli_bytes((uint64_t)((double)bin->io_bytes / seconds)));
		put(sheet, cli_count((uint64_t)((double)bin->io_calls / seconds)));
		put(sheet, span(bin->io_ns));
		put(sheet, span(bin->cpu_ns));
		put(sheet, span(bin->gpu_ns));
		put(sheet, span(bin->copy_ns));
	}
	flush(sheet, "\nOver time");
}

static void print_head(const struct overlap *overlap, const struct overlap_totals *totals)
{
	printf("%s rank%s, %s events; I/O: %s calls, %s\n", cli_count(overlap->ranks),
	       cli_plural(overlap->ranks), cli_count(totals->sums.events),
	       cli_count(totals->sums.io_calls), cli_bytes(totals->sums.io_bytes));
	if (totals->sums.summed_calls)
		printf("%s more calls, of %s together, were too short for lines of their own: they "
		       "are in no figure below\n",
		       cli_count(totals->sums.summed_calls), span(totals->sums.summed_ns));
	if (totals->steps_left_out)
		printf("%s steps are in the totals only: there are too many\n",
		       cli_count(totals->steps_left_out));
}

static int print_text(const struct overlap *overlap, const struct overlap_options *options,
		      const struct overlap_answer *answer)
{
	static const char *const times[] = { "wall",
					     "io",
					     "compute",
					     "cpu",
					     "gpu",
					     "comm",
					     "copy",
					     "load",
					     "io_compute",
					     "io_unoverlapped",
					     "comm_unoverlapped",
					     NULL };
	static const char *const idle[] = { "wall",	 "idle",      "idle_launch", "idle_queued",
					    "idle_copy", "idle_load", "idle_io",     NULL };
	struct sheet sheet = { .md = options->format == CLI_MD };

	print_head(overlap, &answer->totals);
	print_ranks(&sheet, overlap, &answer->totals, "\nTime in which", times);
	if (answer->totals.sums.kernels) {
		print_ranks(&sheet, overlap, &answer->totals,
			    "\nNo kernel ran, and the GPU waited for", idle);
		print_gaps(&sheet, overlap, &answer->totals);
	}
	if (answer->straggler)
		print_stragglers(&sheet, overlap, answer->straggler);
	if (options->steps || (answer->steps.count && answer->steps.count <= STEPS_FEW))
		print_steps(&sheet, &answer->steps);
	if (options->bin_ns)
		print_series(&sheet, overlap, options);
	free(sheet.cell);
	return sheet.failed ? -ENOMEM : 0;
}

/* ---- all ---- */

static int add_totals(struct overlap_totals *totals, const struct overlap *overlap)
{
	for (size_t i = 0; i < overlap->ranks; i++) {
		const struct pfw_overlap *of = &overlap->rank[i].overlap;

		for (unsigned j = 0; j < PFW_OVERLAP_SETS; j++)
			totals->set_ns[j] = pfw_saturate_add(totals->set_ns[j], of->set_ns[j]);
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

static bool for_people(const struct overlap_options *options)
{
	return options->format == CLI_TEXT || options->format == CLI_MD;
}

int overlap_print(const struct overlap *overlap, const struct overlap_options *options)
{
	struct overlap_answer answer = { 0 };
	int error = add_totals(&answer.totals, overlap);

	if (!error && (options->steps || overlap->ranks > 1 || for_people(options)))
		error = overlap_steps_find(&answer.steps, overlap);
	if (!error && overlap->ranks > 1)
		answer.straggler = overlap_stragglers(overlap, &answer.steps);
	if (!error)
		error = for_people(options) ? print_text(overlap, options, &answer)
					    : overlap_print_data(overlap, options, &answer);
	pfw_sketch_release(&answer.totals.gaps.gap);
	free(answer.straggler);
	overlap_steps_release(&answer.steps);
	return error;
}
