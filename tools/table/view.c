/* tools/table/view.c - the rows of a section in the order in which they are shown. */
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "store/kit/saturate.h"
#include "store/line/step_name.h"
#include "table/columns.h"

void table_add_apart(int64_t apart_ns[TABLE_APART], const struct pfw_slice *cat, int64_t ns)
{
	if (pfw_slice_is(cat, "NET"))
		pfw_saturate_sum(&apart_ns[TABLE_NET], ns);
	else if (pfw_slice_is(cat, "SYNC"))
		pfw_saturate_sum(&apart_ns[TABLE_SYNC], ns);
}

/* ---- order ---- */

struct order {
	const struct table_view *view;
	const struct table_column *column; /* NULL: none */
	bool by_key;			   /* torch's: the greatest first */
	bool by_name;			   /* ours: all fields, the least first */
	bool by_file; /* files with equal sums are ordered by name, as in indexes */
};

static int compare_texts(const char *a, size_t a_bytes, const char *b, size_t b_bytes)
{
	int order = memcmp(a, b, a_bytes < b_bytes ? a_bytes : b_bytes);

	return order ? order : (a_bytes > b_bytes) - (a_bytes < b_bytes);
}

/* By the texts of their keys, field by field. */
static int compare_keys(const struct pfw_average *a, const struct pfw_average *b)
{
	const char *one = a->key + PFW_TABLE_KEY_HEAD, *end = a->key + a->key_bytes;
	const char *other = b->key + PFW_TABLE_KEY_HEAD;
	int order = memcmp(a->key, b->key, PFW_TABLE_KEY_HEAD);

	while (!order && one < end) {
		uint32_t bytes, other_bytes;

		memcpy(&bytes, one, sizeof(bytes));
		memcpy(&other_bytes, other, sizeof(other_bytes));
		one += sizeof(bytes);
		other += sizeof(other_bytes);
		order = compare_texts(one, bytes, other, other_bytes);
		one += bytes;
		other += other_bytes;
	}
	return order;
}

static bool is_number(const char *text, size_t bytes)
{
	size_t digits = 0;

	while (digits < bytes && text[digits] >= '0' && text[digits] <= '9')
		digits++;
	return bytes && digits == bytes;
}

/* Field by field; ranks, steps, pids and the like as numbers. */
static int compare_names(const struct pfw_average *a, const struct pfw_average *b, unsigned fields)
{
	int order = 0;

	for (unsigned i = 0; i < fields && !order; i++) {
		size_t one_bytes, other_bytes;
		const char *one = table_text(a, i, &one_bytes);
		const char *other = table_text(b, i, &other_bytes);

		if (one_bytes != other_bytes && is_number(one, one_bytes) &&
		    is_number(other, other_bytes))
			order = one_bytes < other_bytes ? -1 : 1;
		else
			order = compare_texts(one, one_bytes, other, other_bytes);
	}
	return order;
}

/* torch's order of compute: by the begin of the first event, longer events first.  I/O: by time. */
static int compare_usual(const struct pfw_average *a, const struct pfw_average *b,
			 enum pfw_table_section section)
{
	const struct pfw_tally *left = &a->sums, *right = &b->sums;

	if (section == PFW_TABLE_IO && left->total_ns != right->total_ns)
		return left->total_ns > right->total_ns ? -1 : 1;
	if (section == PFW_TABLE_COMPUTE && left->first_ns != right->first_ns)
		return left->first_ns < right->first_ns ? -1 : 1;
	if (section == PFW_TABLE_COMPUTE && left->first_dur_ns != right->first_dur_ns)
		return left->first_dur_ns > right->first_dur_ns ? -1 : 1;
	return compare_keys(a, b);
}

static int compare(const void *a, const void *b, void *user)
{
	const struct pfw_average *left = *(const struct pfw_average *const *)a;
	const struct pfw_average *right = *(const struct pfw_average *const *)b;
	const struct order *order = user;

	if (order->by_name) {
		int found = compare_names(left, right, order->view->options->fields);

		if (found)
			return found;
	} else if (order->by_key) {
		size_t left_bytes, right_bytes;
		const char *one = table_text(left, 0, &left_bytes);
		const char *other = table_text(right, 0, &right_bytes);
		int found;

		/* Largest first, as for all keys. */
		found = compare_texts(other, right_bytes, one, left_bytes);
		if (found)
			return found;
	} else if (order->column) {
		double one = table_column_value(order->column, left, order->view);
		double other = table_column_value(order->column, right, order->view);

		/* Rows without a value (NAN) come last. */
		if (one > other || (one == one && other != other))
			return -1;
		if (one < other || (one != one && other == other))
			return 1;
		if (order->by_file)
			return compare_keys(left, right);
	}
	return compare_usual(left, right, order->view->section);
}

/* ---- figures of all rows ---- */

const char *table_device_name(int device)
{
	static const struct {
		int device;
		const char *name;
	} names[] = {
		{ 0, "CPU" }, { 12, "XPU" }, { 15, "HPU" }, { 19, "MTIA" }, { 20, "PRIVATEUSEONE" },
	};

	for (size_t i = 0; i < CLI_ARRAY_LEN(names); i++) {
		if (names[i].device == device)
			return names[i].name;
	}
	return "CUDA";
}

