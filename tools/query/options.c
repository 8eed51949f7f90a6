/* tools/query/options.c - takes the options of `pfw query`; see query.h. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "query/query.h"

enum { FIELDS = 256, FORMAT, SORT, LIMIT, COUNT, FOLLOW, FORCE };

const struct cli_option query_options[] = {
	SELECT_ARGS_TIMES,
	SELECT_ARGS_FILTERS,
	{ "meta", 'm', NULL, "also the tracer's own lines (ph M); --cat pfw: only these",
	  SELECT_ARGS_META },
	{ "fields", 'F', "LIST", "print a table of these fields: ts,dur,name,args.fname", FIELDS },
	{ "format", 0, "ndjson|tsv|csv", "output format; with --fields: tsv", FORMAT },
	{ "sort-by", 's', "ts|-ts|dur|-dur", "-dur: longest first; needs --limit", SORT },
	{ "limit", 'l', "N", "print at most N lines", LIMIT },
	{ "count", 0, NULL, "print only the number of lines", COUNT },
	{ "follow", 0, NULL, "continue while the trace is being written, until it ends", FOLLOW },
	{ "all-runs", 0, NULL, "not only the newest run", SURVEY_ALL_RUNS },
	{ "output", 'o', "FILE", "write FILE; it appears when it is complete", 'o' },
	{ "force", 0, NULL, "replace FILE", FORCE },
	SURVEY_OPTION_NO_INDEX,
	{ "jobs", 'j', "N", "threads (default: one per CPU)", 'j' },
	{ "quiet", 'q', NULL, "print only problems on standard error", 'q' },
	{ 0 },
};

static int bad_value(const struct query *query, const char *option, const char *value,
		     const char *want)
{
	cli_error(query->survey.command->name, "%s %s: want %s", option, cli_name(value), want);
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

	query->formatted = true;
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
	cli_error(query->survey.command->name, "--fields: %s", *why ? why : strerror(ENOMEM));
	return CLI_USAGE;
}

int query_take_option(void *user, const struct cli_args *args, int option)
{
	struct query *query = user;
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
	case FORCE:
		query->force = true;
		return CLI_OK;
	case 'o':
		query->out_path = value;
		return CLI_OK;
	default:
		return survey_take(&query->survey, &query->select, args, option);
	}
}

int query_check_options(void *user, struct cli_args *args)
{
	struct query *query = user;

	if (query->lines.columns.count && !query->formatted)
		query->lines.format = QUERY_TSV;
	if (query->count)
		query->sorted = false; /* an order does not change how many */
	query->paths = args->argv;
	query->path_count = (size_t)args->operands;
	if (query->sorted && query->limit == QUERY_NO_LIMIT && !query->count)
		return query_refuse(query,
				    "--sort-by keeps what it sorts in memory: give --limit N, too "
				    "(`pfw compact` sorts whole traces by ts)");
	if (query->lines.format != QUERY_NDJSON && !query->lines.columns.count && !query->count)
		return query_refuse(query, "--format tsv and csv are tables: say of what, --fields "
					   "ts,dur,name");
	if (query->follow && (query->sorted || query->count))
		return query_refuse(query,
				    "--follow gives lines as they come: no --sort, no --count");
	return output_check(args->command, query->out_path, query->force) == CLI_OK ? -1
										    : CLI_USAGE;
}
