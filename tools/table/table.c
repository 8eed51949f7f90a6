/* tools/table/table.c - `pfw table`: time by name, file or rank, as torch's key averages. */
#include "table/table.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "share/unasked.h"
#include "store/line/frame.h"
#include "store/traces/ranks.h"
#include "table/columns.h"
#include "table/pass.h"
#include "ui/host.h"

enum { SORT_BY = 256, GROUP_BY, COLUMNS, PEAK };

const struct grid_column table_fields[TABLE_FIELDS] = {
	[TABLE_NAME] = { "name", "Name", GRID_TEXT },
	[TABLE_CAT] = { "cat", "Category", GRID_TEXT },
	[TABLE_SHAPE] = { "shape", "Input Shapes", GRID_TEXT },
	[TABLE_STACK] = { "stack", "Source Location", GRID_TEXT },
	[TABLE_LINE] = { "line", "Line of Code", GRID_TEXT },
	[TABLE_FNAME] = { "fname", "File", GRID_TEXT },
	[TABLE_PROCESS] = { "process", "Process", GRID_TEXT },
	[TABLE_CMD] = { "cmd", "Command", GRID_TEXT },
	[TABLE_OPERATOR] = { "operator", "Operator", GRID_TEXT },
	[TABLE_RANK] = { "rank", "Rank", GRID_DIGITS },
	[TABLE_STEP] = { "step", "Step", GRID_DIGITS },
	[TABLE_PID] = { "pid", "Pid", GRID_DIGITS },
	[TABLE_TID] = { "tid", "Tid", GRID_DIGITS },
};

/* ---- options ---- */

/* Add the arg of a word "args.KEY".  False: the key is empty or too long, or there are too many. */
static bool add_arg(struct table_options *options, const char *word)
{
	size_t bytes = strlen(word);

	for (unsigned i = 0; i < options->args; i++) {
		if (strcmp(options->arg[i], word) == 0)
			return true;
	}
	if (bytes == strlen("args.") || bytes >= TABLE_ARG_BYTES ||
	    options->args > TABLE_ARG_LAST - TABLE_ARG)
		return false;
	memcpy(options->arg[options->args], word, bytes + 1);
	options->field[options->fields++] = (enum table_field)(TABLE_ARG + options->args++);
	return true;
}

/* Add the field of that name.  False: it is none of `fields`. */
static bool add_field(struct table_options *options, const char *word, unsigned fields)
{
	size_t bytes = strcspn(word, ":");
	unsigned field = 0;

	if (fields & 1u << TABLE_ARG && strncmp(word, "args.", strlen("args.")) == 0)
		return add_arg(options, word);
	while (field < TABLE_FIELDS && (!(fields & 1u << field) || !table_fields[field].key ||
					strlen(table_fields[field].key) != bytes ||
					strncmp(word, table_fields[field].key, bytes) != 0))
		field++;
	if (field == TABLE_FIELDS)
		return false;
	for (unsigned i = 0; i < options->fields; i++) {
		if (options->field[i] == field)
			return true;
	}
	if (word[bytes]) {
		char *end;
		unsigned long frames = strtoul(word + bytes + 1, &end, 10);

		if (field != TABLE_STACK || *end || !word[bytes + 1] || !frames || frames > 1000)
			return false;
		options->frames = (unsigned)frames;
	}
	options->by_name |= field == TABLE_NAME;
	options->field[options->fields++] = (enum table_field)field;
	return true;
}

int table_fields_parse(struct table_options *options, const char *list, unsigned fields,
		       const char *names)
{
	char *copy = strdup(list), *rest = copy, *word;
	int error = copy ? 0 : -1;

	options->fields = options->args = 0;
	options->by_name = false;
	while (!error && (word = strsep(&rest, ","))) {
		if (add_field(options, word, fields))
			continue;
		cli_error(options->survey->command->name,
			  "--group-by %s: takes %s, with commas between them", cli_name(word),
			  names);
		error = -1;
	}
	/* torch groups shapes and stacks by name. */
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
	char keys[TABLE_KEYS_BYTES];

	/* As in `pfw query`, though the largest are first anyway. */
	key += *key == '-';
	options->sort_by = key;
	if (strcmp(key, "none") == 0 || strcmp(key, "key") == 0 || strcmp(key, "name") == 0 ||
	    table_column_find(key, PFW_TABLE_COMPUTE) || table_column_find(key, PFW_TABLE_IO))
		return 0;
	cli_error(options->survey->command->name,
		  "--sort-by %s: there is no such key; there are %s; also name, and none for the "
		  "order of the begins",
		  cli_name(key), table_column_keys(keys));
	return -1;
}

