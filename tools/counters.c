/* tools/counters.c - `pfw counters`: least, mean, greatest and last value of each counter. */
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/order.h"
#include "export/export.h"
#include "share/survey.h"
#include "share/unrecorded.h"
#include "store/kit/grow.h"
#include "store/kit/text_ids.h"
#include "store/line/args.h"
#include "ui/grid.h"

/* Names are cut there; the least and the greatest values that are added up. */
#define NAME_BYTES 256u
#define VALUE_MAX 1e20

/* Of one key of the lines of one name, category and process. */
struct counter {
	int64_t rank, last_ns;
	uint64_t pid, samples;
	char cat[NAME_BYTES], name[NAME_BYTES], key[NAME_BYTES];
	double least, greatest, last;
	__int128 millionths; /* of the sum, which so does not depend on the order of the lines */
};

struct found {
	struct pfw_text_ids keys; /* of the rows, for each rank: pid, category, name and key */
	struct counter *row;
	size_t rows, room;
};

struct counters {
	struct survey survey;
	struct pfw_select select;
	const struct pfw_traces *traces;
	struct found found;
};

/* ---- what PFW_COUNTERS samples: docs/gpu.rst ---- */

struct unit {
	const char *name; /* after "gpu N " */
	const char *unit;
	enum grid_kind kind;
	bool grows; /* since the sample before: values add up */
};

static const struct unit *unit_of(const struct counter *counter)
{
	static const struct unit units[] = {
		{ "memory", "bytes", GRID_BYTES, false },
		{ "threads", "count", GRID_NUMBER, false },
		{ "cpu", "percent", GRID_PERCENT, false },
		{ "page faults", "count", GRID_NUMBER, true },
		{ "io", "bytes", GRID_BYTES, true },
		{ "storage", "bytes", GRID_BYTES, true },
		{ "utilization", "percent", GRID_PERCENT, false },
		{ "power", "W", GRID_NUMBER, false },
		{ "clocks", "MHz", GRID_NUMBER, false },
		{ "pcie", "bytes", GRID_BYTES, true },
		{ "nvlink", "bytes", GRID_BYTES, true },
	};
	static const struct unit unknown = { NULL, NULL, GRID_NUMBER, false };
	const char *name = counter->name;

	if (strcmp(counter->cat, "COUNTER") != 0)
		return &unknown;
	if (strncmp(name, "gpu ", 4) == 0)
		name += 4 + strspn(name + 4, "0123456789") + 1;
	for (size_t i = 0; i < CLI_ARRAY_LEN(units); i++) {
		if (strcmp(name, units[i].name) == 0)
			return &units[i];
	}
	return &unknown;
}

/* ---- reading ---- */

/* The row of a counter, which is added if it does not exist; NULL: no memory. */
static struct counter *find_row(struct found *found, const struct counter *wanted)
{
	char text[sizeof(wanted->pid) + 3 * NAME_BYTES], *at = text;
	int64_t number;

	at = mempcpy(at, &wanted->pid, sizeof(wanted->pid));
	at = stpcpy(at, wanted->cat) + 1;
	at = stpcpy(at, wanted->name) + 1;
	at = stpcpy(at, wanted->key);
	number = pfw_text_ids_of(&found->keys, wanted->rank, text, (size_t)(at - text));
	if (number < 0)
		return NULL;
	if ((size_t)number == found->rows &&
	    PFW_PUSH(found->row, found->rows, found->room, *wanted))
		return NULL;
	return &found->row[number];
}

static int merge(struct found *into, const struct counter *from)
{
	uint64_t rows = into->rows;
	struct counter *row = find_row(into, from);

	if (!row || into->rows > rows)
		return row ? 0 : -ENOMEM;
	row->least = fmin(row->least, from->least);
	row->greatest = fmax(row->greatest, from->greatest);
	row->millionths += from->millionths;
	row->samples += from->samples;
	/* Of the same time the greater one, whatever the order of the lines is. */
	if (from->last_ns > row->last_ns)
		row->last = from->last;
	else if (from->last_ns == row->last_ns)
		row->last = fmax(row->last, from->last);
	PFW_RAISE(row->last_ns, from->last_ns);
	return 0;
}

