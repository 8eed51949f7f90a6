/* table.c - `pfw table`: what took the time, by name, file, rank: torch's key averages, and I/O. */
#include "table.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "live_lines.h"
#include "select_args.h"
#include "stop.h"
#include "store/ranks.h"
#include "table_columns.h"
#include "table_nest.h"
#include "table_output.h"

#define ROW_LIMIT 100
#define NAME_WIDTH 55
#define FORMATS (1u << CLI_TEXT | 1u << CLI_NDJSON | 1u << CLI_CSV | 1u << CLI_TSV | 1u << CLI_MD)

enum {
	ALL_RUNS = 256,
	SORT_BY,
	ROW_LIMIT_OPTION,
	GROUP_BY,
	COLUMNS,
	PEAK,
	TOP_LEVEL,
	NAME_WIDTH_OPTION,
	FORMAT
};

static const char *const field_names[TABLE_FIELDS] = {
	[TABLE_NAME] = "name",	 [TABLE_CAT] = "cat",	  [TABLE_SHAPE] = "shape",
	[TABLE_STACK] = "stack", [TABLE_FNAME] = "fname", [TABLE_RANK] = "rank",
	[TABLE_STEP] = "step",	 [TABLE_PID] = "pid",	  [TABLE_TID] = "tid",
};

const char *table_field_name(enum table_field field)
{
	return field_names[field];
}

/* ---- options ---- */

static int bad_field(const struct table_options *options, const char *word)
{
	cli_error(options->command->name,
		  "--group-by %s: takes name, cat, shape, stack:N, fname, rank, step, pid and tid, "
		  "with commas between them",
		  cli_name(word));
	return -1;
}

static int add_field(struct table_options *options, const char *word)
{
	char *end;

	for (unsigned i = 0; i < TABLE_FIELDS; i++) {
		size_t bytes = strlen(field_names[i]);
		bool deep;

		if (strncmp(word, field_names[i], bytes) != 0)
			continue;
		deep = i == TABLE_STACK && word[bytes] == ':';
		if (word[bytes] && !deep)
			continue;
		for (unsigned j = 0; j < options->fields; j++) {
			if (options->field[j] == i)
				return 0;
		}
		if (deep) {
			unsigned long frames = strtoul(word + bytes + 1, &end, 10);

			if (*end || end == word + bytes + 1 || !frames || frames > 1000)
				return bad_field(options, word);
			options->frames = (unsigned)frames;
		}
		options->by_name |= i == TABLE_NAME;
		options->field[options->fields++] = (enum table_field)i;
		return 0;
	}
	return bad_field(options, word);
}

static int parse_fields(struct table_options *options, const char *list)
{
	char *copy = strdup(list), *rest = copy, *word;
	int error = copy ? 0 : -1;

	options->fields = 0;
	options->by_name = false;
	while (!error && (word = strsep(&rest, ",")))
		error = add_field(options, word);
	/* torch's groups of shapes and stacks are of names. */
	if (!error && options->fields && !options->by_name &&
	    (options->field[0] == TABLE_SHAPE || options->field[0] == TABLE_STACK)) {
		memmove(options->field + 1, options->field,
			options->fields * sizeof(options->field[0]));
		options->field[0] = TABLE_NAME;
		options->fields++;
		options->by_name = true;
	}
	free(copy);
	return error;
}

static int parse_sort(struct table_options *options, const char *key)
{
	options->sort_by = strcmp(key, "none") == 0 ? NULL : key;
	if (!options->sort_by || strcmp(key, "key") == 0 || strcmp(key, "name") == 0 ||
	    table_column_find(key, TABLE_COMPUTE) || table_column_find(key, TABLE_IO))
		return 0;
	cli_error(options->command->name,
		  "--sort-by %s: there is no such key; there are %s; also name, and none for the "
		  "order of the begins",
		  cli_name(key), table_column_keys());
	return -1;
}

static int parse_peak(struct table_options *options, const char *text)
{
	char *end;
	double peak = strtod(text, &end);

	if (*end || end == text || !isfinite(peak) || peak <= 0) {
		cli_error(options->command->name,
			  "--peak-tflops %s: takes a number above 0: the 10^12 FLOPs a second that "
			  "one device can do at most",
			  cli_name(text));
		return -1;
	}
	options->peak_flops = peak * 1e12;
	return 0;
}