static void note(struct table_view *view, const struct pfw_average *row)
{
	const struct pfw_tally *sums = &row->sums;

	if (table_device(row))
		view->device = table_device_name(table_device(row));
	view->has_device |= sums->self_device_ns > 0;
	view->has_memory |= sums->cpu_memory || sums->device_memory || sums->self_cpu_memory ||
			    sums->self_device_memory;
	view->has_device_memory |= sums->self_device_memory > 0;
	view->has_percentiles |= row->durations.total > 0 || (view->table->late && sums->timed);
	pfw_tally_merge(&view->all, sums);
	if (sums->flops <= 0)
		return;
	if (!view->has_flops || sums->flops < view->least_flops)
		view->least_flops = sums->flops;
	if (!view->has_flops || sums->flops > view->most_flops)
		view->most_flops = sums->flops;
	view->has_flops = true;
}

/*
 * Compute is added in the order of the rows, as torch does; I/O so that the order does not matter.
 */
static void add_up(struct table_view *view)
{
	if (view->section == PFW_TABLE_IO) {
		view->self_us = (double)view->all.self_ns / 1000.0;
		return;
	}
	for (size_t i = 0; i < view->rows; i++) {
		const struct pfw_average *row = view->row[i];

		view->self_us += (double)row->sums.self_ns / 1000.0;
		if (table_device(row) && !table_annotation(row))
			view->self_device_us += (double)row->sums.self_device_ns / 1000.0;
	}
}

/* Self time is what a row costs by itself, so it is the default wherever it is known. */
static void set_order(struct order *order, const struct table_options *options)
{
	enum pfw_table_section section = order->view->section;
	const char *key = options->sort_by;

	if (!key && !options->by_file && !options->plain)
		key = order->view->has_device ? "self_device_time_total" : "self";
	if (!key || strcmp(key, "none") == 0)
		return;
	order->column = table_column_find(key, section);
	order->by_key = strcmp(key, "key") == 0;
	order->by_name = strcmp(key, "name") == 0;
}

/* Whether some row has a value to be sorted by. */
static bool has_order(const struct order *order)
{
	const struct table_view *view = order->view;

	for (size_t i = 0; i < view->rows && order->column; i++) {
		double value = table_column_value(order->column, view->row[i], view);

		if (value == value && value != 0)
			return true;
	}
	return !order->column && (order->by_key || order->by_name);
}

/* How many of the rows are shown. */
static size_t shown(const struct table_view *view)
{
	int64_t limit = view->options->survey->row_limit;

	return limit >= 0 && (uint64_t)limit < view->rows ? (size_t)limit : view->rows;
}

/* The rows of a section; 0 or -errno. */
static int make_view(struct table_view *view, struct table *table,
		     const struct table_options *options, enum pfw_table_section section)
{
	struct order order = { .view = view, .by_file = options->by_file };

	*view = (struct table_view){
		.table = table, .options = options, .section = section, .device = "CUDA"
	};
	view->row = calloc((size_t)table->rows.count + 1, sizeof(*view->row));
	if (!view->row)
		return -ENOMEM;
	for (uint32_t i = 0; i < table->rows.count; i++) {
		const struct pfw_average *row = &table->rows.row[i];

		if (table_section(row) != section || !row->sums.count)
			continue;
		view->row[view->rows++] = row;
		note(view, row);
	}
	if (section == PFW_TABLE_IO)
		pfw_tally_merge(&view->all, &table->rest);
	set_order(&order, options);
	/* Sorting may need the sums.  They are added again in the final order, as torch does. */
	add_up(view);
	qsort_r(view->row, view->rows, sizeof(*view->row), compare, &order);
	view->is_sorted = has_order(&order);
	view->self_us = view->self_device_us = 0;
	add_up(view);
	return table->late && section == PFW_TABLE_IO
		       ? table_read_durations(table, options, view->row, shown(view))
		       : 0;
}

/* Of a view of compute by name, the time in rows whose names begin so. */
static double self_ns_of(const struct table_view *view, const char *begin)
{
	double ns = 0;
	unsigned n = 0;

	while (view->options->field[n] != TABLE_NAME)
		n++;
	for (size_t i = 0; i < view->rows; i++) {
		struct pfw_slice name;

		name.at = table_text(view->row[i], n, &name.bytes);
		if (pfw_slice_begins(&name, begin))
			ns += (double)view->row[i]->sums.self_ns;
	}
	return ns;
}

/* One share of the wall time. */
static void put_share(FILE *out, const char **before, const char *what, double ns, double wall)
{
	fprintf(out, "%s%s %s (%.1f%%)", *before, what, cli_time(pfw_saturate_whole(ns)),
		ns * 100 / wall);
	*before = ", ";
}

