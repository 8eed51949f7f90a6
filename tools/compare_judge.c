/* compare_judge.c - which rows of a comparison have changed: see docs/analysis.rst for the method.
 *
 * Everything is done on logarithms of durations: a call in a thousand that takes a thousand times as
 * long would hide any change of a plain mean.
 */
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "compare.h"

#define LEVEL 0.05
/* Of each side, for a row to be tested where a side is one run. */
#define SAMPLES_MIN 40u
#define PARTS_MAX 32u
/* Rows that tell what the others' noise is. */
#define OTHERS_MIN 4u
/* Up to here a row is judged by the others without itself; beyond, it hardly moves their median. */
#define LEAVE_OUT_MAX 64u
/* Of the noise between two runs, which is known only by how the rows differ, and has tails: where it
 * is great, and where it is little. */
#define RUN_FREEDOM 2.0
#define LITTLE_FREEDOM 4.0
#define RUN_NOISE 0.015	     /* that there is always */
#define RUN_NOISE_ALONE 0.02 /* where nothing tells */
/* What repeats to a part in a million is as good as equal. */
#define LEAST_VARIANCE 1e-12
/* The others differ by more than their errors: this many normal deviations of chi-squared, one case
 * of five by chance. */
#define SPREAD_SURE 0.84
#define SPREAD_LITTLE 3.0 /* mean square, in errors, of what is cut at three of them */
#define MAD 1.4826	  /* of a normal distribution: its deviation is so many median ones */

/* ---- changes ---- */

static struct compare_change as_change(struct pfw_estimate estimate)
{
	struct compare_change change = { .known = true,
					 .value = estimate.mean,
					 .p = pfw_estimate_p(estimate) };
	double reach;

	if (!(estimate.freedom > 0))
		return change;
	reach = pfw_student_t(LEVEL, estimate.freedom) * estimate.error;
	change.bounded = true;
	change.low = estimate.mean - reach;
	change.high = estimate.mean + reach;
	return change;
}

static const struct compare_cell *cells_of(const struct compare *compare,
					   const struct compare_row *row, unsigned side)
{
	return row->cell + (side ? compare->side[0].runs : 0);
}

static double typical(const struct compare_cell *cell)
{
	return cell->log_sum / (double)cell->samples;
}

/* ---- one run a side: parts of it ---- */

/* Means of the parts of B less those of A: the k-th part of one run did what that of the other did,
 * so that what changes in the course of a program is no noise. */
struct parts {
	struct compare_row *row;
	double parts[3][PARTS_MAX]; /* in 8, 16 and 32 */
	unsigned kind;		    /* how many its samples are enough for */
};

static const unsigned part_count[3] = { 8, 16, 32 };

static void fill_parts(struct parts *parts, struct compare_row *row)
{
	uint64_t samples = row->batch[0].count < row->batch[1].count ? row->batch[0].count
								     : row->batch[1].count;

	parts->row = row;
	parts->kind = samples < 128 ? 0 : samples < 256 ? 1 : 2;
	for (unsigned i = 0; i < 3; i++) {
		double a[PARTS_MAX];

		pfw_batches_parts(&row->batch[0], part_count[i], a);
		pfw_batches_parts(&row->batch[1], part_count[i], parts->parts[i]);
		for (unsigned j = 0; j < part_count[i]; j++)
			parts->parts[i][j] -= a[j];
	}
}

/* What rows other than one say of the noise between the two runs. */
struct noise {
	double common[PARTS_MAX]; /* the middle of the others in each part */
	double shift;		  /* what the others are off from that, in the middle */
	double widening;	  /* how much too small the others' errors are; at least 1 */
	double variance;	  /* between rows, which no error explains */
	double freedom;		  /* of these two */
};

