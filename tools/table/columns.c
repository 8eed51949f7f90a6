/* tools/table/columns.c - the columns of `pfw table`; see columns.h. */
#include "table/columns.h"

#include <math.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "store/pass/steps.h"

/* ---- values ---- */

#define VALUE(name)                                                                   \
	static double name(const struct table_column *column __attribute__((unused)), \
			   const struct pfw_average *row,                             \
			   const struct table_view *view __attribute__((unused)))

static double us(int64_t ns)
{
	return (double)ns / 1000.0;
}

static double mean(double sum, uint64_t count)
{
	return count ? sum / (double)count : 0.0;
}

/* NAN for a share of nothing, as torch shows it. */
static double percent(double part, double whole)
{
	return whole == 0 ? NAN : part * 100.0 / whole;
}

/* A member of the row's sums: an int64_t or a uint64_t. */
static int64_t member(const struct table_column *column, const struct pfw_average *row)
{
	int64_t value;

	memcpy(&value, (const char *)&row->sums + column->member, sizeof(value));
	return value;
}

VALUE(plain)
{
	return (double)member(column, row);
}

VALUE(time)
{
	return us(member(column, row));
}

VALUE(average)
{
	return mean(us(member(column, row)), row->sums.count);
}

VALUE(share)
{
	return percent(us(member(column, row)), view->self_us);
}

VALUE(device_share)
{
	return percent(us(member(column, row)), view->self_device_us);
}

/* A duration, unknown if all calls are from `summed` lines. */
VALUE(timed)
{
	return row->sums.timed ? us(member(column, row)) : NAN;
}

/* A field of the row's key; NULL: it has none. */
static const char *key_text(const struct pfw_average *row, const struct table_options *options,
			    enum table_field field, size_t *bytes)
{
	for (unsigned i = 0; i < options->fields; i++) {
		if (options->field[i] == field)
			return table_text(row, i, bytes);
	}
	return NULL;
}

/* The same as a number, or -1. */
static int64_t key_number(const struct pfw_average *row, const struct table_options *options,
			  enum table_field field)
{
	size_t bytes = 0;
	const char *text = key_text(row, options, field, &bytes);

	return bytes ? strtoll(text, NULL, 10) : -1; /* what follows is no digit */
}

/* The ns that the row's FLOPs took, and on how many devices.  For a step that is its duration, else
 * the time of the devices, or without devices of the CPUs. */