static void put_io(FILE *out, const char **before, const struct table_view *view, double wall)
{
	static const char *const names[] = {
		[TABLE_NET] = "sockets and waiting", [TABLE_SYNC] = "locks and sleeps"
	};
	const int64_t *apart_ns = view->table->apart_ns;
	double self_ns = view->self_us * 1000;

	for (unsigned k = 0; k < TABLE_APART; k++)
		self_ns -= (double)apart_ns[k];
	put_share(out, before, "I/O took", fmax(self_ns, 0), wall);
	for (unsigned k = 0; k < TABLE_APART; k++)
		if (apart_ns[k])
			put_share(out, before, names[k], (double)apart_ns[k], wall);
}

/* Rows without names do not show which time belongs to steps or loaders, so these are not printed.
 * If there are only steps and loading, compute was not recorded; it is not 0. */
static void put_compute(FILE *out, const char **before, const struct table_view *view, double wall)
{
	double loading_ns, self_ns;

	if (!view->options->by_name)
		return;
	loading_ns = self_ns_of(view, PFW_LOADER_NAME);
	/* Time in a step but in no operator is the rest of the step, whatever the program does then. */
	self_ns = view->self_us * 1000 - loading_ns - self_ns_of(view, "ProfilerStep");
	if (pfw_saturate_whole(self_ns) > 0 || view->has_device)
		put_share(out, before, "compute took", fmax(self_ns, 0), wall);
	if (loading_ns > 0)
		put_share(out, before, "loading", loading_ns, wall);
}

/* The wall time, and how much of it the rows took: threads work side by side, so it may be more. */
static void put_head(FILE *out, const struct table *table, const struct table_view *view,
		     size_t views)
{
	/* Not a difference of doubles, which hold the time of day to 256 ns only. */
	double wall =
		(double)((uint64_t)table->extent.greatest_ns - (uint64_t)table->extent.least_ns);
	const char *before = "; ";
	bool more = false;

	fprintf(out, "Wall %s", cli_time(pfw_saturate_whole(wall)));
	for (size_t i = 0; i < views; i++) {
		if (view[i].section == PFW_TABLE_IO)
			put_io(out, &before, &view[i], wall);
		else
			put_compute(out, &before, &view[i], wall);
		more |= view[i].self_us * 1e3 > wall || view[i].self_device_us * 1e3 > wall;
		if (view[i].has_device)
			put_share(out, &before, view[i].device, view[i].self_device_us * 1000,
				  wall);
	}
	fprintf(out, "%s", more ? ", added up over threads" : "");
}

/* In lines as wide as the table may be. */
static void print_head(const struct table *table, const struct table_options *options,
		       const struct table_view *view, size_t views)
{
	char *text = NULL;
	size_t bytes;
	FILE *out;

	/* --plain reads only the blocks that its conditions may want. */
	if (options->plain || table->extent.greatest_ns <= table->extent.least_ns)
		return;
	out = open_memstream(&text, &bytes);
	if (!out)
		return;
	put_head(out, table, view, views);
	if (fclose(out) == 0) {
		if (options->survey->width)
			cli_wrapped(stdout, text, 0, 0, (int)options->survey->width);
		else
			puts(text);
		putchar('\n');
	}
	free(text);
}

/* If rows are left out without --row-limit, a message says so. */
static void say_left_out(const struct table_options *options, const struct table_view *view)
{
	const struct survey *survey = options->survey;

	if (survey->quiet || survey->row_limit != survey->few_rows || shown(view) == view->rows)
		return;
	cli_error(survey->command->name, "the first %s rows are shown (--row-limit -1: all)",
		  cli_count(shown(view)));
}

void table_print(struct table *table, const struct table_options *options)
{
	static const char *const titles[] = { "Compute", "I/O" };
	struct table_view view[PFW_TABLE_SECTIONS];
	size_t views = 0;
	bool people, is_sorted = false;

	for (int section = 0; section < PFW_TABLE_SECTIONS; section++) {
		int error =
			make_view(&view[views], table, options, (enum pfw_table_section)section);

		if (error) {
			cli_error(options->survey->command->name, "cannot sort the rows: %s",
				  strerror(-error));
			free(view[views].row);
			break;
		}
		if (view[views].rows)
			is_sorted |= view[views++].is_sorted;
		else
			free(view[views].row);
	}
	people = cli_for_people(options->survey->format);
	if (!people && table_print_data(options, view, views))
		cli_error(options->survey->command->name, "%s", strerror(ENOMEM));
	if (people && !views && !options->survey->quiet)
		unrecorded_say_none(options->survey->command, "call or compute event is",
				    table_condition(options), "");
	if (views && options->sort_by && strcmp(options->sort_by, "none") != 0 && !is_sorted)
		cli_error(options->survey->command->name, "--sort-by %s: no row has a value for it",
			  options->sort_by);
	if (people && views && !options->no_head)
		print_head(table, options, view, views);
	for (size_t i = 0; i < views; i++) {
		if (people && i)
			putchar('\n');
		if (people)
			table_print_text(options, &view[i],
					 views > 1 ? titles[view[i].section] : NULL);
		say_left_out(options, &view[i]);
		free(view[i].row);
	}
}