static int take(void *user, const struct cli_args *args, int option)
{
	struct table_options *options = user;
	int64_t number;
	int taken;

	switch (option) {
	case SORT_BY:
		return parse_sort(options, args->value);
	case GROUP_BY:
		return parse_fields(options, args->value);
	case COLUMNS:
		return table_columns_parse(options, args->value);
	case PEAK:
		return parse_peak(options, args->value);
	case ROW_LIMIT_OPTION:
		return cli_whole(options->command, "row-limit", args->value, -1, INT32_MAX,
				 &options->row_limit);
	case NAME_WIDTH_OPTION:
		if (cli_whole(options->command, "max-name-width", args->value, 0, INT32_MAX,
			      &number))
			return -1;
		options->name_width = (unsigned)number;
		return 0;
	case 'p':
		options->plain = true;
		return 0;
	case TOP_LEVEL:
		options->top_level_only = true;
		return 0;
	case ALL_RUNS:
		options->all_runs = true;
		return 0;
	case 'q':
		options->quiet = true;
		return 0;
	case 'j':
		return cli_jobs(options->command, args->value, TABLE_JOBS_MAX, &options->jobs);
	case FORMAT:
		options->format = cli_format_of(options->command, args->value, FORMATS);
		return options->format < 0 ? -1 : 0;
	default:
		break;
	}
	/* Times, ranks and threads say which lines take part; the others which rows are shown. */
	if (option <= SELECT_ARGS + PFW_SELECT_UNTIL ||
	    (option >= SELECT_ARGS + PFW_SELECT_RANK && option <= SELECT_ARGS + PFW_SELECT_TID)) {
		taken = select_args_take(&options->reach, args, option);
		options->limited = true;
	} else {
		taken = select_args_take(&options->wanted, args, option);
		options->filtered = true;
	}
	return taken > 0 ? 0 : -1;
}

/* ---- the command ---- */

static void say_trace(void *user, const char *path, const char *why)
{
	struct table *table = user;

	cli_error("table", "%s: %s", cli_name(path), why);
	table->problems++;
}

static int resolve(struct table_options *options, struct live_lines *live,
		   const volatile bool *stop)
{
	const struct pfw_extent_options extent = {
		.jobs = options->jobs, .stop = stop, .more = live_lines_more, .user = live
	};

	if (select_args_resolve(&options->reach, options->command, live->traces, &extent))
		return CLI_USAGE;
	return select_args_resolve(&options->wanted, options->command, live->traces, &extent);
}

/* Fill the table; CLI_OK, or CLI_USAGE after saying why not. */
static int fill(struct table *table, struct table_options *options, struct live_lines *live,
		const volatile bool *stop)
{
	bool ask = table_asks_indexes(options), resolved = ask && !options->by_file;
	int error = 0;

	/* A trace with an index has nothing behind it: looking for that takes longer than to answer. */
	if (resolved && resolve(options, live, stop))
		return CLI_USAGE;
	if (ask)
		error = table_from_index(table, options, live->traces);
	if (!error && ask && pfw_traces_lay_out(live->traces, say_trace, table))
		return CLI_USAGE;
	if (!error)
		error = live_lines_open(live);
	table->problems += live->missing;
	if (!error && !ask)
		error = select_args_use_indexes(&options->reach, options->command, live->traces,
						options->quiet);
	if (error < 0)
		cli_error(options->command->name, "%s", strerror(-error));
	if (error)
		return error > 0 ? CLI_OK : CLI_USAGE;
	if (!resolved && resolve(options, live, stop))
		return CLI_USAGE;
	return table_collect(table, options, live, stop) ? CLI_USAGE : CLI_OK;
}

/* Whether it matters which rank a line is of: of `step:N` each has its own. */
static bool asks_ranks(const struct table_options *options)
{
	const struct pfw_select *reach = &options->reach;
	bool asks = reach->rank.count || reach->where_count || options->wanted.where_count ||
		    reach->since.kind == PFW_TIME_STEP || reach->until.kind == PFW_TIME_STEP;

	for (unsigned i = 0; i < options->fields; i++)
		asks |= options->field[i] == TABLE_RANK;
	return asks;
}