static int add_line(struct found *found, const struct pfw_entry *entry, int64_t rank)
{
	struct counter one = { .rank = rank, .pid = entry->pid, .last_ns = entry->ts_ns };
	struct pfw_slice key;
	struct pfw_value value;
	struct pfw_args args;
	int error = 0;

	pfw_slice_decode(&entry->cat, one.cat, sizeof(one.cat));
	pfw_slice_decode(&entry->name, one.name, sizeof(one.name));
	one.samples = 1;
	for (pfw_args_init(&args, entry); !error && pfw_args_next(&args, &key, &value);) {
		double number = value.type == PFW_VALUE_NUMBER ? export_double(&value) : NAN;

		if (!isfinite(number))
			continue;
		pfw_slice_decode(&key, one.key, sizeof(one.key));
		one.least = one.greatest = one.last = number;
		one.millionths = (__int128)rint(fmax(-VALUE_MAX, fmin(number, VALUE_MAX)) * 1e6);
		error = merge(found, &one);
	}
	return error;
}

static int work(void *user, const struct survey_worker *worker, struct pfw_pass_block *block)
{
	const struct counters *counters = user;
	struct pfw_pass_lines lines;
	int error = 0;

	pfw_pass_lines_init(&lines, block);
	while (!error && pfw_pass_lines_next(&lines)) {
		if (lines.entry.ph == 'C' &&
		    pfw_select_entry(&counters->select, worker->state, block->file, &lines.entry))
			error = add_line(block->result, &lines.entry,
					 counters->traces->file[block->file].head.rank);
	}
	return error;
}

static int done(void *user, struct pfw_pass_block *block)
{
	struct counters *counters = user;
	const struct found *found = block->result;
	int error = 0;

	for (size_t i = 0; i < found->rows && !error; i++)
		error = merge(&counters->found, &found->row[i]);
	return error;
}

static void release(struct found *found)
{
	pfw_text_ids_release(&found->keys);
	free(found->row);
}

static void drop(void *result)
{
	release(result);
	free(result);
}

/* ---- printing ---- */

static const struct grid_column columns[] = {
	{ "rank", "Rank", GRID_ID },	      { "pid", "Process", GRID_ID },
	{ "cat", NULL, GRID_TEXT },	      { "name", "Counter", GRID_TEXT },
	{ "key", "Value", GRID_TEXT },	      { "unit", "Unit", GRID_TEXT },
	{ "samples", "Samples", GRID_COUNT }, { "min", "Min", GRID_NUMBER },
	{ "mean", "Mean", GRID_NUMBER },      { "max", "Max", GRID_NUMBER },
	{ "last", "Last", GRID_NUMBER },      { "total", "Total", GRID_NUMBER },
};

static int by_name(const void *a, const void *b)
{
	const struct counter *x = a, *y = b;

	return PFW_ORDER(x->rank, y->rank) ?: PFW_ORDER(x->pid, y->pid) ?: strcmp(x->cat, y->cat) ?:
	       strcmp(x->name, y->name) ?: strcmp(x->key, y->key);
}

static void put_value(struct grid *grid, const struct unit *unit, double value)
{
	if (unit->kind == GRID_BYTES)
		grid_whole(grid, GRID_BYTES, (int64_t)fmax(0, fmin(rint(value), 9e18)));
	else if (unit->kind == GRID_NUMBER && fabs(value) < 1e15 && rint(value) == value)
		grid_whole(grid, GRID_COUNT, (int64_t)value);
	else
		grid_number(grid, unit->kind, value);
}

