/* bench_scan.c - what reading a line of a trace costs.
 *
 * bench_scan FILE...: of the plain text of the first 64 MiB of the first one, the least CPU ns a
 * line of seven rounds: to find the lines, to take them apart, to look for args as well; then a
 * whole pass over all files, by one thread and by as many as there are CPUs: s and events/s.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "store/pass/pass.h"
#include "store/read/input.h"

#define ROUNDS 7
#define TEXT_MAX (64u << 20)

static uint64_t now_ns(clockid_t clock)
{
	struct timespec ts;

	clock_gettime(clock, &ts);
	return (uint64_t)ts.tv_sec * 1000000000 + (uint64_t)ts.tv_nsec;
}

struct text {
	char *data;
	size_t bytes;
	uint64_t lines;
};

/* Each returns something that depends on all of it, so that nothing is left out. */
static uint64_t find_lines(const struct text *text)
{
	const char *at = text->data, *end = at + text->bytes;
	uint64_t sum = 0;

	for (; at < end; sum++) {
		const char *newline = memchr(at, '\n', (size_t)(end - at));

		at = newline ? newline + 1 : end;
	}
	return sum;
}

static uint64_t take_apart(const struct text *text)
{
	const char *at = text->data, *end = at + text->bytes;
	struct pfw_entry entry = { .numbered = false };
	uint64_t sum = 0;

	while (at < end) {
		at = pfw_entry_parse_next(&entry, at, end) + 1;
		sum += (uint64_t)entry.ts_ns + entry.fast;
	}
	return sum;
}

static uint64_t look_for_args(const struct text *text)
{
	const char *at = text->data, *end = at + text->bytes;
	struct pfw_entry entry = { .numbered = false };
	uint64_t sum = 0;

	while (at < end) {
		struct pfw_value value;
		uint64_t number;

		at = pfw_entry_parse_next(&entry, at, end) + 1;
		if (pfw_entry_arg(&entry, "fname", &value))
			sum += value.text.bytes;
		if (pfw_entry_arg(&entry, "ret", &value) && pfw_value_u64(&value, &number))
			sum += number;
		if (pfw_entry_arg(&entry, "correlation", &value) && pfw_value_u64(&value, &number))
			sum += number;
	}
	return sum;
}

static void measure(const char *what, uint64_t (*run)(const struct text *text),
		    const struct text *text)
{
	uint64_t least = UINT64_MAX, sum = 0;

	for (int i = 0; i < ROUNDS; i++) {
		uint64_t begun = now_ns(CLOCK_THREAD_CPUTIME_ID), ns;

		sum += run(text);
		ns = now_ns(CLOCK_THREAD_CPUTIME_ID) - begun;
		least = ns < least ? ns : least;
	}
	printf("%-24s %6.1f ns a line, %5.2f GB/s  (%" PRIx64 ")\n", what,
	       (double)least / (double)text->lines, (double)text->bytes / (double)least, sum);
}

static void read_text(struct text *text, const char *path)
{
	struct pfw_input *input;
	ssize_t got = 1;

	text->data = calloc(1, TEXT_MAX + PFW_ENTRY_PADDING);
	if (!text->data || pfw_input_open(&input, path)) {
		fprintf(stderr, "bench_scan: %s: cannot be read\n", path);
		exit(2);
	}
	while (got > 0 && text->bytes < TEXT_MAX) {
		got = pfw_input_read(input, text->data + text->bytes, TEXT_MAX - text->bytes);
		text->bytes += got > 0 ? (size_t)got : 0;
	}
	pfw_input_close(input);
	while (text->bytes && text->data[text->bytes - 1] != '\n')
		text->data[--text->bytes] = '\0';
	text->lines = find_lines(text);
}

/* ---- a whole pass ---- */

struct sum {
	_Alignas(64) uint64_t events;
	uint64_t ns;
};

static int add_block(void *user, unsigned worker, struct pfw_pass_block *block)
{
	struct sum *sum = (struct sum *)user + worker;
	struct pfw_pass_lines lines;

	pfw_pass_lines_init(&lines, block);
	while (pfw_pass_lines_next(&lines)) {
		sum->events += lines.entry.ph != 'M';
		sum->ns += (uint64_t)lines.entry.dur_ns;
	}
	return 0;
}

static void say(void *user, const char *path, const char *why)
{
	(void)user;
	fprintf(stderr, "bench_scan: %s: %s\n", path, why);
}

static void measure_pass(const struct pfw_traces *traces, unsigned jobs)
{
	static struct sum sum[64];
	struct pfw_pass pass = { .traces = traces, .jobs = jobs, .user = sum, .work = add_block };
	uint64_t begun = now_ns(CLOCK_MONOTONIC), cpu = now_ns(CLOCK_PROCESS_CPUTIME_ID),
		 events = 0;
	double s, cpu_s;
	int error;

	memset(sum, 0, sizeof(sum));
	error = pfw_pass_run(&pass);
	s = (double)(now_ns(CLOCK_MONOTONIC) - begun) / 1e9;
	cpu_s = (double)(now_ns(CLOCK_PROCESS_CPUTIME_ID) - cpu) / 1e9;
	for (unsigned i = 0; i < 64; i++)
		events += sum[i].events;
	printf("pass, %2u threads          %6.2f s, %.2f s of CPU, %" PRIu64
	       " events, %.2f million/s%s\n",
	       jobs, s, cpu_s, events, (double)events / s / 1e6, error ? " (FAILED)" : "");
}

int main(int argc, char **argv)
{
	struct text text = { 0 };
	struct pfw_traces traces;

	if (argc < 2 || pfw_traces_open(&traces, argv + 1, (size_t)argc - 1, true, say, NULL)) {
		fprintf(stderr, "usage: bench_scan FILE...\n");
		return 2;
	}
	read_text(&text, traces.file[0].path);
	measure("find lines", find_lines, &text);
	measure("take apart", take_apart, &text);
	measure("take apart, three args", look_for_args, &text);
	measure_pass(&traces, 1);
	measure_pass(&traces, pfw_pass_jobs(0));
	pfw_traces_close(&traces);
	return 0;
}