static int run(struct table_options *options, struct cli_args *args)
{
	struct table table = { .problems = 0 };
	const volatile bool *stop = stop_watch();
	struct pfw_traces traces;
	struct live_lines live = { .command = options->command, .traces = &traces };
	bool ask;
	int status;

	for (unsigned i = 0; i < options->fields; i++)
		options->reach.ask_fnames |= options->field[i] == TABLE_FNAME;
	options->by_file = options->fields == 1 && options->field[0] == TABLE_FNAME &&
			   !options->plain;
	if (options->by_file && !options->columns)
		table_columns_parse(options, "files");
	if (options->peak_flops && options->columns)
		table_columns_parse(options, "speed");
	options->percentiles = table_columns_percentiles(options);
	ask = table_asks_indexes(options);
	if ((ask ? pfw_traces_open_heads : pfw_traces_open)(&traces, args->argv,
							    (size_t)args->operands,
							    options->all_runs, say_trace, &table))
		return CLI_USAGE;
	pfw_averages_init(&table.rows);
	if (asks_ranks(options) && pfw_ranks_part(&traces, say_trace, &table)) {
		cli_error(options->command->name, "%s", strerror(ENOMEM));
		status = CLI_USAGE;
	} else {
		status = fill(&table, options, &live, stop);
	}
	if (status == CLI_OK) {
		table.traces = &traces;
		table_print(&table, options);
		if (table.too_many && !options->quiet)
			cli_error(options->command->name,
				  "more than 16,384 rows: their percentiles are left out; fewer "
				  "rows (--fname, --cat, --group-by) have them");
		status = cli_finish(stdout, options->command,
				    table.problems ? CLI_PROBLEMS : CLI_OK);
	}
	pfw_averages_release(&table.rows);
	table_steps_release(&table.steps);
	live_lines_close(&live);
	pfw_traces_close(&traces);
	stop_end();
	return status;
}

static int table_main(const struct cli_command *command, int argc, char **argv)
{
	struct table_options options = { .command = command,
					 .field = { TABLE_NAME },
					 .fields = 1,
					 .by_name = true,
					 .frames = 1000,
					 .row_limit = ROW_LIMIT,
					 .name_width = NAME_WIDTH };
	struct cli_args args;
	int status;

	cli_args_init(&args, command, argc, argv);
	status = cli_take_options(&args, &options, take);
	if (status < 0)
		status = run(&options, &args);
	pfw_select_release(&options.reach);
	pfw_select_release(&options.wanted);
	return status;
}

static const struct cli_option table_options[] = {
	{ "sort-by", 's', "KEY",
	  "order of the rows, greatest first: a column's key, also torch's "
	  "older ones (cuda_time_total), name, or none (compute: in order of their begins)",
	  SORT_BY },
	{ "row-limit", 0, "N", "rows shown, 100 by default; -1: all", ROW_LIMIT_OPTION },
	{ "group-by", 'g', "LIST",
	  "what makes a row: name, cat, shape, stack:N, fname, rank, step, "
	  "pid, tid; several with commas",
	  GROUP_BY },
	{ "columns", 0, "LIST", "columns by their keys, or flops, speed, files or io", COLUMNS },
	{ "peak-tflops", 0, "N",
	  "what one device can do at most: FLOPs a second, and percent of that, of each row",
	  PEAK },
	{ "top-level-only", 0, NULL, "leave out operators that lie in others", TOP_LEVEL },
	{ "plain", 'p', NULL,
	  "events as their lines say, all in one table: no self times, no GPU work joined", 'p' },
	{ "max-name-width", 0, "N", "cut names at N characters, 55 by default; 0: never",
	  NAME_WIDTH_OPTION },
	SELECT_ARGS_TIMES,
	SELECT_ARGS_FILTERS,
	{ "all-runs", 0, NULL, "not only the newest run of a directory", ALL_RUNS },
	{ "quiet", 'q', NULL, "problems only on standard error", 'q' },
	{ "jobs", 'j', "N", "threads; by default one for each CPU", 'j' },
	{ "format", 0, "FORMAT",
	  "text, md (to paste), ndjson, csv or tsv: times in µs, sizes in bytes", FORMAT },
	{ 0 },
};

const struct cli_command cli_table = {
	.name = "table",
	.operands = "[PATH...]",
	.summary =
		"Show what took the time, by name, file or rank: PyTorch's key averages, and I/O",
	.options = table_options,
	.details =
		"PATH: traces, directories, globs or base names; the newest run here where there is "
		"none.\nCompute (operators, kernels, spans) has the columns of "
		"torch.profiler's\nkey_averages().table(); I/O has calls, times, percentiles, bytes "
		"and bandwidth.\nA condition that is no time, rank, process or thread says which rows "
		"are shown;\nself times are those of the whole trace.\n",
	.main = table_main,
};