/* Rows but `but`: their estimates beside noise->common. */
static size_t others(const struct parts *parts, size_t count, size_t but, unsigned kind,
		     const struct noise *noise, struct pfw_estimate *estimate)
{
	size_t found = 0;

	for (size_t i = 0; i < count; i++) {
		double rest[PARTS_MAX];

		if (i == but)
			continue;
		for (unsigned j = 0; j < part_count[kind]; j++)
			rest[j] = parts[i].parts[kind][j] - noise->common[j];
		estimate[found] = pfw_estimate_mean(rest, part_count[kind]);
		estimate[found++].error += RUN_NOISE / 100; /* never 0 */
	}
	return found;
}

static void find_common(const struct parts *parts, size_t count, size_t but, unsigned kind,
			struct noise *noise, double *scratch)
{
	for (unsigned j = 0; j < part_count[kind]; j++) {
		size_t found = 0;

		for (size_t i = 0; i < count; i++) {
			if (i != but)
				scratch[found++] = parts[i].parts[kind][j];
		}
		noise->common[j] = pfw_median(scratch, found);
	}
}

/* The noise that rows show.  `but`: the row that is judged; `count`: none. */
static void find_noise(const struct parts *parts, size_t count, size_t but, unsigned kind,
		       struct noise *noise, struct pfw_estimate *estimate, double *scratch)
{
	double small, errors, squares = 0, spread;
	size_t found;

	find_common(parts, count, but, kind, noise, scratch);
	found = others(parts, count, but, kind, noise, estimate);
	for (size_t i = 0; i < found; i++)
		scratch[i] = estimate[i].mean;
	noise->shift = pfw_median(scratch, found);
	/* A median of few is too small. */
	small = MAD * sqrt((double)found / ((double)found - 1));
	for (size_t i = 0; i < found; i++) {
		double z = (estimate[i].mean - noise->shift) / estimate[i].error;

		scratch[i] = fabs(z);
		squares += fmin(z * z, 9);
	}
	noise->widening = fmax(1, small * pfw_median(scratch, found));
	for (size_t i = 0; i < found; i++)
		scratch[i] = fabs(estimate[i].mean - noise->shift);
	spread = small * pfw_median(scratch, found);
	for (size_t i = 0; i < found; i++)
		scratch[i] = estimate[i].error * estimate[i].error;
	errors = pfw_median(scratch, found);
	noise->variance = fmax(0, spread * spread - errors);
	noise->freedom = RUN_FREEDOM;
	if (squares < SPREAD_LITTLE * ((double)found - 1)) {
		/* Little: the mean square tells it better than a median of few. */
		noise->variance = 0;
		noise->freedom = LITTLE_FREEDOM;
		noise->widening = sqrt(fmax(1, squares / ((double)found - 1)));
		/* No more than their errors say: then take these for right. */
		if (squares < pfw_chi_squared((double)found - 1, SPREAD_SURE))
			noise->widening = 1;
	}
}

static struct pfw_estimate with_noise(struct pfw_estimate estimate, const struct noise *noise,
				      double always)
{
	double own = estimate.error * estimate.error;
	double runs = (noise->widening * noise->widening - 1) * own + noise->variance;
	double all = own + runs + always * always;

	estimate.mean -= noise->shift;
	estimate.error = sqrt(all);
	/* Satterthwaite's; `always` is no estimate. */
	estimate.freedom =
		all * all / (own * own / estimate.freedom + runs * runs / noise->freedom);
	return estimate;
}

static struct pfw_estimate beside(const struct parts *parts, const struct noise *noise)
{
	double rest[PARTS_MAX];

	for (unsigned j = 0; j < part_count[parts->kind]; j++)
		rest[j] = parts->parts[parts->kind][j] - noise->common[j];
	return with_noise(pfw_estimate_mean(rest, part_count[parts->kind]), noise, RUN_NOISE);
}

/* Too few rows to tell what the runs had in common. */
static void judge_alone(struct parts *parts, size_t count)
{
	static const struct noise none = { .widening = 1, .freedom = 1 };

	for (size_t i = 0; i < count; i++)
		parts[i].row->change = as_change(with_noise(
			pfw_estimate_mean(parts[i].parts[parts[i].kind], part_count[parts[i].kind]),
			&none, RUN_NOISE_ALONE));
}

