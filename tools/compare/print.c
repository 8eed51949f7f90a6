/* tools/compare/print.c - prints the rows of a comparison by their part of the difference. */
#include <errno.h>
#include <math.h>
#include <stdlib.h>

#include "common/base/order.h"
#include "compare/compare.h"
#include "ui/fit.h"
#include "ui/grid.h"

#define COLUMNS_MAX 40

/* The total of an average run of a side. */
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

	return PFW_ORDER(y->size, x->size) ?: PFW_ORDER(x->row, y->row);
}

/* ---- columns ---- */

/* When a column is shown to people. */
enum when { NEVER, ALWAYS, ALONE, BESIDE, RUNS };

static size_t make_columns(const struct compare *compare, struct grid_column *column)
{
	static const struct {
		const char *key, *title;
		enum grid_kind kind;
		enum when when;
	} all[] = {
		{ "count_a", "Calls A", GRID_NUMBER, ALWAYS },
		{ "count_b", "Calls B", GRID_NUMBER, ALWAYS },
		{ "total_a", "Total A", GRID_NS, ALWAYS },
		{ "total_b", "Total B", GRID_NS, ALWAYS },
		{ "difference", "Difference", GRID_NS, ALWAYS },
		{ "mean_a", NULL, GRID_NS, NEVER },
		{ "mean_b", NULL, GRID_NS, NEVER },
		/* `change` is the change of these. */
		{ "typical_a", "Typical A", GRID_NS, ALWAYS },
		{ "typical_b", "Typical B", GRID_NS, ALWAYS },
		{ "change", "Change", GRID_CHANGE, ALWAYS },
		{ "change_low", "from", GRID_CHANGE, ALONE },
		{ "change_high", "to", GRID_CHANGE, ALONE },
		{ "beside", "Beside the rest", GRID_CHANGE, BESIDE },
		{ "beside_low", "from", GRID_CHANGE, BESIDE },
		{ "beside_high", "to", GRID_CHANGE, BESIDE },
		{ "total_change", "Total", GRID_CHANGE, RUNS },
		{ "total_low", "from", GRID_CHANGE, RUNS },
		{ "total_high", "to", GRID_CHANGE, RUNS },
		{ "p", "p", GRID_NUMBER, ALWAYS },
		{ "significant", "Significant", GRID_YES, ALWAYS },
	};
	bool runs = compare->several;
	bool beside = compare->has_together;
	const bool shown[] = {
		[ALWAYS] = true, [ALONE] = runs || !beside, [BESIDE] = beside, [RUNS] = runs
	};
	size_t at = 0;

	for (unsigned i = 0; i < compare->table.fields; i++)
		column[at++] = table_fields[compare->table.field[i]];
	for (size_t i = 0; i < CLI_ARRAY_LEN(all); i++)
		column[at++] = (struct grid_column){ all[i].key,
						     shown[all[i].when] ? all[i].title : NULL,
						     all[i].kind };
	return at;
}

/* ---- what was not recorded ---- */

/* Whether conditions leave out single events, so that a side may have more than its rows show. */
static bool is_narrow(const struct pfw_select *select)
{
	return select->name.count || select->fname.count || select->step.count ||
	       select->has_min_dur || select->where_count;
}

/* Whether a side recorded nothing of a row's kind, so that its figures are not known. */
static bool is_unrecorded(const struct compare *compare, const struct compare_row *row,
			  unsigned side)
{
	const struct compare_side *of = &compare->side[side];

	return !row->sum[side].count && !(row->kinds & (of->kinds | ~COMPARE_MAY_LACK)) &&
	       !is_narrow(&of->select);
}

