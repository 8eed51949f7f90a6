/* overlap_data.c - the answer of `pfw overlap` for programs: NDJSON, CSV. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "overlap_output.h"

/* A table is one object a line, or a header and rows: told row by row, the first one makes both. */
struct sheet {
	int format;
	const char *type; /* of the rows: NDJSON has several kinds */
	bool header;	  /* is being written */
	bool begun;	  /* the line in hand has a value */
};

static void key(struct sheet *sheet, const char *name)
{
	if (sheet->format == CLI_NDJSON) {
		fputs_unlocked(",\"", stdout);
		fputs_unlocked(name, stdout);
		fputs_unlocked("\":", stdout);
		return;
	}
	if (sheet->begun)
		putchar_unlocked(',');
	sheet->begun = true;
	if (sheet->header)
		fputs_unlocked(name, stdout);
}

static void put_text(struct sheet *sheet, const char *name, const char *value)
{
	key(sheet, name);
	if (!sheet->header)
		fputs_unlocked(value, stdout);
}

static void put_none(struct sheet *sheet, const char *name)
{
	put_text(sheet, name, sheet->format == CLI_NDJSON ? "null" : "");
}

static void put_u64(struct sheet *sheet, const char *name, uint64_t value)
{
	char text[32];

	snprintf(text, sizeof(text), "%" PRIu64, value);
	put_text(sheet, name, text);
}

/* µs with three decimals.  By hand: there may be a million of them. */
static void put_us(struct sheet *sheet, const char *name, int64_t ns)
{
	char text[32], *at = text + sizeof(text);
	uint64_t left = ns < 0 ? -(uint64_t)ns : (uint64_t)ns;
	unsigned digits = 0;

	*--at = '\0';
	do {
		if (digits++ == 3)
			*--at = '.';
		*--at = (char)('0' + left % 10);
		left /= 10;
	} while (left || digits < 4);
	if (ns < 0)
		*--at = '-';
	put_text(sheet, name, at);
}

static void put_rank(struct sheet *sheet, const struct overlap_rank *rank)
{
	if (rank && rank->rank >= 0)
		put_u64(sheet, "rank", (uint64_t)rank->rank);
	else if (rank)
		put_none(sheet, "rank");
	else
		put_text(sheet, "rank", sheet->format == CLI_NDJSON ? "\"all\"" : "all");
}

static void begin(struct sheet *sheet)
{
	sheet->begun = false;
	if (sheet->format == CLI_NDJSON)
		printf("{\"type\":\"%s\"", sheet->type);
}

static void end(struct sheet *sheet)
{
	puts(sheet->format == CLI_NDJSON ? "}" : "");
}

/* ---- rows ---- */

static void put_figures(struct sheet *sheet, const int64_t *figure, bool device)
{
	for (unsigned i = 0; i < OVERLAP_FIGURES; i++) {
		if (overlap_figures[i].device && !device)
			put_none(sheet, overlap_figures[i].key);
		else
			put_us(sheet, overlap_figures[i].key, figure[i]);
	}
}

static void put_sums(struct sheet *sheet, const struct pfw_overlap_sums *sums)
{
	put_u64(sheet, "events", sums->events);
	put_u64(sheet, "io_calls", sums->io_calls);
	put_u64(sheet, "io_bytes", sums->io_bytes);
	put_u64(sheet, "summed_calls", sums->summed_calls);
	put_us(sheet, "summed", sums->summed_ns);
	put_u64(sheet, "kernel_count", sums->kernels);
	put_u64(sheet, "copy_count", sums->copies);
	put_u64(sheet, "copy_bytes", sums->copy_bytes);
}

static void put_gaps(struct sheet *sheet, const struct pfw_launch_gaps *gaps)
{
	put_u64(sheet, "launches", gaps->count);
	put_u64(sheet, "launches_unknown", gaps->unmatched);
	if (gaps->count) {
		put_us(sheet, "launch_gap", gaps->sum_ns);
		put_us(sheet, "launch_gap_mean", gaps->sum_ns / (int64_t)gaps->count);
		put_us(sheet, "launch_gap_p50", pfw_sketch_quantile(&gaps->gap, 0.5));
		put_us(sheet, "launch_gap_p99", pfw_sketch_quantile(&gaps->gap, 0.99));
		put_us(sheet, "launch_gap_max", gaps->max_ns);
	} else {
		put_none(sheet, "launch_gap");
		put_none(sheet, "launch_gap_mean");
		put_none(sheet, "launch_gap_p50");
		put_none(sheet, "launch_gap_p99");
		put_none(sheet, "launch_gap_max");
	}
}

static void put_straggler(struct sheet *sheet, const struct overlap_straggler *straggler)
{
	if (straggler) {
		put_u64(sheet, "steps_compared", straggler->steps);
		put_us(sheet, "steps_own", straggler->own_ns);
		put_u64(sheet, "steps_slowest", straggler->slowest);
		put_us(sheet, "steps_behind", straggler->behind_ns);
	} else {
		put_none(sheet, "steps_compared");
		put_none(sheet, "steps_own");
		put_none(sheet, "steps_slowest");
		put_none(sheet, "steps_behind");
	}
}