static int judge_together(struct compare *compare, struct parts *parts, size_t count)
{
	struct pfw_estimate *estimate = calloc(count, sizeof(*estimate));
	double *scratch = calloc(count, sizeof(*scratch));
	struct noise noise[3];
	int error = estimate && scratch ? 0 : -ENOMEM;

	for (unsigned kind = 0; kind < 3 && !error; kind++)
		find_noise(parts, count, count, kind, &noise[kind], estimate, scratch);
	for (size_t i = 0; i < count && !error; i++) {
		unsigned kind = parts[i].kind;
		struct noise left_out;

		if (count <= LEAVE_OUT_MAX)
			find_noise(parts, count, i, kind, &left_out, estimate, scratch);
		parts[i].row->beside = as_change(
			beside(&parts[i], count <= LEAVE_OUT_MAX ? &left_out : &noise[kind]));
	}
	for (size_t i = 0; i < count && !error; i++)
		scratch[i] = parts[i].row->change.value;
	if (!error) {
		compare->together = pfw_median(scratch, count);
		compare->has_together = true;
	}
	free(estimate);
	free(scratch);
	return error;
}

static int judge_two(struct compare *compare)
{
	struct parts *parts = calloc(compare->rows + 1, sizeof(*parts));
	size_t count = 0;
	int error = 0;

	if (!parts)
		return -ENOMEM;
	for (size_t i = 0; i < compare->rows; i++) {
		struct compare_row *row = &compare->row[i];

		if (row->batch[0].count >= SAMPLES_MIN && row->batch[1].count >= SAMPLES_MIN)
			fill_parts(&parts[count++], row);
	}
	if (count > OTHERS_MIN)
		error = judge_together(compare, parts, count);
	else
		judge_alone(parts, count);
	free(parts);
	return error;
}

/* ---- several runs: each is one value ---- */

/* Of the values of all runs, those of A first. */
static struct compare_change change_of(const struct compare *compare, const double *value)
{
	size_t a = compare->side[0].runs, b = compare->side[1].runs;
	struct pfw_estimate estimate = pfw_estimate_difference(pfw_estimate_mean(value, a), a,
							       pfw_estimate_mean(value + a, b), b);

	estimate.error = sqrt(estimate.error * estimate.error + LEAST_VARIANCE);
	return as_change(estimate);
}

static bool in_all_runs(const struct compare *compare, const struct compare_row *row)
{
	for (size_t i = 0; i < compare->side[0].runs + compare->side[1].runs; i++) {
		if (!row->cell[i].samples)
			return false;
	}
	return true;
}

/* What each run is off from the others in the middle of the rows: a slow moment of the machine is in
 * all of them. */
static void find_offsets(struct compare *compare, struct compare_row *const *row, size_t rows,
			 double *offset, double *scratch)
{
	size_t runs = compare->side[0].runs + compare->side[1].runs;

	for (size_t run = 0; run < runs; run++) {
		for (size_t i = 0; i < rows; i++) {
			double mean = 0;

			for (size_t j = 0; j < runs; j++)
				mean += typical(&row[i]->cell[j]) / (double)runs;
			scratch[i] = typical(&row[i]->cell[run]) - mean;
		}
		offset[run] = pfw_median(scratch, rows);
	}
}

static void judge_row(const struct compare *compare, struct compare_row *row, const double *offset,
		      double *value)
{
	size_t runs = compare->side[0].runs + compare->side[1].runs;

	for (size_t i = 0; i < runs; i++)
		value[i] = typical(&row->cell[i]);
	row->change = change_of(compare, value);
	for (size_t i = 0; i < runs && compare->has_together; i++)
		value[i] -= offset[i];
	if (compare->has_together)
		row->beside = change_of(compare, value);
	for (size_t i = 0; i < runs; i++)
		value[i] = row->cell[i].total_ns > 0 ? log((double)row->cell[i].total_ns) : 0;
	row->total = change_of(compare, value);
}

