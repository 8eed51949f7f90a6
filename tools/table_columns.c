/* table_columns.c - the columns of `pfw table`; see table_columns.h. */
#include "table_columns.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- values ---- */

#define VALUE(name)                                       \
	static double name(const struct pfw_average *row, \
			   const struct table_view *view __attribute__((unused)))

static double us(int64_t ns)
{
	return (double)ns / 1000.0;
}

static double mean(double sum, uint64_t count)
{
	return count ? sum / (double)count : 0.0;
}

/* NAN, as torch shows it: nothing is no share of nothing. */
static double percent(double part, double whole)
{
	return whole == 0 ? NAN : part * 100.0 / whole;
}

VALUE(self_percent)
{
	return percent(us(row->sums.self_ns), view->self_us);
}

VALUE(self)
{
	return us(row->sums.self_ns);
}

VALUE(total_percent)
{
	return percent(us(row->sums.total_ns), view->self_us);
}

VALUE(total)
{
	return us(row->sums.total_ns);
}

VALUE(average)
{
	return mean(us(row->sums.total_ns), row->sums.count);
}

VALUE(self_device)
{
	return us(row->sums.self_device_ns);
}

VALUE(device_percent)
{
	return percent(us(row->sums.self_device_ns), view->self_device_us);
}

VALUE(device_total)
{
	return us(row->sums.device_ns);
}

VALUE(device_average)
{
	return mean(us(row->sums.device_ns), row->sums.count);
}

VALUE(cpu_memory)
{
	return (double)row->sums.cpu_memory;
}

VALUE(self_cpu_memory)
{
	return (double)row->sums.self_cpu_memory;
}

VALUE(device_memory)
{
	return (double)row->sums.device_memory;
}

VALUE(self_device_memory)
{
	return (double)row->sums.self_device_memory;
}

VALUE(count)
{
	return (double)row->sums.count;
}

VALUE(flops)
{
	return (double)row->sums.flops;
}

/* A number of the row's key, or -1. */
static int64_t key_number(const struct pfw_average *row, const struct table_options *options,
			  enum table_field field)
{
	for (unsigned i = 0; i < options->fields; i++) {
		size_t bytes;
		const char *text;

		if (options->field[i] != field)
			continue;
		text = table_text(row, i, &bytes);
		return bytes ? strtoll(text, NULL, 10) : -1; /* what follows is no digit */
	}
	return -1;
}

/* ns that the row's FLOPs took on a device, and on how many at once.  Of a step that is as long as it took;
 * else what the devices, or where there are none the CPUs, worked for it. */
static double flops_ns(const struct pfw_average *row, const struct table_view *view,
		       uint64_t *devices)
{
	const struct table_options *options = view->options;
	int64_t step = key_number(row, options, TABLE_STEP), ns = 0;

	*devices = 1;
	if (step >= 0 && !options->by_name)
		ns = table_steps_ns(&view->table->steps, view->table->traces, (uint64_t)step,
				    key_number(row, options, TABLE_RANK),
				    key_number(row, options, TABLE_PID), devices);
	else
		ns = row->sums.device_ns ? row->sums.device_ns : row->sums.total_ns;
	return row->sums.flops > 0 && ns > 0 ? (double)ns : NAN;
}

VALUE(speed)
{
	uint64_t devices;

	return (double)row->sums.flops * 1e9 / flops_ns(row, view, &devices);
}

VALUE(peak_percent)
{
	uint64_t devices;
	double ns = flops_ns(row, view, &devices);

	if (!view->options->peak_flops)
		return NAN;
	return (double)row->sums.flops * 1e11 / ns / (double)devices / view->options->peak_flops;
}

VALUE(least)
{
	return row->sums.timed ? us(row->sums.min_ns) : NAN;
}

VALUE(greatest)
{
	return row->sums.timed ? us(row->sums.max_ns) : NAN;
}

static double quantile(const struct pfw_average *row, double part)
{
	int64_t ns;

	if (!row->durations.total)
		return NAN;
	ns = pfw_sketch_quantile(&row->durations, part);
	/* The sketch knows it to 1 %, the ends exactly. */
	ns = ns < row->sums.min_ns ? row->sums.min_ns : ns;
	return us(ns > row->sums.max_ns ? row->sums.max_ns : ns);
}

VALUE(p50)
{
	return quantile(row, 0.50);
}

VALUE(p95)
{
	return quantile(row, 0.95);
}

VALUE(p99)
{
	return quantile(row, 0.99);
}

VALUE(bytes)
{
	return row->sums.transfers ? (double)row->sums.bytes : NAN;
}

VALUE(mean_size)
{
	return row->sums.transfers ? mean((double)row->sums.bytes, row->sums.transfers) : NAN;
}

VALUE(bandwidth)
{
	if (!row->sums.transfers || !row->sums.transfer_ns)
		return NAN;
	return (double)row->sums.bytes * 1e9 / (double)row->sums.transfer_ns;
}

/* ---- the table of columns ---- */

