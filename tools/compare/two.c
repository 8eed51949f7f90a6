/* tools/compare/two.c - finds rows that differ between two runs; docs/analysis.rst has the method.
 *
 * The parts of one run show its noise, but not how much two runs of one program differ.  Two things
 * give a hint: how slowly a row's noise moves within the runs, and how the other rows changed.
 */
#include <errno.h>
#include <math.h>
#include <stdlib.h>

#include "compare/compare.h"

/* Samples of each side that a test of a row needs. */
#define SAMPLES_MIN 40u
#define PARTS_MAX 32u
#define KINDS 3u
/* How many other rows show the state of the machine. */
#define OTHERS_MIN 4u
#define OTHERS_MAX 64u
/* Two rows run at the same time if their times overlap by this part of the time that both cover. */
#define SHARED 0.5
/* Slow noise: the variance of the parts beyond the differences of neighbouring parts, or the
 * variance of quarters of the run beyond that of their parts.  By chance alone the factors are
 * rarely exceeded. */
#define QUARTERS 4u
#define SLOW_PARTS 1.8
#define SLOW_QUARTERS 5.0
/* Slow noise between two runs is larger than within one by this factor, and as uncertain. */
#define SLOW_BETWEEN 2.0
#define SLOW_FREEDOM 2.0
/* The other rows differ by more than their errors if their mean square in errors is above this. */
#define OTHERS_SURE 1.8
#define OTHERS_CUT 9.0
#define OTHERS_FREEDOM 2.0
/* With few samples slow noise cannot be told apart: all noise counts as slow. */
#define FEW_FREEDOM 3.0
#define RUN_NOISE 0.012	     /* is always there */
#define RUN_NOISE_ALONE 0.02 /* without other rows */
/* Measured differences of I/O calls between runs that their parts do not show: this factor of the
 * parts' differences, worth as much as so many other rows; and about 9 % where no other rows ran at
 * the same time. */
#define CALLS_OF_PARTS 0.3
#define CALLS_OF_PARTS_FREEDOM 4.0
#define CALLS_ALONE 0.09
#define CALLS_ALONE_FREEDOM 4.0
#define MAD 1.4826 /* standard deviation of a normal distribution in median absolute deviations */

static const unsigned part_count[KINDS] = { 8, 16, 32 };

/* Means of the parts of B minus those of A.  The k-th parts of both runs did the same, so that
 * changes in the course of a program are no noise. */
struct parts {
	struct compare_row *row;
	double parts[KINDS][PARTS_MAX];
	unsigned kind;	    /* index of part_count: as many as the samples allow */
	double share[2][2]; /* of each run: begin and end of the row's calls, 0 to 1 */
};

struct pair {
	struct parts *parts;
	size_t count;
	/* The rows that one row is compared with. */
	size_t other[OTHERS_MAX];
	size_t others;
	bool together;		  /* enough other rows ran at the same time */
	double common[PARTS_MAX]; /* their median in each part, which is subtracted */
	double variance;	  /* between runs, from the other rows */
	double freedom;
	double of_parts; /* the same as a factor of the parts' variance */
	double of_parts_freedom;
};

/* ---- parts ---- */

static void fill_parts(struct parts *parts, struct compare_row *row)
{
	uint32_t samples = row->sampled[0].count < row->sampled[1].count ? row->sampled[0].count
									 : row->sampled[1].count;

	parts->row = row;
	parts->kind = samples < 128 ? 0 : samples < 256 ? 1 : 2;
	for (unsigned i = 0; i < KINDS; i++) {
		double a[PARTS_MAX];

		pfw_sampled_parts(&row->sampled[0], part_count[i], a);
		pfw_sampled_parts(&row->sampled[1], part_count[i], parts->parts[i]);
		for (unsigned j = 0; j < part_count[i]; j++)
			parts->parts[i][j] -= a[j];
	}
}

static void fill_shares(struct pair *pair, unsigned side)
{
	int64_t first = INT64_MAX, last = INT64_MIN;

	for (size_t i = 0; i < pair->count; i++) {
		const struct compare_row *row = pair->parts[i].row;

		first = row->sum[side].first_ns < first ? row->sum[side].first_ns : first;
		last = row->sum[side].last_ns > last ? row->sum[side].last_ns : last;
	}
	for (size_t i = 0; i < pair->count; i++) {
		struct parts *parts = &pair->parts[i];
		const struct pfw_compare_sums *sum = &parts->row->sum[side];
		double all = fmax((double)last - (double)first, 1);

		parts->share[side][0] = ((double)sum->first_ns - (double)first) / all;
		parts->share[side][1] = ((double)sum->last_ns - (double)first) / all;
	}
}