static double flops_ns(const struct pfw_average *row, const struct table_view *view,
		       uint64_t *devices)
{
	const struct table_options *options = view->options;
	int64_t step = key_number(row, options, TABLE_STEP), ns = 0;

	*devices = 1;
	if (row->sums.flops <= 0)
		return NAN;
	if (step >= 0 && !options->by_name)
		ns = pfw_steps_ns(options->wanted.steps, view->table->traces, (uint64_t)step,
				  key_number(row, options, TABLE_RANK),
				  key_number(row, options, TABLE_PID), devices);
	else
		ns = row->sums.device_ns ? row->sums.device_ns : row->sums.total_ns;
	return ns > 0 ? (double)ns : NAN;
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

static double quantile(const struct pfw_average *row, double part)
{
	int64_t ns;

	if (!row->durations.total)
		return NAN;
	ns = pfw_sketch_quantile(&row->durations, part);
	/* The sketch is exact to 1 %, min and max are exact. */
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

/* A kernel's record does not say whether it uses tensor cores.  NVIDIA's libraries name their kernels by the
 * instruction: its shape, or what it is called.  Of other kernels nothing is known. */
VALUE(tensor_cores)
{
	static const char *const words[] = { "h884",  "s884",	  "h1688",	"s1688",
					     "c1688", "i8816",	  "16816",	"hmma",
					     "gmma",  "tensorop", "tensor16x8", "xmma_" };
	size_t bytes = 0;
	const char *name = key_text(row, view->options, TABLE_NAME, &bytes);

	if (!table_device(row) || !bytes || memmem(name, bytes, "simt", 4))
		return NAN;
	for (size_t i = 0; i < CLI_ARRAY_LEN(words); i++) {
		if (memmem(name, bytes, words[i], strlen(words[i])))
			return 1;
	}
	return NAN;
}

/* ---- the table of columns ---- */

/* Conditions under which a compute table shows a column by default: torch's rules. */
enum {
	USUAL = 1,
	DEVICE = 2, /* some row has time on a device, and so on */
	MEMORY = 4,
	DEVICE_MEMORY = 8,
	FLOPS = 16,
	SPEED = 32,
	/* Properties instead of conditions. */
	QUANTILE = 64,
	OF_FILES = 128, /* indexes have it for each file */
};

#define SUM(name) offsetof(struct pfw_tally, name)

/* clang-format off */
static const struct table_column columns[] = {
	{ "self_cpu_percent", "self_percent", "Self CPU %", "Self %", TABLE_PERCENT, USUAL,
	  share, SUM(self_ns) },
	{ "self_cpu_time_total", "self", "Self CPU", "Self", TABLE_TIME, USUAL, time, SUM(self_ns) },
	{ "total_cpu_percent", "total_percent", "CPU total %", "Total %", TABLE_PERCENT,
	  USUAL | OF_FILES, share, SUM(total_ns) },
	{ "cpu_time_total", "total", "CPU total", "Total", TABLE_TIME, USUAL | OF_FILES,
	  time, SUM(total_ns) },
	{ "cpu_time", "avg", "CPU time avg", "Avg", TABLE_TIME, USUAL | OF_FILES,
	  average, SUM(total_ns) },
	{ "min", "min", "Min", "Min", TABLE_TIME, 0, timed, SUM(min_ns) },
	{ "p50", "p50", "p50", "p50", TABLE_TIME, QUANTILE, p50, 0 },
	{ "p95", "p95", "p95", "p95", TABLE_TIME, QUANTILE, p95, 0 },
	{ "p99", "p99", "p99", "p99", TABLE_TIME, QUANTILE, p99, 0 },
	{ "max", "max", "Max", "Max", TABLE_TIME, 0, timed, SUM(max_ns) },
	{ "self_device_time_total", "", "Self *", "", TABLE_TIME, DEVICE, time, SUM(self_device_ns) },
	{ "total_device_percent", "", "Self * %", "", TABLE_PERCENT, DEVICE,
	  device_share, SUM(self_device_ns) },
	{ "device_time_total", "", "* total", "", TABLE_TIME, DEVICE, time, SUM(device_ns) },
	{ "device_time", "", "* time avg", "", TABLE_TIME, DEVICE, average, SUM(device_ns) },
	{ "cpu_memory_usage", "", "CPU Mem", "", TABLE_MEMORY, MEMORY, plain, SUM(cpu_memory) },
	{ "self_cpu_memory_usage", "", "Self CPU Mem", "", TABLE_MEMORY, MEMORY,
	  plain, SUM(self_cpu_memory) },
	{ "device_memory_usage", "", "* Mem", "", TABLE_MEMORY, DEVICE_MEMORY,
	  plain, SUM(device_memory) },
	{ "self_device_memory_usage", "", "Self * Mem", "", TABLE_MEMORY, DEVICE_MEMORY,
	  plain, SUM(self_device_memory) },
	{ "count", "count", "# of Calls", "# of Calls", TABLE_COUNT, USUAL | OF_FILES,
	  plain, SUM(count) },
	{ "flops", "", "Total ", "", TABLE_FLOPS, FLOPS, plain, SUM(flops) },
	{ "self_flops", "", "Self FLOPS", "", TABLE_SELF_FLOPS, 0, plain, SUM(flops) },
	{ "flops_per_second", "", "FLOP/s", "", TABLE_SPEED, SPEED, speed, 0 },
	{ "peak_percent", "", "Of peak", "", TABLE_SHARE, SPEED, peak_percent, 0 },
	{ "tensor_cores", "", "Tensor cores", "", TABLE_YES, 0, tensor_cores, 0 },
	{ "", "bytes", "", "Bytes", TABLE_BYTES, OF_FILES, bytes, 0 },
	{ "", "mean_size", "", "Mean size", TABLE_BYTES, OF_FILES, mean_size, 0 },
	{ "", "bandwidth", "", "Bandwidth", TABLE_RATE, OF_FILES, bandwidth, 0 },
};

/* Other prefixes of keys: those of torch before 2.6, and of any device. */
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
/* clang-format on */

static bool has(const struct table_column *column, enum pfw_table_section section)
{
	return *table_column_key(column, section);
}

const char *table_column_key(const struct table_column *column, enum pfw_table_section section)
{
	return section == PFW_TABLE_IO ? column->io_key : column->key;
}

static const struct table_column *find(const char *key, enum pfw_table_section section)
{
	for (size_t i = 0; i < CLI_ARRAY_LEN(columns); i++) {
		const struct table_column *column = &columns[i];

		if (has(column, section) &&
		    (strcmp(column->key, key) == 0 || strcmp(column->io_key, key) == 0))
			return column;
	}
	return NULL;
}

const struct table_column *table_column_find(const char *key, enum pfw_table_section section)
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

const char *table_column_keys(char out[TABLE_KEYS_BYTES])
{
	size_t used = 0;

	for (size_t i = 0; i < CLI_ARRAY_LEN(columns) && used < TABLE_KEYS_BYTES; i++) {
		const struct table_column *column = &columns[i];

		used += (size_t)snprintf(out + used, TABLE_KEYS_BYTES - used, "%s%s",
					 used ? ", " : "",
					 *column->key ? column->key : column->io_key);
	}
	return out;
}

enum unrecorded table_column_lacks(const struct table_column *column, const struct table_view *view)
{
	unsigned says = view->table->says;

	if (column->when & DEVICE)
		return says & PFW_TABLE_SAYS_DEVICE ? UNRECORDED_KINDS : UNRECORDED_KERNELS;
	if (column->when & (MEMORY | DEVICE_MEMORY))
		return says & PFW_TABLE_SAYS_MEMORY ? UNRECORDED_KINDS : UNRECORDED_MEMORY;
	if (column->when & (FLOPS | SPEED) || column->kind == TABLE_SELF_FLOPS)
		return says & PFW_TABLE_SAYS_FLOPS ? UNRECORDED_KINDS : UNRECORDED_FLOPS;
	return UNRECORDED_KINDS;
}

double table_column_value(const struct table_column *column, const struct pfw_average *row,
			  const struct table_view *view)
{
	return table_column_lacks(column, view) == UNRECORDED_KINDS
		       ? column->value(column, row, view)
		       : NAN;
}

bool table_column_sum(const struct table_column *column, const struct pfw_average *row,
		      int64_t *sum)
{
	bool whole = column->value == plain || column->value == time || column->value == timed;

	*sum = whole ? member(column, row) : row->sums.bytes;
	return whole || column->value == bytes;
}

/* ---- which are shown ---- */

static int add_key(struct table_options *options, const char *key, size_t bytes)
{
	const struct table_column *column;
	char name[64], keys[TABLE_KEYS_BYTES];

	snprintf(name, sizeof(name), "%.*s", (int)bytes, key);
	column = table_column_find(name, PFW_TABLE_COMPUTE);
	if (!column)
		column = table_column_find(name, PFW_TABLE_IO);
	if (!column) {
		cli_error(options->survey->command->name,
			  "--columns: there is no column %s; there are %s; and the presets "
			  "flops, speed, files and io",
			  cli_name(name), table_column_keys(keys));
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

bool table_columns_percentiles(const struct table_options *options)
{
	bool any = !options->columns;

	for (unsigned i = 0; i < options->columns; i++)
		any |= (options->column[i]->when & QUANTILE) != 0;
	return any;
}

bool table_columns_sort_by_percentile(const struct table_options *options)
{
	const struct table_column *key =
		options->sort_by ? table_column_find(options->sort_by, PFW_TABLE_IO) : NULL;

	return key && key->when & QUANTILE;
}

bool table_columns_ask_steps(const struct table_options *options)
{
	const struct table_column *key =
		options->sort_by ? table_column_find(options->sort_by, PFW_TABLE_COMPUTE) : NULL;
	bool ask = options->peak_flops || (key && key->when & SPEED);

	for (unsigned i = 0; i < options->columns; i++)
		ask |= (options->column[i]->when & SPEED) != 0;
	return ask;
}

bool table_columns_of_files(const struct table_options *options, enum pfw_index_order *order)
{
	const struct table_column *key = find("total", PFW_TABLE_IO);

	for (unsigned i = 0; i < options->columns; i++) {
		if (has(options->column[i], PFW_TABLE_IO) && !(options->column[i]->when & OF_FILES))
			return false;
	}
	if (options->sort_by && strcmp(options->sort_by, "none") != 0)
		key = table_column_find(options->sort_by, PFW_TABLE_IO);
	if (!key)
		return false;
	*order = key->kind == TABLE_COUNT ? PFW_INDEX_BY_CALLS
		 : key->value == bytes	  ? PFW_INDEX_BY_BYTES
					  : PFW_INDEX_BY_NS;
	return options->columns && (*order != PFW_INDEX_BY_NS || !strcmp(key->io_key, "total"));
}

static unsigned usual_of(const struct table_view *view)
{
	unsigned usual = USUAL;

	usual |= view->has_device ? DEVICE : 0;
	usual |= view->has_memory ? MEMORY : 0;
	usual |= view->has_memory && view->has_device_memory ? DEVICE_MEMORY : 0;
	usual |= view->has_flops ? FLOPS : 0;
	return usual | (view->has_flops && view->options->peak_flops ? SPEED : 0);
}

static bool is_shown(const struct table_column *column, const struct table_options *options,
		     const struct table_view *view)
{
	/* Plain lines do not tell which spans contain others. */
	if (options->plain && column->value == time && column->member == SUM(self_ns))
		return false;
	return view->has_percentiles || options->survey->format != CLI_TEXT ||
	       !(column->when & QUANTILE);
}

unsigned table_columns_of(const struct table_options *options, const struct table_view *view,
			  const struct table_column **column)
{
	struct table_options io = { .columns = 0 };
	unsigned count = 0;

	for (unsigned i = 0; i < options->columns; i++) {
		if (has(options->column[i], view->section))
			column[count++] = options->column[i];
	}
	if (options->columns)
		return count;
	if (view->section == PFW_TABLE_IO)
		table_columns_parse(&io, "io");
	for (unsigned i = 0; i < io.columns; i++) {
		if (is_shown(io.column[i], options, view))
			column[count++] = io.column[i];
	}
	for (size_t i = 0; view->section == PFW_TABLE_COMPUTE && i < CLI_ARRAY_LEN(columns); i++) {
		if (columns[i].when & usual_of(view) && *columns[i].key)
			column[count++] = &columns[i];
	}
	return count;
}

enum grid_kind table_column_kind(const struct table_column *column)
{
	if (column->kind == TABLE_SHARE)
		return GRID_SIX;
	if (column->kind == TABLE_YES)
		return GRID_YES;
	if (column->kind == TABLE_TIME || column->kind == TABLE_PERCENT ||
	    column->kind == TABLE_SPEED || column->value == mean_size || column->kind == TABLE_RATE)
		return GRID_FIXED;
	return GRID_WHOLE;
}