static void print_unrecorded(const struct compare *compare)
{
	static const char *const figures[][2] = {
		[PFW_COMPARE_IO] = { "I/O of A", "I/O of B" },
		[PFW_COMPARE_OPERATOR] = { "Operators of A", "Operators of B" },
		[PFW_COMPARE_GPU] = { "GPU of A", "GPU of B" },
	};
	static const enum unrecorded kinds[] = { [PFW_COMPARE_IO] = UNRECORDED_IO,
						 [PFW_COMPARE_OPERATOR] = UNRECORDED_OPERATORS,
						 [PFW_COMPARE_GPU] = UNRECORDED_KERNELS };
	bool any = false;

	for (unsigned i = 0; i < 2 * CLI_ARRAY_LEN(figures); i++) {
		unsigned side = i % 2, lacks = 0;

		for (size_t j = 0; j < compare->rows; j++) {
			if (is_unrecorded(compare, &compare->row[j], side))
				lacks |= compare->row[j].kinds;
		}
		if (lacks >> i / 2 & 1)
			unrecorded_say(figures[i / 2][side], kinds[i / 2],
				       select_args_but_rank(&compare->side[side].select), &any);
	}
}

/* ---- rows ---- */

static double percent(double log)
{
	return 100 * expm1(log);
}

/* For people: an interval this wide, a factor of 100, says nothing of the change. */
static bool is_vague(const struct compare *compare, const struct compare_change *change)
{
	return cli_for_people(compare->survey.format) && change->bounded &&
	       !(change->high - change->low <= log(100));
}