static void put_row(struct grid *grid, const struct counter *row)
{
	const struct unit *unit = unit_of(row);
	double sum = (double)row->millionths / 1e6;

	grid_maybe(grid, GRID_ID, row->rank >= 0, row->rank);
	grid_whole(grid, GRID_ID, (int64_t)row->pid);
	grid_text(grid, row->cat, strlen(row->cat));
	grid_text(grid, row->name, strlen(row->name));
	grid_text(grid, row->key, strlen(row->key));
	grid_text(grid, unit->unit, unit->unit ? strlen(unit->unit) : 0);
	grid_u64(grid, GRID_COUNT, row->samples);
	put_value(grid, unit, row->least);
	put_value(grid, unit, sum / (double)row->samples);
	put_value(grid, unit, row->greatest);
	put_value(grid, unit, row->last);
	if (unit->grows)
		put_value(grid, unit, sum);
	else
		grid_none(grid);
}

static int print(struct counters *counters)
{
	static const char *const few[] = { "Samples", "Unit", "Rank", "Total", NULL };
	const struct survey *survey = &counters->survey;
	struct found *found = &counters->found;
	struct grid grid = { .column = columns,
			     .columns = CLI_ARRAY_LEN(columns),
			     .none = "-",
			     .width = survey->width,
			     .few = few };

	if (!found->rows) {
		if (!survey->quiet)
			unrecorded_say_none(survey->command, "counter is",
					    select_args_but_rank(&counters->select),
					    ": PFW_COUNTERS=500ms pfw run CMD samples a program");
		return 0;
	}
	qsort(found->row, found->rows, sizeof(*found->row), by_name);
	for (size_t i = 0; i < found->rows; i++)
		put_row(&grid, &found->row[i]);
	return grid_end(&grid, stdout, survey->format, NULL);
}

/* ---- the command ---- */

static int read_and_print(void *user, struct survey_input *input)
{
	struct counters *counters = user;
	struct survey *survey = &counters->survey;
	const struct survey_fold fold = { .user = counters,
					  .select = &counters->select,
					  .result_bytes = sizeof(struct found),
					  .work = work,
					  .done = done,
					  .drop = drop };
	int status = survey_attach(survey, input, &counters->select), error;

	status = status ?: survey_resolve(survey, input, &counters->select);
	if (status != CLI_OK)
		return status;
	counters->traces = &input->traces;
	error = survey_read(survey, input, &fold, SURVEY_ALL);
	return survey_end(survey, error ?: print(counters));
}

static int counters_main(const struct cli_command *command, int argc, char **argv)
{
	struct counters counters = { .survey = { .command = command,
						 .user = &counters,
						 .select = &counters.select,
						 .body = read_and_print },
				     .select = { .ph = 'C' } };
	int status = survey_main(&counters.survey, argc, argv);

	release(&counters.found);
	return status;
}

static const struct cli_option counters_options[] = {
	SELECT_ARGS_TIMES,
	{ "cat", 'c', "GLOB", "categories: COUNTER for PFW_COUNTERS; others are the program's",
	  .id = SELECT_ARGS + PFW_SELECT_CAT },
	{ "name", 'n', "GLOB", "names of counters", .id = SELECT_ARGS + PFW_SELECT_NAME },
	SELECT_ARGS_PROCESSES,
	{ "step", 0, "LIST", "samples of these steps", .id = SELECT_ARGS + PFW_SELECT_STEP },
	{ "where", 'w', "EXPR", "an expression over any field: args.rss > 1GiB",
	  .id = SELECT_ARGS + PFW_SELECT_WHERE },
	SURVEY_OPTION_ALL_RUNS,
	SURVEY_OPTION_WIDE,
	SURVEY_OPTIONS,
	{ "format", 0, SURVEY_FORMAT_NAMES,
	  "md: to paste; for programs sizes in bytes, shares in percent", SURVEY_INTO(format) },
	{ 0 },
};

const struct cli_command cli_counters = {
	.name = "counters",
	.operands = "[PATH...]",
	.summary = "Show memory, CPU, I/O and GPUs as sampled by PFW_COUNTERS",
	.options = counters_options,
	.details = SURVEY_PATHS
	"Each counter of each process has a row.  PFW_COUNTERS=500ms records counters of\n"
	"the process and its GPUs (docs/gpu.rst), pfw_counter() the program's own.\n"
	"Total is the sum of samples that count what was added since the last sample.\n",
	.main = counters_main,
};