static int parse_peak(struct table_options *options, const char *text)
{
	char *end;
	double peak = strtod(text, &end);

	if (*end || end == text || !isfinite(peak) || peak <= 0) {
		cli_error(options->survey->command->name,
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
	bool reach;

	switch (option) {
	case SORT_BY:
		return parse_sort(options, args->value);
	case GROUP_BY:
		return table_fields_parse(
			options, args->value, ~0u,
			"name, cat, shape, stack:N, line, fname, process, cmd, operator, rank, step, pid, tid and args.KEY (up to 8)");
	case COLUMNS:
		return table_columns_parse(options, args->value);
	case PEAK:
		return parse_peak(options, args->value);
	default:
		break;
	}
	/* Times, ranks, processes and threads select the lines that are read, other conditions
	 * those that are shown. */
	reach = option <= SELECT_ARGS + PFW_SELECT_UNTIL ||
		(option >= SELECT_ARGS + PFW_SELECT_RANK && option <= SELECT_ARGS + PFW_SELECT_TID);
	options->limited |= reach;
	options->filtered |= !reach;
	return select_args_take(reach ? &options->reach : &options->wanted, args, option);
}

/* ---- the command ---- */

static int resolve(struct table_options *options, struct survey_input *input)
{
	int status = survey_resolve(options->survey, input, &options->reach);

	return status == CLI_OK ? survey_resolve(options->survey, input, &options->wanted)
				: CLI_USAGE;
}

/* Attach the lines in rings; with `lay_out` find the blocks of the files first. */
static int open_lines(struct table_options *options, struct survey_input *input, bool lay_out)
{
	struct survey *survey = options->survey;

	if (lay_out && pfw_traces_lay_out(&input->traces, survey_say, survey))
		return CLI_USAGE;
	return survey_attach(survey, input, lay_out ? NULL : &options->reach);
}

/* Fill the table; CLI_OK, or the exit status after an error message. */
static int fill(struct table *table, struct table_options *options, struct survey_input *input)
{
	const char *lacks = table_needs_lines(options);
	bool ask = !lacks, resolved = ask && !options->by_file && !options->by_step;
	bool of_processes = table_bits(options) & TABLE_BITS_PROCESSES, known;
	int error = 0;

	/* A trace with an index has no lines in rings: looking for them takes longer than the
	 * answer. */
	if (resolved ? resolve(options, input)
		     : ask && survey_resolve(options->survey, input, &options->reach))
		return CLI_USAGE;
	if (ask && of_processes) {
		if (survey_lacks(options->survey, input, "--group-by process or cmd"))
			return CLI_USAGE;
		unasked_of_survey(options->survey, &input->traces);
		error = table_processes_read(&options->processes, options->survey, input,
					     &options->reach);
		if (error)
			return survey_end(options->survey, error);
	}
	known = !options->processes || table_processes_unique(options->processes);
	if (!known)
		table->lacks = "a pid that several processes had";
	if (ask && known)
		error = table_from_index(table, options, &input->traces);
	if (ask && known && !error && unasked_of_survey(options->survey, &input->traces))
		error = table_from_index(table, options, &input->traces);
	if (error > 0)
		return CLI_OK;
	if (error < 0)
		return survey_end(options->survey, error);
	if (!lacks && !error)
		lacks = table->lacks;
	if (survey_lacks(options->survey, input, lacks ? lacks : "a trace without an index"))
		return CLI_USAGE;
	if (cli_host && cli_host->lines && !cli_host->lines(cli_host->user, lacks))
		return CLI_OK;
	options->survey->lacks = options->survey->no_index ? NULL : lacks;
	/* Before the indexes are asked for other lines: each time the blocks are found anew. */
	if (of_processes && !options->processes)
		error = table_processes_read(&options->processes, options->survey, input,
					     &options->reach);
	if (error)
		return survey_end(options->survey, error);
	if (open_lines(options, input, ask && !of_processes) ||
	    (!resolved && resolve(options, input)))
		return CLI_USAGE;
	error = table_add_whole(table, options) ?: table_collect(table, options, input);
	table_free_whole(table);
	return error ? survey_end(options->survey, error) : CLI_OK;
}

/* Whether the ranks of lines matter: `step:N` is a different time for each rank. */
static bool asks_ranks(const struct table_options *options)
{
	const struct pfw_select *reach = &options->reach;

	return reach->rank.count || reach->where_count || options->wanted.where_count ||
	       reach->since.kind == PFW_TIME_STEP || reach->until.kind == PFW_TIME_STEP ||
	       options->wanted.ask_steps || options->wanted.step.count ||
	       table_bits(options) & TABLE_BIT(TABLE_RANK);
}

/* Complete the options, and choose how traces are opened. */
static int settle(void *user, struct cli_args *args)
{
	struct table_options *options = user;
	unsigned bits = table_bits(options);

	(void)args;
	options->reach.meta = true; /* `summed` lines, and the wall time of all lines */
	options->reach.ask_fnames |= (bits & TABLE_BIT(TABLE_FNAME)) != 0;
	options->by_step = bits & TABLE_BIT(TABLE_STEP);
	options->by_operator = bits & TABLE_BIT(TABLE_OPERATOR) && !options->plain;
	options->wanted.ask_steps |= options->by_step;
	options->by_file = bits == TABLE_BIT(TABLE_FNAME) && !options->plain;
	if (options->by_file && !options->columns)
		table_columns_parse(options, "files");
	if (options->peak_flops && options->columns)
		table_columns_parse(options, "speed");
	options->percentiles = table_columns_percentiles(options);
	options->survey->whole = true;
	options->survey->heads = !table_needs_lines(options) &&
				 !(table_bits(options) & TABLE_BITS_PROCESSES);
	return -1;
}

/* Whether some frame of the rows is an address. */
static bool has_addresses(const struct table *table, const struct table_options *options)
{
	for (unsigned i = 0; i < options->fields; i++) {
		if (options->field[i] != TABLE_STACK && options->field[i] != TABLE_LINE)
			continue;
		for (uint32_t row = 0; row < table->rows.count; row++) {
			size_t bytes = 0;
			/* A row that is not shown has none of the fields. */
			const char *text = table_section(&table->rows.row[row]) < PFW_TABLE_SECTIONS
						   ? table_text(&table->rows.row[row], i, &bytes)
						   : "";
			const char *end = text + bytes, *frame;

			for (frame = text; frame < end; frame = text + 1) {
				text = memchr(frame, '\n', (size_t)(end - frame));
				text = text ? text : end;
				if (pfw_frame_address(frame, (size_t)(text - frame), NULL, NULL))
					return true;
			}
		}
	}
	return false;
}

static int fill_and_print(void *user, struct survey_input *input)
{
	struct table_options *options = user;
	struct survey *survey = options->survey;
	struct table table = { .traces = &input->traces, .extent = TABLE_EXTENT_NONE };
	int status = CLI_OK;

	if (asks_ranks(options) && pfw_ranks_part(&input->traces, survey_say, survey))
		status = survey_end(survey, -ENOMEM);
	if (status == CLI_OK)
		status = fill(&table, options, input);
	if (status == CLI_OK) {
		table_print(&table, options);
		if (table.too_many && !survey->quiet)
			cli_error(
				survey->command->name,
				"more than 16,384 rows of I/O: their percentiles are left out; fewer "
				"rows (--fname, --cat, --group-by) have them");
		if (!survey->quiet && has_addresses(&table, options))
			cli_error(
				survey->command->name,
				"some native frames are addresses: pfw symbolize makes copies of the "
				"traces with functions and lines");
		status = survey_end(survey, 0);
	}
	pfw_averages_release(&table.rows);
	return status;
}

static int table_main(const struct cli_command *command, int argc, char **argv)
{
	struct table_options options = { .field = { TABLE_NAME },
					 .fields = 1,
					 .by_name = true,
					 .frames = 1000,
					 .name_width = 55 };
	struct survey survey = { .command = command,
				 .jobs_most = TABLE_JOBS_MAX,
				 .user = &options,
				 .take = take,
				 .begin = settle,
				 .body = fill_and_print,
				 .partials = true,
				 .row_limit = SURVEY_FEW_ROWS,
				 .few_rows = 100 };
	int status;

	options.survey = &survey;
	status = survey_main(&survey, argc, argv);
	table_processes_free(options.processes);
	pfw_select_release(&options.reach);
	pfw_select_release(&options.wanted);
	return status;
}

static const struct cli_option table_options[] = {
	{ "sort-by", 's', "KEY",
	  "sort rows by this column, largest first; also torch's older keys (cuda_time_total); "
	  "name: by the fields of --group-by, least first; none: by the first event (I/O: by total). Default: by self time, of the "
	  "devices if there are any; by total if rows have no self time",
	  .id = SORT_BY },
	{ "row-limit", 0, "N", "rows shown (default in text and md: 100); -1: all",
	  SURVEY_ROW_LIMIT },
	{ "group-by", 'g', "LIST",
	  "one row per: name, cat, shape, stack:N, line, fname, process, cmd, operator, rank, step, pid, tid, args.KEY; several "
	  "separated by commas",
	  .id = GROUP_BY },
	{ "columns", 0, "LIST", "columns by their keys, or a set: flops, speed, files, io",
	  .id = COLUMNS },
	{ "peak-tflops", 0, "N",
	  "peak speed of one device: adds FLOP/s, and percent of the peak, to each row",
	  .id = PEAK },
	{ "top-level-only", 0, NULL, "leave out operators inside other operators",
	  CLI_INTO(struct table_options, top_level_only) },
	{ "plain", 'p', NULL,
	  "all events in one table, without self times and without joining GPU work",
	  CLI_INTO(struct table_options, plain) },
	{ "max-name-width", 0, "N", "cut names at N characters (default: 55); 0: never",
	  CLI_INTO(struct table_options, name_width), .most = INT32_MAX },
	SELECT_ARGS_TIMES,
	SELECT_ARGS_FILTERS,
	SURVEY_OPTION_ALL_RUNS,
	SURVEY_OPTION_WIDE,
	{ "no-head", 0, NULL, "leave out the first line, which PyTorch's tables do not have",
	  CLI_INTO(struct table_options, no_head) },
	SURVEY_OPTIONS,
	{ "format", 0, SURVEY_FORMAT_NAMES,
	  "md: to paste; for programs times in µs, sizes in bytes", SURVEY_INTO(format) },
	{ 0 },
};

static bool table_values(const char *option, char out[CLI_VALUES_BYTES])
{
	size_t used = 0;

	_Static_assert(TABLE_KEYS_BYTES + 64 <= CLI_VALUES_BYTES,
		       "table_column_keys() writes there");
	if (strcmp(option, "sort-by") == 0 || strcmp(option, "columns") == 0) {
		for (const char *at = table_column_keys(out); *at; at++) {
			if (*at != ' ')
				out[used++] = *at == ',' ? '|' : *at;
		}
		out[used] = '\0';
		if (option[0] == 'c')
			strcpy(out + used, "|flops|speed|files|io");
	} else if (strcmp(option, "group-by") == 0) {
		for (unsigned i = 0; i < TABLE_FIELDS; i++) {
			if (table_fields[i].key)
				used += (size_t)sprintf(out + used, "%s%s", i ? "|" : "",
							table_fields[i].key);
		}
	}
	return used != 0;
}

const struct cli_command cli_table = {
	.values = table_values,
	.name = "table",
	.operands = "[PATH...]",
	.summary =
		"Show what took the time, by name, file or rank: PyTorch's key averages, and I/O",
	.options = table_options,
	.details = SURVEY_PATHS
	"Compute (operators, kernels, spans) has the columns of torch.profiler's\n"
	"key_averages().table(); I/O has calls, times, percentiles, bytes and bandwidth.\n"
	"Conditions other than time, rank, process and thread select the rows shown;\n"
	"self times are those of the whole trace.  Finished traces of 1,000,000 events\n"
	"(PFW_INDEX_EVENTS) get an index, from which the next answer comes at once.\n",
	.main = table_main,
};