/* clang-format off */
static const struct table_column columns[] = {
	{ "self_cpu_percent", "self_percent", "Self CPU %", "Self %", TABLE_PERCENT, self_percent },
	{ "self_cpu_time_total", "self", "Self CPU", "Self", TABLE_TIME, self },
	{ "total_cpu_percent", "total_percent", "CPU total %", "Total %", TABLE_PERCENT, total_percent },
	{ "cpu_time_total", "total", "CPU total", "Total", TABLE_TIME, total },
	{ "cpu_time", "avg", "CPU time avg", "Avg", TABLE_TIME, average },
	{ "min", "min", "Min", "Min", TABLE_TIME, least },
	{ "p50", "p50", "p50", "p50", TABLE_TIME, p50 },
	{ "p95", "p95", "p95", "p95", TABLE_TIME, p95 },
	{ "p99", "p99", "p99", "p99", TABLE_TIME, p99 },
	{ "max", "max", "Max", "Max", TABLE_TIME, greatest },
	{ "self_device_time_total", "", "Self *", "", TABLE_TIME, self_device },
	{ "total_device_percent", "", "Self * %", "", TABLE_PERCENT, device_percent },
	{ "device_time_total", "", "* total", "", TABLE_TIME, device_total },
	{ "device_time", "", "* time avg", "", TABLE_TIME, device_average },
	{ "cpu_memory_usage", "", "CPU Mem", "", TABLE_MEMORY, cpu_memory },
	{ "self_cpu_memory_usage", "", "Self CPU Mem", "", TABLE_MEMORY, self_cpu_memory },
	{ "device_memory_usage", "", "* Mem", "", TABLE_MEMORY, device_memory },
	{ "self_device_memory_usage", "", "Self * Mem", "", TABLE_MEMORY, self_device_memory },
	{ "count", "count", "# of Calls", "# of Calls", TABLE_COUNT, count },
	{ "flops", "", "Total ", "", TABLE_FLOPS, flops },
	{ "self_flops", "", "Self FLOPS", "", TABLE_SELF_FLOPS, flops },
	{ "flops_per_second", "", "FLOP/s", "", TABLE_SPEED, speed },
	{ "peak_percent", "", "Of peak", "", TABLE_SHARE, peak_percent },
	{ "", "bytes", "", "Bytes", TABLE_BYTES, bytes },
	{ "", "mean_size", "", "Mean size", TABLE_BYTES, mean_size },
	{ "", "bandwidth", "", "Bandwidth", TABLE_RATE, bandwidth },
};

/* Other names of theirs: of before torch 2.6, and of any device. */
static const struct {
	const char *theirs, *ours;
} aliases[] = {
	{ "cuda_", "device_" }, { "self_cuda_", "self_device_" },
	{ "xpu_", "device_" }, { "self_xpu_", "self_device_" },
	{ "privateuse1_", "device_" }, { "self_privateuse1_", "self_device_" },
};

static const struct {
	const char *name, *keys;
} presets[] = {
	{ "flops", "self_flops,cpu_time_total,device_time_total,count" },
	{ "speed", "flops_per_second,peak_percent" },
	{ "files", "count,total_percent,total,avg,bytes,mean_size,bandwidth" },
	{ "io", "count,total_percent,total,self,avg,min,p50,p95,p99,max,bytes,mean_size,bandwidth" },
};

/* What I/O has where nobody asked for columns. */
static const char *const io_usual[] = { "count", "total_percent", "total", "self", "avg", "min",
					"p50", "p95", "p99", "max", "bytes", "mean_size",
					"bandwidth" };
/* clang-format on */

static bool has(const struct table_column *column, enum table_section section)
{
	return *table_column_key(column, section);
}

const char *table_column_key(const struct table_column *column, enum table_section section)
{
	return section == TABLE_IO ? column->io_key : column->key;
}

static const struct table_column *find(const char *key, enum table_section section)
{
	for (size_t i = 0; i < CLI_ARRAY_LEN(columns); i++) {
		const struct table_column *column = &columns[i];

		if (has(column, section) &&
		    (strcmp(column->key, key) == 0 || strcmp(column->io_key, key) == 0))
			return column;
	}
	return NULL;
}

const struct table_column *table_column_find(const char *key, enum table_section section)
{
	const struct table_column *found = find(key, section);
	char name[64];

	for (size_t i = 0; !found && i < CLI_ARRAY_LEN(aliases); i++) {
		size_t bytes = strlen(aliases[i].theirs);

		if (strncmp(key, aliases[i].theirs, bytes) != 0)
			continue;
		snprintf(name, sizeof(name), "%s%s", aliases[i].ours, key + bytes);
		found = find(name, section);
	}
	return found;
}

const char *table_column_keys(void)
{
	static char keys[1024];
	size_t used = 0;

	for (size_t i = 0; i < CLI_ARRAY_LEN(columns) && used < sizeof(keys); i++) {
		const struct table_column *column = &columns[i];

		used += (size_t)snprintf(keys + used, sizeof(keys) - used, "%s%s", used ? ", " : "",
					 *column->key ? column->key : column->io_key);
	}
	return keys;
}

/* ---- which are shown ---- */

