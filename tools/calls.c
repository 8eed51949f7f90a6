/* tools/calls.c - `pfw calls`: lists recorded calls with their args, and unrecorded calls. */
#include <stdbool.h>
#include <string.h>

#include "common/calls/table.h"
#include "store/json/print.h"
#include "ui/cli.h"
#include "ui/fit.h"

/* The n-th arg of a call, counted from 0, or NULL.  Every call has `ret`. */
static const char *arg(const struct pfw_call_info *call, unsigned n)
{
	if (call->has_fd && n-- == 0)
		return "fd";
	if (n < call->field_count)
		return call->field[n].key;
	return n == call->field_count ? "ret" : NULL;
}

static void print_args(const struct pfw_call_info *call, const char *quote, const char *between)
{
	for (unsigned n = 0; arg(call, n); n++)
		printf("%s%s%s%s", n ? between : "", quote, arg(call, n), quote);
}

static void print_row(const struct pfw_call_info *call, int format, int name_width)
{
	if (format == CLI_NDJSON) {
		struct pfw_printer json = { .out = stdout };

		pfw_print(&json, "{'call':%s,'name':%s,'cat':%s,'args':[", call->name,
			  call->canonical, call->category);
		for (unsigned n = 0; arg(call, n); n++)
			pfw_print(&json, "%s", arg(call, n));
		pfw_print(&json, "]}\n");
	} else if (format == CLI_RST) {
		printf("   * - ``%s``\n     - ``%s``\n     - %s\n     - ", call->name,
		       call->canonical, call->category);
		print_args(call, "``", " ");
		putchar('\n');
	} else {
		printf("%-*s %-*s %-6s ", name_width, call->name, name_width, call->canonical,
		       call->category);
		print_args(call, "", " ");
		putchar('\n');
	}
}

static void print_head(int format, int name_width)
{
	if (format == CLI_RST)
		puts(".. list-table::\n   :header-rows: 1\n\n   * - Call\n     - In the trace\n"
		     "     - ``cat``\n     - ``args``");
	else if (format == CLI_TEXT)
		printf("%-*s %-*s %-6s %s\n", name_width, "CALL", name_width, "IN THE TRACE", "CAT",
		       "ARGS (and fname, errno)");
}

/* Calls that are not wrapped. */
struct unwrapped {
	const char *reason;
	const char *names; /* separated by spaces */
};

static const struct unwrapped unwrapped[] = {
#define UNWRAPPED(reason, names) { reason, names },
#include "common/calls/unwrapped.def"
};

static void print_names(const struct unwrapped *group, const char *quote, const char *between)
{
	size_t bytes;

	for (const char *name = group->names; *name; name += bytes + (name[bytes] == ' ')) {
		bytes = strcspn(name, " ");
		printf("%s%s%.*s%s", name == group->names ? "" : between, quote, (int)bytes, name,
		       quote);
	}
}

static void print_unwrapped(int format)
{
	for (size_t i = 0; i < sizeof(unwrapped) / sizeof(unwrapped[0]); i++) {
		const struct unwrapped *group = &unwrapped[i];

		if (format == CLI_NDJSON) {
			printf("{\"reason\":\"%s\",\"calls\":[", group->reason);
			print_names(group, "\"", ",");
			puts("]}");
		} else {
			fputs(i ? "\n" : "", stdout);
			fit_words(stdout, 0, 0, "%s", group->reason);
			fputs("\n    ", stdout);
			print_names(group, format == CLI_RST ? "``" : "", "\n    ");
			putchar('\n');
		}
	}
}

struct listing {
	int format;
	bool others;
};

static const struct cli_option options[] = {
	{ "unwrapped", 'u', NULL,
	  "list calls that touch files and are not recorded, with the reason",
	  CLI_INTO(struct listing, others) },
	{ "format", 0, "text|ndjson|rst", "a table, one JSON object per call, or reStructuredText",
	  CLI_INTO(struct listing, format) },
	{ 0 },
};

static int calls(const struct cli_command *command, int argc, char **argv)
{
	const struct pfw_call_info *call;
	struct listing listing = { .format = CLI_TEXT };
	int name_width = 12, status;
	struct cli_args args;
	size_t count;

	status = cli_read(&args, command, argc, argv, &listing, NULL);
	if (status >= 0)
		return status;
	if (listing.others) {
		print_unwrapped(listing.format);
		return cli_finish(stdout, command, CLI_OK);
	}
	call = pfw_calls_info(&count);
	for (size_t i = 0; i < count; i++) {
		int width = (int)strlen(call[i].name);

		name_width = width > name_width ? width : name_width;
	}
	print_head(listing.format, name_width);
	for (size_t i = 0; i < count; i++)
		print_row(&call[i], listing.format, name_width);
	return cli_finish(stdout, command, CLI_OK);
}

const struct cli_command cli_calls = {
	.name = "calls",
	.operands = "",
	.summary = "List the calls that are recorded, with their names and args in the trace",
	.options = options,
	.main = calls,
};
