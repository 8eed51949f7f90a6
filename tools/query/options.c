/* tools/query/options.c - takes the options of `pfw query`; see query.h. */
#include <errno.h>
#include <string.h>

#include "query/query.h"

const struct cli_option query_options[] = {
	SELECT_ARGS_TIMES,
	SELECT_ARGS_FILTERS,
	{ "meta", 'm', NULL, "also the tracer's own lines (ph M); --cat pfw: only these",
	  CLI_INTO(struct query, select.meta) },
	{ "fields", 'F', "LIST", "print a table of these fields: ts,dur,name,args.fname",
	  .id = 256 },
	{ "format", 0, "ndjson|tsv|csv", "output format; with --fields: tsv",
	  CLI_INTO(struct query, lines.format) },
	{ "sort-by", 's', "ts|-ts|dur|-dur", "-dur: longest first; needs --limit",
	  CLI_INTO(struct query, sort) },
	{ "limit", 'l', "N", "print at most N lines", CLI_INTO(struct query, limit),
	  .most = INT64_MAX },
	{ "count", 0, NULL, "print only the number of lines", CLI_INTO(struct query, count) },
	{ "follow", 0, NULL, "continue while the trace is being written, until it ends",
	  CLI_INTO(struct query, follow) },
	{ "all-runs", 0, NULL, "not only the newest run", SURVEY_INTO(all_runs) },
	{ "output", 'o', "FILE", "write FILE; it appears when it is complete",
	  CLI_INTO(struct query, out_path) },
	{ "force", 0, NULL, "replace FILE", CLI_INTO(struct query, force) },
	SURVEY_OPTION_NO_INDEX,
	SURVEY_OPTION_JOBS,
	SURVEY_OPTION_QUIET,
	{ 0 },
};

int query_take_fields(void *user, const struct cli_args *args, int option)
{
	struct query *query = user;
	char why[1024] = "";

	(void)option;
	pfw_columns_free(&query->lines.columns);
	if (pfw_columns_parse(&query->lines.columns, args->value, why, sizeof(why)) == 0)
		return CLI_OK;
	cli_error(query->survey.command->name, "--fields: %s", *why ? why : strerror(ENOMEM));
	return CLI_USAGE;
}

int query_check_options(void *user, struct cli_args *args)
{
	struct query *query = user;

	if (query->lines.format == QUERY_FORMATS)
		query->lines.format = query->lines.columns.count ? QUERY_TSV : QUERY_NDJSON;
	/* An order does not change how many. */
	query->sorted = query->sort != QUERY_UNSORTED && !query->count;
	query->key = (struct query_key){ .dur = query->sort >= QUERY_BY_DUR,
					 .descending = query->sort % 2 };
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
				    "--follow gives lines as they come: no --sort-by, no --count");
	return output_check(args->command, query->out_path, query->force) == CLI_OK ? -1
										    : CLI_USAGE;
}
