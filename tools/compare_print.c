/* compare_print.c - the rows of a comparison, sorted by what they add to the difference. */
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "compare.h"
#include "grid.h"
#include "table_output.h"

#define COLUMNS_MAX 40

static const char *const titles[TABLE_FIELDS] = {
	[TABLE_NAME] = "Name", [TABLE_CAT] = "Category", [TABLE_FNAME] = "File",
	[TABLE_RANK] = "Rank", [TABLE_STEP] = "Step",	 [TABLE_TID] = "Tid",
};

/* In an average run of a side. */
static double per_run(const struct compare *compare, const struct compare_row *row, unsigned side)
{
	return (double)row->sum[side].total_ns / (double)compare->side[side].runs;
}

static double difference(const struct compare *compare, const struct compare_row *row)
{
	return per_run(compare, row, 1) - per_run(compare, row, 0);
}

/* ---- order ---- */

struct sorted {
	double size;
	size_t row;
};

static int by_size(const void *a, const void *b)
{
	const struct sorted *x = a, *y = b;

	if (x->size != y->size)
		return x->size < y->size ? 1 : -1;
	return x->row < y->row ? -1 : x->row > y->row;
}

/* ---- columns ---- */

static size_t add_column(struct grid_column *column, size_t at, const char *key, const char *title)
{
	column[at] = (struct grid_column){ .key = key, .title = title };
	return at + 1;
}

static size_t make_columns(const struct compare *compare, struct grid_column *column)
{
	bool runs = compare->side[0].runs > 1 || compare->side[1].runs > 1;
	bool beside = compare->has_together;
	size_t at = 0;

	for (unsigned i = 0; i < compare->table.fields; i++)
		at = add_column(column, at, table_field_name(compare->table.field[i]),
				titles[compare->table.field[i]]);
	at = add_column(column, at, "count_a", "Calls A");
	at = add_column(column, at, "count_b", "Calls B");
	at = add_column(column, at, "total_a", "Total A");
	at = add_column(column, at, "total_b", "Total B");
	at = add_column(column, at, "difference", "Difference");
	at = add_column(column, at, "mean_a", "Mean A");
	at = add_column(column, at, "mean_b", "Mean B");
	at = add_column(column, at, "typical_a", NULL);
	at = add_column(column, at, "typical_b", NULL);
	at = add_column(column, at, "change", "Change");
	at = add_column(column, at, "change_low", runs || !beside ? "from" : NULL);
	at = add_column(column, at, "change_high", runs || !beside ? "to" : NULL);
	at = add_column(column, at, "beside", beside ? "Beside the rest" : NULL);
	at = add_column(column, at, "beside_low", beside ? "from" : NULL);
	at = add_column(column, at, "beside_high", beside ? "to" : NULL);
	at = add_column(column, at, "total_change", runs ? "Total" : NULL);
	at = add_column(column, at, "total_low", runs ? "from" : NULL);
	at = add_column(column, at, "total_high", runs ? "to" : NULL);
	at = add_column(column, at, "p", "p");
	return add_column(column, at, "significant", "Significant");
}

/* ---- rows ---- */

static double percent(double log)
{
	return 100 * expm1(log);
}

static void put_change(struct grid *grid, const struct compare_change *change)
{
	grid_number(grid, GRID_CHANGE, change->known ? percent(change->value) : NAN);
	grid_number(grid, GRID_CHANGE, change->bounded ? percent(change->low) : NAN);
	grid_number(grid, GRID_CHANGE, change->bounded ? percent(change->high) : NAN);
}

static void put_fields(const struct compare *compare, struct grid *grid, size_t number)
{
	const struct pfw_average *key = &compare->keys.row[number];

	for (unsigned i = 0; i < compare->table.fields; i++) {
		size_t bytes;
		const char *text = table_text(key, i, &bytes);

		grid_text(grid, text, bytes);
	}
}

/* In an average run: mostly the same in all. */
static void put_count(struct grid *grid, uint64_t count, size_t runs)
{
	if (count % runs == 0 && count / runs <= INT64_MAX)
		grid_whole(grid, GRID_COUNT, (int64_t)(count / runs));
	else
		grid_number(grid, GRID_NUMBER, (double)count / (double)runs);
}