static void put_change(const struct compare *compare, struct grid *grid,
		       const struct compare_change *change)
{
	if (is_vague(compare, change)) {
		for (unsigned i = 0; i < 3; i++)
			grid_digits(grid, "?", 1);
		return;
	}
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

/* The count of an average run; mostly all runs have the same. */
static void put_count(struct grid *grid, uint64_t count, size_t runs)
{
	if (count % runs == 0)
		grid_u64(grid, GRID_COUNT, count / runs);
	else
		grid_number(grid, GRID_NUMBER, (double)count / (double)runs);
}

/* The mean of no calls is 0 / 0, which is none. */
static void put_ns(struct grid *grid, double ns)
{
	grid_maybe(grid, GRID_NS, !isnan(ns), isnan(ns) ? 0 : llround(ns));
}

static void put_row(const struct compare *compare, struct grid *grid, size_t number)
{
	const struct compare_row *row = &compare->row[number];
	struct compare_change total = row->total;

	put_fields(compare, grid, number);
	for (unsigned i = 0; i < 2; i++) {
		if (is_unrecorded(compare, row, i))
			grid_none(grid);
		else
			put_count(grid, row->sum[i].count, compare->side[i].runs);
	}
	for (unsigned i = 0; i < 2; i++)
		put_ns(grid, is_unrecorded(compare, row, i) ? NAN : per_run(compare, row, i));
	put_ns(grid, is_unrecorded(compare, row, 0) || is_unrecorded(compare, row, 1)
			     ? NAN
			     : difference(compare, row));
	for (unsigned i = 0; i < 2; i++)
		put_ns(grid, (double)row->sum[i].total_ns / (double)row->sum[i].count);
	for (unsigned i = 0; i < 2; i++)
		put_ns(grid, exp(compare_typical(&row->sum[i])));
	put_change(compare, grid, &row->change);
	put_change(compare, grid, &row->beside);
	total.known = row->sum[0].total_ns > 0 && row->sum[1].total_ns > 0;
	if (!total.bounded && total.known)
		total.value = log(per_run(compare, row, 1) / per_run(compare, row, 0));
	put_change(compare, grid, &total);
	grid_number(grid, GRID_NUMBER, row->tested ? row->p : NAN);
	grid_whole(grid, GRID_YES, row->significant);
}

/* ---- wall time ---- */

/* Of an average run of a side, in ns; NAN: no line has a time. */
static double wall_ns(const struct compare_side *side)
{
	double ns = 0;

	for (size_t i = 0; i < side->runs; i++) {
		if (side->least_ns[i] > side->greatest_ns[i])
			return NAN;
		ns += (double)((uint64_t)side->greatest_ns[i] - (uint64_t)side->least_ns[i]);
	}
	return ns / (double)side->runs;
}

static void print_wall(const struct compare *compare, FILE *out)
{
	double a = wall_ns(&compare->side[0]), b = wall_ns(&compare->side[1]);

	if (isnan(a) || isnan(b))
		return;
	fprintf(out, "Wall time: A %s", cli_time(llround(a)));
	fprintf(out, ", B %s", cli_time(llround(b)));
	if (a > 0)
		fprintf(out, " (%+.1f%%)", 100 * (b - a) / a);
	fputs(compare->several ? ", the mean of the runs\n\n" : "\n\n", out);
}

/* ---- summary ---- */

/* A row for programs. */
static void print_all(const struct compare *compare, FILE *out, size_t significant)
{
	static const struct grid_column columns[] = {
		{ "runs_a", NULL, GRID_COUNT },	     { "runs_b", NULL, GRID_COUNT },
		{ "rows", NULL, GRID_COUNT },	     { "tested", NULL, GRID_COUNT },
		{ "significant", NULL, GRID_COUNT }, { "wall_a", NULL, GRID_NS },
		{ "wall_b", NULL, GRID_NS },	     { "together", NULL, GRID_SIX },
	};
	struct grid grid = { .column = columns, .columns = CLI_ARRAY_LEN(columns) };

	GRID_PUT(&grid, compare->side[0].runs, compare->side[1].runs, compare->rows,
		 compare->tested, significant);
	put_ns(&grid, wall_ns(&compare->side[0]));
	put_ns(&grid, wall_ns(&compare->side[1]));
	grid_number(&grid, GRID_SIX, compare->has_together ? percent(compare->together) : NAN);
	grid_print(&grid, out, CLI_NDJSON, "all");
	grid_release(&grid);
}

static void print_summary(const struct compare *compare, FILE *out)
{
	size_t significant = 0;
	const char *lines = compare->survey.format == CLI_MD ? "\n" : "";

	for (size_t i = 0; i < compare->rows; i++)
		significant += compare->row[i].significant;
	if (compare->survey.format == CLI_NDJSON) {
		print_all(compare, out, significant);
		return;
	}
	fprintf(out, "\n%s of %s rows tested differ (5 %%, Holm); %s run%s against %s.\n",
		cli_count(significant), cli_count(compare->tested),
		cli_count(compare->side[0].runs), cli_plural(compare->side[0].runs),
		cli_count(compare->side[1].runs));
	if (compare->has_together) {
		fputs(lines, out);
		fit_words(out, 0, 0, "The middle row changed by %+.1f %%%s.",
			  percent(compare->together),
			  compare->several
				  ? ""
				  : ", which one run per side cannot distinguish from a slow "
				    "machine");
	}
}

int compare_print(const struct compare *compare)
{
	struct grid_column column[COLUMNS_MAX];
	static const char *const few[] = {
		"p", "from|to", "Calls A|Calls B", "Total A|Total B", "Typical A|Typical B", NULL
	};
	struct grid grid = { .column = column,
			     .columns = make_columns(compare, column),
			     .none = "-",
			     .width = compare->survey.width,
			     .few = few };
	struct sorted *sorted = calloc(compare->rows + 1, sizeof(*sorted));
	int error;

	if (!sorted)
		return -ENOMEM;
	for (size_t i = 0; i < compare->rows; i++)
		sorted[i] = (struct sorted){ .size = fabs(difference(compare, &compare->row[i])),
					     .row = i };
	qsort(sorted, compare->rows, sizeof(*sorted), by_size);
	for (size_t i = 0; i < compare->rows; i++) {
		if (compare->survey.row_limit >= 0 && i >= (size_t)compare->survey.row_limit)
			break;
		put_row(compare, &grid, sorted[i].row);
	}
	free(sorted);
	error = grid.failed ? -ENOMEM : 0;
	if (!error) {
		if (cli_for_people(compare->survey.format))
			print_wall(compare, stdout);
		grid_print(&grid, stdout, compare->survey.format,
			   compare->survey.format == CLI_NDJSON ? "row" : NULL);
		if (compare->survey.format != CLI_CSV && compare->survey.format != CLI_TSV)
			print_summary(compare, stdout);
		if (cli_for_people(compare->survey.format))
			print_unrecorded(compare);
	}
	grid_release(&grid);
	return error;
}
