/* fuzz_export.c - any lines as a trace, given to each format of `pfw export`: none writes more than it has
 * asked room for, and of lines that are JSON by jansson's lights, which shares nothing with us, they
 * make JSON.
 *
 * The first byte says how: bit 0 all ranks on one timeline, bit 1 absolute times, bit 2 what folded
 * stacks count.  A line is of the second file where it begins with '@'.
 */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#ifdef PFW_HAVE_JANSSON
#include <jansson.h>
#endif

#include "export/export.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define FILES 2u
#define LINES_MAX 512u

struct line {
	struct pfw_entry entry;
	size_t file, number;
};

/* ---- where it goes: into memory, where a sanitizer sees the byte behind what was asked for ---- */

static struct {
	char *room; /* as asked for, no byte more */
	size_t asked;
	char *text;
	size_t bytes;
} sink;

static void keep(const char *text, size_t bytes)
{
	sink.text = realloc(sink.text, sink.bytes + bytes + 1);
	assert(sink.text);
	memcpy(sink.text + sink.bytes, text, bytes);
	sink.bytes += bytes;
	sink.text[sink.bytes] = '\0';
}

char *export_sink_room(struct export_sink *export_sink, size_t bytes)
{
	(void)export_sink;
	free(sink.room);
	sink.room = malloc(bytes);
	sink.asked = bytes;
	assert(sink.room);
	return sink.room;
}

int export_sink_used(struct export_sink *export_sink, const char *end)
{
	(void)export_sink;
	assert(end >= sink.room && (size_t)(end - sink.room) <= sink.asked);
	keep(sink.room, (size_t)(end - sink.room));
	return 0;
}

int export_sink_text(struct export_sink *export_sink, const char *text)
{
	(void)export_sink;
	keep(text, strlen(text));
	return 0;
}

static void empty_sink(void)
{
	free(sink.room);
	free(sink.text);
	memset(&sink, 0, sizeof(sink));
}

/* ---- lines ---- */

static bool is_json(const char *text, size_t bytes)
{
#ifdef PFW_HAVE_JANSSON
	json_t *value = json_loadb(text, bytes, JSON_ALLOW_NUL, NULL);
	bool is = value != NULL && !memchr(text, 0, bytes);

	json_decref(value);
	return is;
#else
	(void)text;
	(void)bytes;
	return false;
#endif
}

/* As store/ordered.c has them: by time, longer ones first. */
static int by_time(const void *a, const void *b)
{
	const struct line *x = a, *y = b;

	if (x->entry.ts_ns != y->entry.ts_ns)
		return x->entry.ts_ns < y->entry.ts_ns ? -1 : 1;
	if (x->entry.dur_ns != y->entry.dur_ns)
		return x->entry.dur_ns > y->entry.dur_ns ? -1 : 1;
	return x->number < y->number ? -1 : x->number > y->number;
}

/* The events of the text; *json: each of their lines is. */
static size_t read_lines(struct line *line, const char *text, const char *end, bool *json)
{
	size_t count = 0;

	*json = true;
	for (const char *at = text, *next; at < end && count < LINES_MAX; at = next + 1) {
		struct line *one = &line[count];

		next = memchr(at, '\n', (size_t)(end - at));
		next = next ? next : end;
		*one = (struct line){ .file = *at == '@', .number = count };
		at += one->file;
		pfw_entry_parse(&one->entry, at, (size_t)(next - at));
		if (one->entry.kind != PFW_ENTRY_EVENT || one->entry.wrong ||
		    pfw_entry_missing(&one->entry))
			continue;
		*json = *json && is_json(at, (size_t)(next - at));
		count++;
	}
	qsort(line, count, sizeof(*line), by_time);
	for (size_t i = 0; i < count; i++)
		line[i].entry.arg = line[i].entry.own;
	return count;
}

/* ---- formats ---- */

static void check(const struct export_format *format, const struct export_job *job,
		  const struct line *line, size_t count)
{
	void *state = calloc(1, format->state_bytes);

	assert(state);
	*(const struct export_job **)state = job;
	assert(!format->begin || format->begin(state) == 0);
	for (size_t i = 0; i < count; i++) {
		if (line[i].entry.ph != 'M' || format->meta)
			assert(format->line(state, line[i].file, &line[i].entry) == 0);
	}
	assert(!format->end || format->end(state) == 0);
	if (format->release)
		format->release(state);
	free(state);
}

#ifdef PFW_HAVE_JANSSON
static void check_lines(void)
{
	const char *next;

	for (const char *at = sink.text; at && (next = strchr(at, '\n')); at = next + 1)
		assert(next - at <= 1 || is_json(at, (size_t)(next - at)));
}
#endif

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const struct export_format *const formats[] = {
		&export_chrome, &export_tensorboard, &export_speedscope, &export_svg,
		&export_csv,	&export_folded,	     &export_perfetto,	 &export_dftracer
	};
	static const char *const weights[] = { "host", "count" };
	struct pfw_trace_file files[FILES] = { { .path = "a" }, { .path = "b" } };
	const struct pfw_traces traces = { .file = files, .count = FILES, .ranks = true };
	const size_t file[FILES] = { 0, 1 };
	struct line *line = malloc(LINES_MAX * sizeof(*line));
	struct export_options options;
	struct export_sink target = { 0 };
	struct export_job job = { .options = &options,
				  .traces = &traces,
				  .file = file,
				  .count = FILES,
				  .sink = &target };
	size_t count;
	bool json;

	assert(line);
	if (!size) {
		free(line);
		return 0;
	}
	options = (struct export_options){ .merge = data[0] & 1,
					   .absolute = data[0] >> 1 & 1,
					   .weight = weights[data[0] >> 2 & 1] };
	for (unsigned i = 0; i < FILES; i++)
		files[i].head.rank = i;
	count = read_lines(line, (const char *)data + 1, (const char *)data + size, &json);
	for (size_t i = 0; i < sizeof(formats) / sizeof(formats[0]); i++) {
		check(formats[i], &job, line, count);
#ifdef PFW_HAVE_JANSSON
		if (json && i < 3)
			assert(is_json(sink.text, sink.bytes));
		else if (json && formats[i] == &export_dftracer)
			check_lines();
#endif
		empty_sink();
	}
	free(line);
	return 0;
}