/* ---- others ---- */

static bool is_io(const struct compare_row *row)
{
	return row->kinds >> PFW_COMPARE_IO & 1;
}

static bool of_one_time(const struct parts *a, const struct parts *b)
{
	for (unsigned side = 0; side < 2; side++) {
		double first = fmax(a->share[side][0], b->share[side][0]);
		double last = fmin(a->share[side][1], b->share[side][1]);
		double from = fmin(a->share[side][0], b->share[side][0]);
		double to = fmax(a->share[side][1], b->share[side][1]);

		if (last - first < SHARED * (to - from))
			return false;
	}
	return true;
}

/* The rows after this one, then those from the first on, as far as there is room. */
static void find_others(struct pair *pair, size_t row, bool kin, bool timed)
{
	const struct parts *self = &pair->parts[row];

	pair->others = 0;
	for (size_t i = 1; i < pair->count && pair->others < OTHERS_MAX; i++) {
		size_t at = (row + i) % pair->count;
		const struct parts *other = &pair->parts[at];

		if ((!kin || is_io(other->row) == is_io(self->row)) &&
		    (!timed || of_one_time(self, other)))
			pair->other[pair->others++] = at;
	}
}

static struct pfw_estimate beside_common(const struct pair *pair, size_t row, unsigned kind,
					 double *rest)
{
	for (unsigned j = 0; j < part_count[kind]; j++)
		rest[j] = pair->parts[row].parts[kind][j] - pair->common[j];
	return pfw_estimate_mean(rest, part_count[kind]);
}

/* The median of the other rows in each part, or 0. */
static void find_common(struct pair *pair, unsigned kind, bool any)
{
	double value[OTHERS_MAX];

	for (unsigned j = 0; j < part_count[kind]; j++) {
		for (size_t i = 0; i < pair->others; i++)
			value[i] = pair->parts[pair->other[i]].parts[kind][j];
		pair->common[j] = any ? pfw_median(value, pair->others) : 0;
	}
}

static double square(double value)
{
	return value * value;
}

/* The deviation of the other rows beyond their errors. */
static void find_variance(struct pair *pair, unsigned kind)
{
	double off[OTHERS_MAX], errors[OTHERS_MAX], rest[PARTS_MAX], squares = 0, mean = 0, spread;
	double count = (double)pair->others, of_parts = -count / part_count[kind];

	pair->variance = 0;
	pair->freedom = 1;
	pair->of_parts = square(CALLS_OF_PARTS);
	pair->of_parts_freedom = CALLS_OF_PARTS_FREEDOM;
	if (!pair->others)
		return;
	for (size_t i = 0; i < pair->others; i++) {
		struct pfw_estimate other = beside_common(pair, pair->other[i], kind, rest);

		off[i] = fabs(other.mean);
		errors[i] = other.error * other.error;
		mean += other.mean * other.mean / count;
		squares += fmin(OTHERS_CUT, other.mean * other.mean / fmax(errors[i], 1e-12));
		of_parts += fmin(1, other.mean * other.mean /
					    fmax(errors[i] * part_count[kind], 1e-12));
	}
	pair->of_parts_freedom += count;
	pair->of_parts = pair->of_parts * CALLS_OF_PARTS_FREEDOM + fmax(0, of_parts);
	pair->of_parts /= pair->of_parts_freedom;
	spread = sqrt(mean);
	/* The median of few values is too small. */
	if (pair->others >= OTHERS_MIN)
		spread = MAD * sqrt(count / (count - 1)) * pfw_median(off, pair->others);
	if (squares >= OTHERS_SURE * count)
		pair->variance = fmax(0, spread * spread - pfw_median(errors, pair->others));
	pair->freedom = fmin(count, OTHERS_FREEDOM);
}

/* ---- one row ---- */