static void put_row(const struct compare *compare, struct grid *grid, size_t number)
{
	const struct compare_row *row = &compare->row[number];
	struct compare_change total = row->total;

	put_fields(compare, grid, number);
	for (unsigned i = 0; i < 2; i++)
		put_count(grid, row->sum[i].count, compare->side[i].runs);
	for (unsigned i = 0; i < 2; i++)
		grid_whole(grid, GRID_NS, llround(per_run(compare, row, i)));
	grid_whole(grid, GRID_NS, llround(difference(compare, row)));
	for (unsigned i = 0; i < 2; i++) {
		if (row->sum[i].count)
			grid_whole(
				grid, GRID_NS,
				llround((double)row->sum[i].total_ns / (double)row->sum[i].count));
		else
			grid_none(grid);
	}
	for (unsigned i = 0; i < 2; i++) {
		if (row->sum[i].samples)
			grid_whole(grid, GRID_NS,
				   llround(exp(row->sum[i].log_sum / (double)row->sum[i].samples)));
		else
			grid_none(grid);
	}
	put_change(grid, &row->change);
	put_change(grid, &row->beside);
	total.known = row->sum[0].total_ns > 0 && row->sum[1].total_ns > 0;
	if (!total.bounded && total.known)
		total.value = log(per_run(compare, row, 1) / per_run(compare, row, 0));
	put_change(grid, &total);
	grid_number(grid, GRID_NUMBER, row->tested ? row->p : NAN);
	grid_whole(grid, GRID_YES, row->significant);
}

/* ---- what it comes to ---- */

static void print_summary(const struct compare *compare, FILE *out)
{
	size_t significant = 0;
	const char *lines = compare->format == CLI_MD ? "\n" : "";

	for (size_t i = 0; i < compare->rows; i++)
		significant += compare->row[i].significant;
	if (compare->format == CLI_NDJSON) {
		fprintf(out,
			"{\"section\":\"all\",\"runs_a\":%zu,\"runs_b\":%zu,\"rows\":%zu,"
			"\"tested\":%zu,\"significant\":%zu,\"together\":",
			compare->side[0].runs, compare->side[1].runs, compare->rows,
			compare->tested, significant);
		fprintf(out, compare->has_together ? "%.6g}\n" : "null}\n",
			percent(compare->together));
		return;
	}
	fprintf(out, "\n%s of %s rows tested differ (5 %%, Holm); %s run%s against %s.\n",
		cli_count(significant), cli_count(compare->tested),
		cli_count(compare->side[0].runs), cli_plural(compare->side[0].runs),
		cli_count(compare->side[1].runs));
	if (compare->has_together)
		fprintf(out, "%sThe middle row changed by %+.1f %%%s.\n", lines,
			percent(compare->together),
			compare->side[0].runs == 1 && compare->side[1].runs == 1
				? ", which one run a side cannot tell from a slow machine"
				: "");
}

int compare_print(const struct compare *compare)
{
	struct grid_column column[COLUMNS_MAX];
	struct grid grid = { .column = column, .columns = make_columns(compare, column) };
	struct sorted *sorted = calloc(compare->rows + 1, sizeof(*sorted));
	int error;

	if (!sorted)
		return -ENOMEM;
	for (size_t i = 0; i < compare->rows; i++)
		sorted[i] = (struct sorted){ .size = fabs(difference(compare, &compare->row[i])),
					     .row = i };
	qsort(sorted, compare->rows, sizeof(*sorted), by_size);
	for (size_t i = 0; i < compare->rows; i++) {
		if (compare->row_limit >= 0 && i >= (size_t)compare->row_limit)
			break;
		put_row(compare, &grid, sorted[i].row);
	}
	free(sorted);
	error = grid.failed ? -ENOMEM : 0;
	if (!error) {
		grid_print(&grid, stdout, compare->format,
			   compare->format == CLI_NDJSON ? "row" : NULL);
		if (compare->format != CLI_CSV && compare->format != CLI_TSV)
			print_summary(compare, stdout);
	}
	grid_release(&grid);
	return error;
}
