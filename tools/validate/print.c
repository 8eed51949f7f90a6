/* tools/validate/print.c - prints the problems of `pfw validate`, and a line a file. */
#include <inttypes.h>
#include <stdio.h>

#include "store/json/print.h"
#include "ui/cli.h"
#include "validate/validate.h"

void validate_print_problem(const struct validate *check, uint64_t line, uint64_t at,
			    const char *text)
{
	struct pfw_printer json = { .out = stdout };

	if (check->format == CLI_NDJSON) {
		pfw_print(&json, "{'file':%s", check->scan.path);
		if (line)
			pfw_print(&json, "'line':%" PRIu64, line);
		if (at != VALIDATE_NO_PLACE)
			pfw_print(&json, "'byte':%" PRIu64, at);
		pfw_print(&json, "'problem':%s}\n", text);
	} else if (line) {
		printf("%s:%" PRIu64 ": %s\n", check->name, line, text);
	} else if (at != VALIDATE_NO_PLACE) {
		printf("%s: byte %" PRIu64 ": %s\n", check->name, at, text);
	} else {
		printf("%s: %s\n", check->name, text);
	}
}

static void say(struct validate *check, uint64_t line, uint64_t at, const char *format,
		va_list values)
{
	char text[512];

	if (++check->file.problems > VALIDATE_SHOWN)
		return;
	vsnprintf(text, sizeof(text), format, values);
	validate_print_problem(check, line, at, text);
}

void validate_say_line(struct validate *check, const char *format, ...)
{
	va_list values;

	va_start(values, format);
	say(check, check->scan.line, check->scan.at, format, values);
	va_end(values);
}

void validate_say_file(struct validate *check, const char *format, ...)
{
	va_list values;

	va_start(values, format);
	say(check, 0, VALIDATE_NO_PLACE, format, values);
	va_end(values);
}

void validate_say_place(struct validate *check, uint64_t at, const char *text)
{
	if (++check->file.problems <= VALIDATE_SHOWN)
		validate_print_problem(check, 0, at, text);
}

void validate_print_summary(const struct validate *check, const char *name, const char *path,
			    const struct validate_tally *tally)
{
	const char *begin = cli_style(check->colours, tally->problems ? CLI_RED : CLI_GREEN);
	const char *end = cli_style(check->colours, CLI_PLAIN);
	struct pfw_printer json = { .out = stdout };

	if (check->format == CLI_NDJSON) {
		pfw_print(&json, "{'file':%s", path);
		if (!path)
			pfw_print(&json, "'files':%" PRIu64, tally->files);
		pfw_print(&json,
			  "'lines':%" PRIu64 ",'events':%" PRIu64 ",'lost':%" PRIu64
			  ",'waited':%" PRIu64 ",'waited_us':%" PRIu64
			  ",'io_uring_operations':%" PRIu64 ",'aio_contexts':%" PRIu64
			  ",'early_calls':%" PRIu64 ",'aggregates':%" PRIu64 ",'gpu_us':%" PRIu64
			  ",'running':%" PRIu64 ",'problems':%" PRIu64 "}\n",
			  tally->lines, tally->events, tally->lost, tally->said.waited,
			  tally->said.waited_us, tally->said.uring_operations,
			  tally->said.aio_contexts, tally->said.early_calls, tally->aggregates,
			  tally->said.gpu_us, tally->running, tally->problems);
		return;
	}
	printf("%s: ", name);
	if (tally->problems)
		printf("%s%s problem%s%s", begin, cli_count(tally->problems),
		       cli_plural(tally->problems), end);
	else
		printf("%sok%s", begin, end);
	printf(", %s line%s, %s event%s, ", cli_count(tally->lines), cli_plural(tally->lines),
	       cli_count(tally->events), cli_plural(tally->events));
	if (tally->lost)
		printf("%s%s lost%s", cli_style(check->colours, CLI_YELLOW), cli_count(tally->lost),
		       end);
	else
		printf("nothing lost");
	if (tally->said.waited)
		printf(", threads waited %s time%s (%s)", cli_count(tally->said.waited),
		       cli_plural(tally->said.waited),
		       cli_seconds((int64_t)tally->said.waited_us * 1000));
	if (tally->said.uring_operations)
		printf(", %s operation%s of io_uring not recorded",
		       cli_count(tally->said.uring_operations),
		       cli_plural(tally->said.uring_operations));
	if (tally->said.aio_contexts)
		printf(", %s AIO context%s not recorded", cli_count(tally->said.aio_contexts),
		       cli_plural(tally->said.aio_contexts));
	if (tally->said.early_calls)
		printf(", %s call%s before the start not recorded",
		       cli_count(tally->said.early_calls), cli_plural(tally->said.early_calls));
	if (tally->aggregates)
		printf(", %s call%s summed by DFTracer, which other commands do not count",
		       cli_count(tally->aggregates), cli_plural(tally->aggregates));
	if (tally->said.gpu_us)
		printf(", GPU work of the last %s before the kill not recorded",
		       cli_seconds((int64_t)tally->said.gpu_us * 1000));
	if (tally->running)
		fputs(", still being written", stdout);
	putchar('\n');
}