/* The variance of noise slower than the parts, which the error of the mean does not contain. */
static double slow_variance(const double *part, unsigned count)
{
	double quarter[QUARTERS] = { 0 }, steps = 0, variance, quarters, per = count / QUARTERS;
	struct pfw_estimate all = pfw_estimate_mean(part, count), coarse;

	for (unsigned j = 0; j < count; j++)
		quarter[j * QUARTERS / count] += part[j] / per;
	for (unsigned j = 1; j < count; j++)
		steps += (part[j] - part[j - 1]) * (part[j] - part[j - 1]) / 2 / (count - 1);
	coarse = pfw_estimate_mean(quarter, QUARTERS);
	variance = all.error * all.error * count;
	quarters = coarse.error * coarse.error * QUARTERS;
	return fmax(0,
		    fmax(variance - SLOW_PARTS * steps, quarters - SLOW_QUARTERS * variance / per));
}

/* The estimate with the noise between runs, by Satterthwaite's formula; `always` is a constant and
 * adds no uncertainty. */
static struct pfw_estimate with_noise(const struct pair *pair, const struct parts *parts,
				      const double *part, struct pfw_estimate estimate)
{
	unsigned count = part_count[parts->kind];
	bool few = parts->kind < KINDS - 1, io = is_io(parts->row);
	double own = square(estimate.error);
	double slow = few ? own * count : slow_variance(part, count);
	double between = square(SLOW_BETWEEN) * slow;
	double alone = io && !pair->together ? square(CALLS_ALONE) : 0;
	double of_parts = io ? pair->of_parts * own * count : 0;
	double variance = io && pair->together ? 0 : pair->variance;
	double always = square(pair->others ? RUN_NOISE : RUN_NOISE_ALONE);
	double all = own + between + variance + alone + of_parts + always;
	double unsure = square(own) / estimate.freedom +
			square(between) / (few ? FEW_FREEDOM : SLOW_FREEDOM) +
			square(variance) / pair->freedom + square(alone) / CALLS_ALONE_FREEDOM +
			square(of_parts) / pair->of_parts_freedom;

	estimate.error = sqrt(all);
	estimate.freedom = unsure > 0 ? fmin(square(all) / unsure, 1e6) : 1e6;
	return estimate;
}

static void judge_row(struct pair *pair, size_t number)
{
	struct parts *parts = &pair->parts[number];
	double rest[PARTS_MAX];
	struct pfw_estimate estimate;

	find_others(pair, number, true, true);
	pair->together = pair->others >= OTHERS_MIN;
	if (!pair->together)
		find_others(pair, number, true, false);
	if (!pair->others)
		find_others(pair, number, false, false);
	find_common(pair, parts->kind, pair->together);
	find_variance(pair, parts->kind);
	estimate = beside_common(pair, number, parts->kind, rest);
	estimate = with_noise(pair, parts, rest, estimate);
	*(pair->together ? &parts->row->beside : &parts->row->change) = compare_change_of(estimate);
}

/* The median change of the rows that were compared with others of their time. */
static int find_together(struct compare *compare, const struct pair *pair)
{
	double *value = calloc(pair->count + 1, sizeof(*value));
	size_t count = 0;

	if (!value)
		return -ENOMEM;
	for (size_t i = 0; i < pair->count; i++) {
		if (pair->parts[i].row->beside.known)
			value[count++] = pair->parts[i].row->change.value;
	}
	compare->has_together = count > 0;
	if (count)
		compare->together = pfw_median(value, count);
	free(value);
	return 0;
}

int compare_judge_two(struct compare *compare)
{
	struct pair pair = { .parts = calloc(compare->rows + 1, sizeof(*pair.parts)) };
	int error;

	if (!pair.parts)
		return -ENOMEM;
	for (size_t i = 0; i < compare->rows; i++) {
		struct compare_row *row = &compare->row[i];

		if (row->sampled[0].count < SAMPLES_MIN || row->sampled[1].count < SAMPLES_MIN)
			continue;
		pfw_sampled_sort(&row->sampled[0]);
		pfw_sampled_sort(&row->sampled[1]);
		fill_parts(&pair.parts[pair.count++], row);
	}
	for (unsigned side = 0; side < 2; side++)
		fill_shares(&pair, side);
	for (size_t i = 0; i < pair.count; i++)
		judge_row(&pair, i);
	error = find_together(compare, &pair);
	free(pair.parts);
	return error;
}
