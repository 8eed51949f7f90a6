/* tools/compare/judge.c - decides which rows have changed; docs/analysis.rst has the method.
 *
 * It uses logarithms of durations: one call in a thousand that takes a thousand times as long would
 * hide any change of a plain mean.
 */
#include <errno.h>
#include <math.h>
#include <stdlib.h>

#include "compare/compare.h"
#include "store/math/log.h"

#define LEVEL 0.05
/* How many other rows show what the runs have in common. */
#define OTHERS_MIN 4u
/* Values that repeat to one part in a million count as equal. */
#define LEAST_VARIANCE 1e-12

/* ---- changes ---- */

struct compare_change compare_change_of(struct pfw_estimate estimate)
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

static const struct pfw_compare_sums *cells_of(const struct compare *compare,
					       const struct compare_row *row, unsigned side)
{
	return row->cell + (side ? compare->side[0].runs : 0);
}

double compare_typical(const struct pfw_compare_sums *cell)
{
	return (double)cell->log_sum / PFW_LOG_UNIT / (double)cell->samples;
}

/* ---- several runs: each is one value ---- */

/* The change between the values of all runs, those of A first. */
static struct compare_change change_of(const struct compare *compare, const double *value)
{
	size_t a = compare->side[0].runs, b = compare->side[1].runs;
	struct pfw_estimate estimate = pfw_estimate_difference(pfw_estimate_mean(value, a), a,
							       pfw_estimate_mean(value + a, b), b);

	estimate.error = sqrt(estimate.error * estimate.error + LEAST_VARIANCE);
	return compare_change_of(estimate);
}

static bool in_all_runs(const struct compare *compare, const struct compare_row *row)
{
	for (size_t i = 0; i < compare->side[0].runs + compare->side[1].runs; i++) {
		if (!row->cell[i].samples)
			return false;
	}
	return true;
}

/* The median offset of each run from the others: a slow phase of the machine affects all rows. */
static void find_offsets(struct compare *compare, struct compare_row *const *row, size_t rows,
			 double *offset, double *scratch)
{
	size_t runs = compare->side[0].runs + compare->side[1].runs;

	for (size_t run = 0; run < runs; run++) {
		for (size_t i = 0; i < rows; i++) {
			double mean = 0;

			for (size_t j = 0; j < runs; j++)
				mean += compare_typical(&row[i]->cell[j]) / (double)runs;
			scratch[i] = compare_typical(&row[i]->cell[run]) - mean;
		}
		offset[run] = pfw_median(scratch, rows);
	}
}

static void judge_row(const struct compare *compare, struct compare_row *row, const double *offset,
		      double *value)
{
	size_t runs = compare->side[0].runs + compare->side[1].runs;

	for (size_t i = 0; i < runs; i++)
		value[i] = compare_typical(&row->cell[i]);
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

/* Combine the probabilities of a row's tests by Bonferroni's method. */
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

static void sum_up(struct compare *compare, struct compare_row *row)
{
	for (unsigned side = 0; side < 2; side++) {
		const struct pfw_compare_sums *cell = cells_of(compare, row, side);

		for (size_t i = 0; i < compare->side[side].runs; i++)
			pfw_compare_add_sums(&row->sum[side], &cell[i]);
		row->kinds |= row->sum[side].kinds;
		compare->side[side].kinds |= row->sum[side].kinds;
	}
	if (!row->sum[0].samples || !row->sum[1].samples)
		return;
	row->change.known = true;
	row->change.value = compare_typical(&row->sum[1]) - compare_typical(&row->sum[0]);
}

int compare_judge(struct compare *compare)
{
	int error;

	for (size_t i = 0; i < compare->rows; i++)
		sum_up(compare, &compare->row[i]);
	if (compare->side[0].runs == 1 && compare->side[1].runs == 1)
		error = compare_judge_two(compare);
	else
		error = judge_runs(compare);
	return error ?: correct(compare);
}

bool compare_fails(const struct compare *compare, const struct compare_row *row)
{
	const struct compare_change *const changes[] = { &row->change, &row->beside, &row->total };

	if (compare->fail_above < 0 || !row->significant)
		return false;
	/* Look for a test that made the row significant and shows a slowdown. */
	for (unsigned i = 0; i < 3; i++) {
		if (changes[i]->bounded && changes[i]->low > 0 &&
		    changes[i]->value > log1p(compare->fail_above))
			return true;
	}
	return false;
}
