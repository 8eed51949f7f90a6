/* query_options.c - the options of `pfw query`, and what does not go together; see query.h. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "query.h"
#include "select_args.h"

enum { FIELDS = 256, FORMAT, SORT, LIMIT, COUNT, FOLLOW, ALL_RUNS, FORCE };

const struct cli_option query_options[] = {
	SELECT_ARGS_TIMES,
	SELECT_ARGS_FILTERS,
	{ "meta", 'm', NULL, "the tracer's own lines (ph M), too; --cat pfw are these alone",
	  SELECT_ARGS_META },
	{ "fields", 'F', "LIST", "a table of these: ts,dur,name,args.fname", FIELDS },
	{ "format", 0, "ndjson|tsv|csv", "of the output; --fields alone: tsv", FORMAT },
	{ "sort", 's', "KEY", "ts, -ts, dur or -dur (longest first); needs --limit", SORT },
	{ "limit", 'l', "N", "at most that many lines", LIMIT },
	{ "count", 0, NULL, "only how many", COUNT },
	{ "follow", 0, NULL, "go on while the trace is written, until it ends", FOLLOW },
	{ "all-runs", 0, NULL, "not only the newest run", ALL_RUNS },
	{ "output", 'o', "FILE", "write there; it appears when it is whole", 'o' },
	{ "force", 0, NULL, "replace FILE", FORCE },
	{ "jobs", 'j', "N", "threads; as many as there are CPUs", 'j' },
	{ "quiet", 'q', NULL, "problems only on standard error", 'q' },
	{ 0 },
};

static int bad_value(const struct query *query, const char *option, const char *value,
		     const char *want)
{
	cli_error(query->command->name, "%s %s: want %s", option, cli_name(value), want);
	return CLI_USAGE;
}

/* A whole number of at most 18 digits. */
static bool read_number(const char *text, uint64_t *number)
{
	size_t digits = strspn(text, "0123456789");

	*number = digits ? strtoull(text, NULL, 10) : 0;
	return digits && digits <= 18 && !text[digits];
}

static int take_format(struct query *query, const char *value)
{
	static const char *const names[] = { "ndjson", "tsv", "csv" };

	for (unsigned i = 0; i < CLI_ARRAY_LEN(names); i++) {
		if (strcmp(value, names[i]) == 0) {
			query->lines.format = (enum query_format)i;
			return CLI_OK;
		}
	}
	return bad_value(query, "--format", value, "ndjson, tsv or csv");
}

static int take_sort(struct query *query, const char *value)
{
	const char *name = value + (*value == '-');

	query->sorted = true;
	query->key =
		(struct query_key){ .dur = strcmp(name, "dur") == 0, .descending = *value == '-' };
	if (query->key.dur || strcmp(name, "ts") == 0)
		return CLI_OK;
	return bad_value(query, "--sort", value, "ts, -ts, dur or -dur");
}

static int take_fields(struct query *query, const char *value)
{
	char why[1024] = "";

	pfw_columns_free(&query->lines.columns);
	if (pfw_columns_parse(&query->lines.columns, value, why, sizeof(why)) == 0)
		return CLI_OK;
	cli_error(query->command->name, "--fields: %s", *why ? why : strerror(ENOMEM));
	return CLI_USAGE;
}

static int take_option(struct query *query, const struct cli_args *args, int option)
{
	const char *value = args->value;

	switch (option) {
	case FIELDS:
		return take_fields(query, value);
	case FORMAT:
		return take_format(query, value);
	case SORT:
		return take_sort(query, value);
	case LIMIT:
		if (read_number(value, &query->limit))
			return CLI_OK;
		return bad_value(query, "--limit", value, "a number of lines");
	case COUNT:
		query->count = true;
		return CLI_OK;
	case FOLLOW:
		query->follow = true;
		return CLI_OK;
	case ALL_RUNS:
		query->all_runs = true;
		return CLI_OK;
	case FORCE:
		query->force = true;
		return CLI_OK;
	case 'o':
		query->out_path = value;
		return CLI_OK;
	case 'j':
		return cli_jobs(query->command, value, 64, &query->jobs) ? CLI_USAGE : CLI_OK;
	case 'q':
		query->quiet = true;
		return CLI_OK;
	default:
		return select_args_take(&query->select, args, option) < 0 ? CLI_USAGE : CLI_OK;
	}
}

/* What does not go together. */
static int check(const struct query *query)
{
	if (query->sorted && query->limit == QUERY_NO_LIMIT && !query->count)
		return query_refuse(query,
				    "--sort keeps what it sorts in memory: give --limit N, too "
				    "(`pfw compact` sorts whole traces by ts)");
	if (query->lines.format != QUERY_NDJSON && !query->lines.columns.count && !query->count)
		return query_refuse(query, "--format tsv and csv are tables: say of what, --fields "
					   "ts,dur,name");
	if (query->follow && (query->sorted || query->count))
		return query_refuse(query,
				    "--follow gives lines as they come: no --sort, no --count");
	return CLI_OK;
}

int query_read_options(struct query *query, struct cli_args *args, bool *ended)
{
	bool format = false;
	int option, status = CLI_OK;

	while (status == CLI_OK && (option = cli_next(args)) >= 0) {
		format |= option == FORMAT;
		status = take_option(query, args, option);
	}
	*ended = status != CLI_OK || option != CLI_DONE;
	if (*ended)
		return status != CLI_OK ? status : cli_ended(args, option);
	if (query->lines.columns.count && !format)
		query->lines.format = QUERY_TSV;
	if (query->count)
		query->sorted = false; /* an order does not change how many */
	query->paths = args->argv;
	query->path_count = (size_t)args->operands;
	status = check(query);
	*ended = status != CLI_OK;
	return status;
}