/* Of a rank, or of all together (NULL). */
static void put_row(struct sheet *sheet, const struct overlap_answer *answer,
		    const struct overlap *overlap, const struct overlap_rank *rank)
{
	const struct pfw_overlap *of = rank ? &rank->overlap : NULL;
	const struct pfw_overlap_sums *sums = of ? &of->sums : &answer->totals.sums;
	bool any = of && of->least_ns <= of->greatest_ns;
	int64_t figure[OVERLAP_FIGURES];

	begin(sheet);
	put_rank(sheet, rank);
	if (any)
		put_us(sheet, "ts", of->least_ns);
	else
		put_none(sheet, "ts");
	overlap_measure(of ? of->set_ns : answer->totals.set_ns, figure);
	put_figures(sheet, figure, sums->kernels != 0);
	put_sums(sheet, sums);
	put_gaps(sheet, of ? &of->gaps : &answer->totals.gaps);
	put_straggler(sheet,
		      rank && answer->straggler ? &answer->straggler[rank - overlap->rank] : NULL);
	end(sheet);
}

static void print_ranks(struct sheet *sheet, const struct overlap *overlap,
			const struct overlap_answer *answer)
{
	sheet->type = "rank";
	if (sheet->format != CLI_NDJSON) {
		sheet->header = true;
		put_row(sheet, answer, overlap, NULL);
		sheet->header = false;
	}
	for (size_t i = 0; i < overlap->ranks; i++)
		put_row(sheet, answer, overlap, &overlap->rank[i]);
	put_row(sheet, answer, overlap, NULL);
}

static void put_step(struct sheet *sheet, const struct overlap_steps *steps,
		     const struct overlap_step *step)
{
	int64_t figure[OVERLAP_FIGURES];

	overlap_measure_step(steps, step, figure);
	begin(sheet);
	put_u64(sheet, "step", step->number);
	put_rank(sheet, step->rank);
	put_us(sheet, "ts", step->begin);
	put_figures(sheet, figure, step->rank->overlap.sums.kernels != 0);
	end(sheet);
}

static void print_steps(struct sheet *sheet, const struct overlap *overlap,
			const struct overlap_steps *steps)
{
	static const struct overlap_steps none;
	const struct overlap_step first = { .rank = overlap->rank };

	sheet->type = "step";
	if (sheet->format != CLI_NDJSON && overlap->ranks) {
		sheet->header = true;
		put_step(sheet, &none, &first);
		sheet->header = false;
	}
	for (size_t i = 0; i < steps->count; i++)
		put_step(sheet, steps, &steps->step[i]);
}

static void put_rate(struct sheet *sheet, const char *name, uint64_t count, int64_t ns)
{
	char text[40];

	snprintf(text, sizeof(text), "%.3f", (double)count * 1e9 / (double)ns);
	put_text(sheet, name, text);
}

static void put_bin(struct sheet *sheet, const struct overlap_options *options,
		    const struct overlap_rank *rank, uint64_t number)
{
	const struct overlap_bin *bin = &rank->bin[number];

	begin(sheet);
	put_us(sheet, "ts", options->first_ns + (int64_t)number * options->bin_ns);
	put_us(sheet, "dur", options->bin_ns);
	put_rank(sheet, rank);
	put_u64(sheet, "io_bytes", bin->io_bytes);
	put_rate(sheet, "io_bandwidth", bin->io_bytes, options->bin_ns);
	put_u64(sheet, "io_calls", bin->io_calls);
	put_rate(sheet, "iops", bin->io_calls, options->bin_ns);
	put_us(sheet, "io", bin->io_ns);
	put_us(sheet, "cpu", bin->cpu_ns);
	put_us(sheet, "kernels", bin->gpu_ns);
	put_us(sheet, "copy", bin->copy_ns);
	end(sheet);
}

static void print_series(struct sheet *sheet, const struct overlap *overlap,
			 const struct overlap_options *options)
{
	sheet->type = "bin";
	if (sheet->format != CLI_NDJSON && overlap->ranks) {
		sheet->header = true;
		put_bin(sheet, options, overlap->rank, 0);
		sheet->header = false;
	}
	for (uint64_t i = 0; i < options->bins; i++) {
		for (size_t j = 0; j < overlap->ranks; j++)
			put_bin(sheet, options, &overlap->rank[j], i);
	}
}

int overlap_print_data(const struct overlap *overlap, const struct overlap_options *options,
		       const struct overlap_answer *answer)
{
	struct sheet sheet = { .format = options->format };
	bool all = options->format == CLI_NDJSON;

	/* A table has rows of one kind: what was asked for beside the ranks. */
	if (all || (!options->steps && !options->bin_ns))
		print_ranks(&sheet, overlap, answer);
	if (options->steps)
		print_steps(&sheet, overlap, &answer->steps);
	if (options->bin_ns && (all || !options->steps))
		print_series(&sheet, overlap, options);
	return 0;
}