static int judge_runs(struct compare *compare)
{
	size_t runs = compare->side[0].runs + compare->side[1].runs, rows = 0;
	struct compare_row **row = calloc(compare->rows + 1, sizeof(*row));
	double *scratch = calloc(compare->rows + 1, sizeof(*scratch));
	double *offset = calloc(2 * runs, sizeof(*offset));
	int error = row && scratch && offset ? 0 : -ENOMEM;

	for (size_t i = 0; i < compare->rows && !error; i++) {
		if (in_all_runs(compare, &compare->row[i]))
			row[rows++] = &compare->row[i];
	}
	if (!error && rows > OTHERS_MIN) {
		find_offsets(compare, row, rows, offset, scratch);
		compare->together = change_of(compare, offset).value;
		compare->has_together = true;
	}
	for (size_t i = 0; i < rows && !error; i++)
		judge_row(compare, row[i], offset, offset + runs);
	free(row);
	free(scratch);
	free(offset);
	return error;
}

/* ---- all together ---- */

/* The probabilities of a row's tests as one: Bonferroni's. */
static double row_p(const struct compare_row *row, unsigned *tests)
{
	const struct compare_change *const changes[] = { &row->change, &row->beside, &row->total };
	double least = 1;

	*tests = 0;
	for (unsigned i = 0; i < 3; i++) {
		if (!changes[i]->bounded)
			continue;
		++*tests;
		least = fmin(least, changes[i]->p);
	}
	return fmin(1, least * *tests);
}

static int correct(struct compare *compare)
{
	double *p = calloc(compare->rows + 1, sizeof(*p));
	unsigned tests;

	if (!p)
		return -ENOMEM;
	for (size_t i = 0; i < compare->rows; i++) {
		p[compare->tested] = row_p(&compare->row[i], &tests);
		compare->row[i].tested = tests > 0;
		compare->tested += tests > 0;
	}
	pfw_holm(p, compare->tested);
	compare->tested = 0;
	for (size_t i = 0; i < compare->rows; i++) {
		struct compare_row *row = &compare->row[i];

		row->p = row->tested ? p[compare->tested++] : 1;
		row->significant = row->tested && row->p < LEVEL;
	}
	free(p);
	return 0;
}

static void sum_up(const struct compare *compare, struct compare_row *row)
{
	for (unsigned side = 0; side < 2; side++) {
		const struct compare_cell *cell = cells_of(compare, row, side);

		for (size_t i = 0; i < compare->side[side].runs; i++) {
			row->sum[side].count += cell[i].count;
			row->sum[side].total_ns += cell[i].total_ns;
			row->sum[side].samples += cell[i].samples;
			row->sum[side].log_sum += cell[i].log_sum;
		}
	}
	if (!row->sum[0].samples || !row->sum[1].samples)
		return;
	row->change.known = true;
	row->change.value = typical(&row->sum[1]) - typical(&row->sum[0]);
}

int compare_judge(struct compare *compare)
{
	int error;

	for (size_t i = 0; i < compare->rows; i++)
		sum_up(compare, &compare->row[i]);
	if (compare->side[0].runs == 1 && compare->side[1].runs == 1)
		error = judge_two(compare);
	else
		error = judge_runs(compare);
	return error ? error : correct(compare);
}

bool compare_fails(const struct compare *compare, const struct compare_row *row)
{
	const struct compare_change *const changes[] = { &row->change, &row->beside, &row->total };

	if (compare->fail_above < 0 || !row->significant)
		return false;
	/* Which of its tests made it significant, of those that got slower. */
	for (unsigned i = 0; i < 3; i++) {
		if (changes[i]->bounded && changes[i]->low > 0 &&
		    changes[i]->value > log1p(compare->fail_above))
			return true;
	}
	return false;
}
