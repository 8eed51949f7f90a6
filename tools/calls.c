/* calls.c - `pfw calls`: which calls are recorded, under which name, with which args, and which calls
 * of libc that touch files are not, with the reason. */
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "cli.h"
#include "probes/calls_table.h"

/* The n-th arg of a call, from 0; NULL behind the last.  Every call has `ret`. */
static const char *arg(const struct pfw_call_info *call, unsigned n)
{
	unsigned first = 1;

	if (call->has_fd) {
		if (n == 0)
			return "fd";
		n--;
	}
	if (n < call->field_count)
		return call->field[n].key;
	return n < call->field_count + first ? "ret" : NULL;
}

static void print_args(const struct pfw_call_info *call, const char *quote, const char *between)
{
	for (unsigned n = 0; arg(call, n); n++)
		printf("%s%s%s%s", n ? between : "", quote, arg(call, n), quote);
}

static void print_row(const struct pfw_call_info *call, int format, int name_width)
{
	if (format == CLI_NDJSON) {
		printf("{\"call\":\"%s\",\"name\":\"%s\",\"cat\":\"%s\",\"args\":[", call->name,
		       call->canonical, call->category);
		print_args(call, "\"", ",");
		puts("]}");
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

/* What is not wrapped. */
struct unwrapped {
	const char *reason;
	const char *names; /* with a space between them */
};

static const struct unwrapped unwrapped[] = {
#define UNWRAPPED(reason, names) { reason, names },
#include "probes/unwrapped.def"
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
			printf("%s%s\n\n    ", i ? "\n" : "", group->reason);
			print_names(group, format == CLI_RST ? "``" : "", "\n    ");
			putchar('\n');
		}
	}
}

static const struct cli_option options[] = {
	{ "unwrapped", 'u', NULL,
	  "the calls that touch files and are not recorded, with the reason", 'u' },
	{ "format", 0, "text|ndjson|rst", "a table, one JSON object a call, or reStructuredText",
	  256 },
	{ 0 },
};

static int calls(const struct cli_command *command, int argc, char **argv)
{
	const struct pfw_call_info *call;
	int format = CLI_TEXT, name_width = 12, option;
	bool others = false;
	struct cli_args args;
	size_t count;

	cli_args_init(&args, command, argc, argv);
	while ((option = cli_next(&args)) >= 0) {
		if (option == 'u')
			others = true;
		else if ((format = cli_format(command, args.value, 3)) < 0)
			return CLI_USAGE;
	}
	if (option != CLI_DONE)
		return cli_ended(&args, option);
	if (args.operands) {
		cli_error(command->name, "%s: no operand is wanted", cli_name(argv[0]));
		return CLI_USAGE;
	}
	if (others) {
		print_unwrapped(format);
		return cli_finish(stdout, command, CLI_OK);
	}
	call = pfw_calls_info(&count);
	for (size_t i = 0; i < count; i++) {
		int width = (int)strlen(call[i].name);

		name_width = width > name_width ? width : name_width;
	}
	print_head(format, name_width);
	for (size_t i = 0; i < count; i++)
		print_row(&call[i], format, name_width);
	return cli_finish(stdout, command, CLI_OK);
}

const struct cli_command cli_calls = {
	.name = "calls",
	.operands = "",
	.summary = "List the calls that are recorded, with their names and args in the trace",
	.options = options,
	.failure = CLI_USAGE,
	.main = calls,
};
