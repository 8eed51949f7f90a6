/* tools/ui/messages.c - messages, figures and colours for people, end of the output; see cli.h. */
#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/encode/encode.h"
#include "common/encode/text.h"
#include "store/read/scan.h"
#include "ui/cli.h"
#include "ui/host.h"
#include "ui/progress.h"

_Thread_local const struct host *cli_host;

/* Whether a control character is at `at`; U+0080 to U+009F, which some terminals obey, has two
 * bytes in UTF-8. */
static bool is_control(const char *at)
{
	unsigned char byte = (unsigned char)at[0], next = byte ? (unsigned char)at[1] : 0;

	return byte < 0x20 || byte == 0x7f || (byte == 0xc2 && next >= 0x80 && next < 0xa0);
}

void cli_clean(char *text)
{
	for (; *text; text++) {
		if (!is_control(text) || *text == '\n' || *text == '\t')
			continue;
		if (*text & 0x80)
			*text++ = '?';
		*text = '?';
	}
}

int cli_error(const char *name, const char *format, ...)
{
	char text[8192];
	va_list values;

	va_start(values, format);
	vsnprintf(text, sizeof(text), format, values);
	va_end(values);
	cli_clean(text);
	if (cli_host) {
		cli_host->say(cli_host->user, text);
	} else {
		progress_hide();
		fprintf(stderr, "pfw%s%s: %s\n", name ? " " : "", name ? name : "", text);
	}
	return CLI_USAGE;
}

void cli_problem(const char *name, const char *path, const struct pfw_scan_problem *problem)
{
	path = cli_name(path);
	if (problem->line)
		cli_error(name, "%s:%" PRIu64 ": %s", path, problem->line, problem->text);
	else
		cli_error(name, "%s: byte %" PRIu64 ": %s", path, problem->at, problem->text);
}

const char *cli_name(const char *text)
{
	static _Thread_local char buffers[4][PATH_MAX + 512];
	static _Thread_local unsigned turn;
	char *out = buffers[turn++ % 4], *start = out, *end = out + sizeof(buffers[0]) - 12;
	bool plain = true;

	for (const char *at = text; *at; at++)
		plain = plain && !is_control(at);
	for (const char *at = text; *at && out < end - 5; at++) {
		if (is_control(at) || (!plain && (*at & 0x80)))
			out += sprintf(out, "\\x%02x", (unsigned char)*at);
		else
			*out++ = *at;
	}
	*out = '\0';
	return start;
}

bool cli_colours(FILE *out)
{
	const char *none = getenv("NO_COLOR"), *term = getenv("TERM");

	return isatty(fileno(out)) && !(none && *none) && term && strcmp(term, "dumb") != 0;
}

const char *cli_style(bool coloured, enum cli_style style)
{
	static const char *const sequences[] = { "\033[0m",  "\033[1m",	 "\033[31m",
						 "\033[32m", "\033[33m", "\033[2m" };

	return coloured ? sequences[style] : "";
}

int cli_finish(FILE *out, const struct cli_command *command, int status)
{
	if (cli_host)
		return status;
	progress_hide();
	if (fflush(out) == 0 && !ferror(out))
		return status;
	if (errno == EPIPE) /* `pfw calls | head`: the reader is done */
		return status;
	return cli_error(command->name, "the output cannot be written: %s", strerror(errno));
}

/* ---- figures ---- */

/* Four buffers in turn: one printf() can show four figures. */
static char *turn_buffer(void)
{
	static _Thread_local char buffers[4][CLI_FIGURE_BYTES];
	static _Thread_local unsigned turn;

	return buffers[turn++ % 4];
}

const char *cli_count(uint64_t number)
{
	char digits[24 + PFW_JSON_SLACK], *out = turn_buffer(), *at = out;
	int count = (int)(pfw_append_u64(digits, number) - digits);

	for (int i = 0; i < count; i++) {
		if (i && (count - i) % 3 == 0)
			*at++ = ',';
		*at++ = digits[i];
	}
	*at = '\0';
	return out;
}

const char *cli_bytes(uint64_t bytes)
{
	static const char *const units[] = { "B", "KiB", "MiB", "GiB", "TiB", "PiB" };
	char *out = turn_buffer();
	double size = (double)bytes;
	size_t unit = 0;

	while (size >= 1024 && unit + 1 < CLI_ARRAY_LEN(units)) {
		size /= 1024;
		unit++;
	}
	sprintf(out, unit ? "%.1f %s" : "%.0f %s", size, units[unit]);
	return out;
}

const char *cli_seconds(int64_t ns)
{
	char *out = turn_buffer();
	double seconds = ns > 0 ? (double)ns / 1e9 : 0;

	if (seconds < 1)
		sprintf(out, "%.0fms", seconds * 1e3);
	else if (seconds < 120)
		sprintf(out, "%.2fs", seconds);
	else
		sprintf(out, "%.0fm %.0fs", (double)(int)(seconds / 60),
			seconds - 60 * (double)(int)(seconds / 60));
	return out;
}

/* A time in thousandths of its unit. */
struct split {
	uint64_t thousandths, rest, step; /* the rest, in `step` ns, less than one of these */
	char unit[4];
};

/* Divisors that are constants take a tenth of the time. */
static inline struct split split(uint64_t size)
{
	if (size < 1000000)
		return (struct split){ size, 0, 1, "us" };
	if (size < 1000000000)
		return (struct split){ size / 1000, size % 1000, 1000, "ms" };
	return (struct split){ size / 1000000, size % 1000000, 1000000, "s" };
}

/* A double rounds a tie by its digits.  Other values are rounded in the same way with integers, because
 * printing doubles would take most of the time of large tables. */
static inline bool is_tie(const struct split *split, uint64_t size)
{
	return 2 * split->rest == split->step || size >> 53;
}

static inline size_t unit_bytes(const struct split *split)
{
	return split->unit[1] ? 2 : 1;
}

size_t cli_put_time(char out[CLI_FIGURE_BYTES], int64_t ns)
{
	uint64_t size = ns < 0 ? -(uint64_t)ns : (uint64_t)ns;
	struct split of = split(size);
	char *end;

	if (is_tie(&of, size))
		return (size_t)snprintf(out, CLI_FIGURE_BYTES, "%.3f%s",
					(double)ns / ((double)of.step * 1e3), of.unit);
	*out = '-';
	/* It writes thousandths with their three decimals. */
	end = pfw_append_us(out + (ns < 0), of.thousandths + (2 * of.rest > of.step));
	memcpy(end, of.unit, sizeof(of.unit));
	return (size_t)(end - out) + unit_bytes(&of);
}

size_t cli_time_bytes(int64_t ns)
{
	uint64_t size = ns < 0 ? -(uint64_t)ns : (uint64_t)ns, whole;
	struct split of = split(size);
	char text[CLI_FIGURE_BYTES];
	size_t bytes = (ns < 0) + strlen("0.000") + unit_bytes(&of);

	if (is_tie(&of, size))
		return cli_put_time(text, ns);
	for (whole = (of.thousandths + (2 * of.rest > of.step)) / 1000; whole >= 10; whole /= 10)
		bytes++;
	return bytes;
}

const char *cli_time(int64_t ns)
{
	char *out = turn_buffer();

	cli_put_time(out, ns);
	return out;
}

const char *cli_plural(uint64_t number)
{
	return number == 1 ? "" : "s";
}