static int add_key(struct table_options *options, const char *key, size_t bytes)
{
	const struct table_column *column;
	char name[64];

	snprintf(name, sizeof(name), "%.*s", (int)bytes, key);
	column = table_column_find(name, TABLE_COMPUTE);
	if (!column)
		column = table_column_find(name, TABLE_IO);
	if (!column) {
		cli_error(options->command->name,
			  "--columns: there is no column %s; there are %s; and the presets "
			  "flops, speed, files and io",
			  cli_name(name), table_column_keys());
		return -1;
	}
	for (unsigned i = 0; i < options->columns; i++) {
		if (options->column[i] == column)
			return 0;
	}
	options->column[options->columns++] = column;
	return 0;
}

static int add_keys(struct table_options *options, const char *list)
{
	for (const char *at = list; at; at = strchr(at, ',')) {
		at += *at == ',';
		if (add_key(options, at, strcspn(at, ",")))
			return -1;
		if (!*at)
			break;
	}
	return 0;
}

int table_columns_parse(struct table_options *options, const char *list)
{
	_Static_assert(CLI_ARRAY_LEN(columns) <= TABLE_COLUMNS_MAX, "each at most once");
	for (size_t i = 0; i < CLI_ARRAY_LEN(presets); i++) {
		if (strcmp(list, presets[i].name) == 0)
			return add_keys(options, presets[i].keys);
	}
	return add_keys(options, list);
}

static bool is_percentile(const struct table_column *column)
{
	return column->value == p50 || column->value == p95 || column->value == p99;
}

bool table_columns_percentiles(const struct table_options *options)
{
	bool any = !options->columns;

	for (unsigned i = 0; i < options->columns; i++)
		any |= is_percentile(options->column[i]);
	return any;
}

static bool is_of_files(const struct table_column *column)
{
	return column->value == count || column->value == total || column->value == average ||
	       column->value == total_percent || column->value == bytes ||
	       column->value == mean_size || column->value == bandwidth;
}

bool table_columns_of_files(const struct table_options *options, enum pfw_index_order *order)
{
	const struct table_column *key = find("total", TABLE_IO);

	for (unsigned i = 0; i < options->columns; i++) {
		if (has(options->column[i], TABLE_IO) && !is_of_files(options->column[i]))
			return false;
	}
	if (options->sort_by)
		key = table_column_find(options->sort_by, TABLE_IO);
	*order = key && key->value == count   ? PFW_INDEX_BY_CALLS
		 : key && key->value == bytes ? PFW_INDEX_BY_BYTES
					      : PFW_INDEX_BY_NS;
	return options->columns && key && (*order != PFW_INDEX_BY_NS || key->value == total);
}

/* Whether a compute table has it where nobody asked for columns: torch's rules. */
static bool is_usual(const struct table_column *column, const struct table_view *view)
{
	if (column->value == self_device || column->value == device_percent ||
	    column->value == device_total || column->value == device_average)
		return view->has_device;
	if (column->value == cpu_memory || column->value == self_cpu_memory)
		return view->has_memory;
	if (column->value == device_memory || column->value == self_device_memory)
		return view->has_memory && view->has_device_memory;
	if (column->kind == TABLE_FLOPS)
		return view->has_flops;
	if (column->kind == TABLE_SPEED || column->kind == TABLE_SHARE)
		return view->has_flops && view->options->peak_flops;
	return column->kind != TABLE_SELF_FLOPS && column->value != least &&
	       !is_percentile(column) && column->value != greatest;
}

unsigned table_columns_of(const struct table_options *options, const struct table_view *view,
			  const struct table_column **column)
{
	unsigned count = 0;

	for (unsigned i = 0; i < options->columns; i++) {
		if (has(options->column[i], view->section))
			column[count++] = options->column[i];
	}
	if (options->columns)
		return count;
	if (view->section == TABLE_IO) {
		for (size_t i = 0; i < CLI_ARRAY_LEN(io_usual); i++) {
			column[count] = find(io_usual[i], TABLE_IO);
			/* Of lines alone nobody knows what is in what. */
			count += (!options->plain || column[count]->value != self) &&
				 (view->has_percentiles || options->format != CLI_TEXT ||
				  !is_percentile(column[count]));
		}
		return count;
	}
	for (size_t i = 0; i < CLI_ARRAY_LEN(columns); i++) {
		if (has(&columns[i], view->section) && is_usual(&columns[i], view))
			column[count++] = &columns[i];
	}
	return count;
}

void table_column_number(const struct table_column *column, const struct pfw_average *row,
			 const struct table_view *view, char *out, size_t size)
{
	double value = column->value(row, view);

	if (isnan(value))
		*out = '\0';
	else if (column->kind == TABLE_SHARE)
		snprintf(out, size, "%.6g", value);
	else if (column->kind == TABLE_TIME || column->kind == TABLE_PERCENT ||
		 column->kind == TABLE_SPEED || column->value == mean_size ||
		 column->kind == TABLE_RATE)
		snprintf(out, size, "%.3f", value);
	else
		snprintf(out, size, "%.0f", value);
}
