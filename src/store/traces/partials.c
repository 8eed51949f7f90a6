/* store/traces/partials.c - the traces in a partial, and the facts of a trace; see partials.h. */
#include "store/traces/partials.h"

#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "store/json/print.h"
#include "store/kit/grow.h"
#include "store/line/args.h"
#include "store/traces/traces.h"

/* A partial that is read. */
struct adding {
	struct pfw_traces *traces;
	size_t *room;
	struct pfw_partial partial;
	const char *path;
	uint64_t processes, most; /* so far, and at most */
};

/* ---- facts ---- */

static bool is_named(const struct pfw_entry *entry, const char *name)
{
	return entry->kind == PFW_ENTRY_EVENT && pfw_slice_is(&entry->name, name);
}

/* The first line: the trace itself. */
static int take_trace(struct pfw_trace_file *file, const struct pfw_entry *entry)
{
	char path[PATH_MAX];
	struct pfw_slice text;

	if (!is_named(entry, "trace") || !pfw_arg_text(entry, "path", &text))
		return -EBADMSG;
	pfw_slice_decode(&text, path, sizeof(path));
	file->head = (struct pfw_trace){ .rank = -1 };
	file->path = strdup(path);
	return file->path ? 0 : -ENOMEM;
}

/* The rest: the `process` line that the trace begins with, then those of all its processes. */
static int take_processes(struct adding *adding, struct pfw_trace_file *file, const char *at,
			  const char *end)
{
	struct pfw_trace *head = NULL;
	size_t count = 0, room = 0;
	struct pfw_entry entry = { .numbered = false };

	for (bool first = true; at < end; first = false) {
		struct pfw_trace one = { .rank = -1 };

		at = pfw_entry_parse_next(&entry, at, end) + 1;
		if (!is_named(&entry, "process") ||
		    (!first && adding->processes++ >= adding->most)) {
			free(head);
			return -EBADMSG;
		}
		pfw_trace_take_process(&one, &entry);
		if (first) {
			file->head = one;
		} else if (PFW_PUSH(head, count, room, one)) {
			free(head);
			return -ENOMEM;
		}
	}
	if (!count)
		return 0;
	file->processes = pfw_processes_of(head, count);
	if (!file->processes)
		return -ENOMEM;
	file->processes->compacted = true;
	return 0;
}

static int take_facts(struct adding *adding, struct pfw_trace_file *file)
{
	const char *at, *end;
	struct pfw_entry entry = { .numbered = false };
	char *facts;
	int error = pfw_partial_facts(&adding->partial, &file->unit, PFW_ENTRY_PADDING, &facts);

	if (error)
		return error;
	end = facts + file->unit.facts_bytes;
	at = pfw_entry_parse_next(&entry, facts, end);
	error = take_trace(file, &entry);
	if (!error && at < end)
		error = take_processes(adding, file, at + 1, end);
	free(facts);
	return error;
}

static int add_unit(struct adding *adding, const struct pfw_partial_unit *unit)
{
	const struct stat *st = &adding->partial.st;
	struct pfw_trace_file file = { .unit = *unit,
				       .mode = st->st_mode & 0666,
				       .blocks = { .layout = PFW_LAYOUT_MEMBERS } };
	int error = take_facts(adding, &file);

	file.partial = strdup(adding->path);
	if (!error && (!file.partial ||
		       PFW_PUSH(adding->traces->file, adding->traces->count, *adding->room, file)))
		error = -ENOMEM;
	if (error)
		pfw_trace_file_free(&file);
	return error;
}

int pfw_partials_add(struct pfw_traces *traces, size_t *room, const char *path, const char **why)
{
	struct adding adding = { .traces = traces, .room = room, .path = path };
	struct pfw_partial_unit unit;
	size_t before = traces->count;
	int result = 0, error = pfw_partial_open(&adding.partial, path, why);

	if (error)
		return error;
	adding.most = pfw_processes_most(adding.partial.bytes);
	while (!error && (result = pfw_partial_next(&adding.partial, &unit)) > 0)
		error = add_unit(&adding, &unit);
	error = error ?: result;
	pfw_partial_close(&adding.partial);
	*why = "a damaged partial";
	while (error && traces->count > before)
		pfw_trace_file_free(&traces->file[--traces->count]);
	return error;
}

/* ---- several partials ---- */

void pfw_partials_drop_doubles(struct pfw_traces *traces)
{
	size_t kept = 0;

	for (size_t i = 0; i < traces->count; i++) {
		const struct pfw_trace_file *last = kept ? &traces->file[kept - 1] : NULL;
		struct pfw_trace_file *file = &traces->file[i];

		if (last && last->partial && file->partial && strcmp(last->path, file->path) == 0 &&
		    last->unit.index_crc == file->unit.index_crc &&
		    last->unit.facts_crc == file->unit.facts_crc)
			pfw_trace_file_free(file);
		else
			traces->file[kept++] = *file;
	}
	traces->count = kept;
}

/* ---- writing ---- */

static void print_process(FILE *out, const struct pfw_trace *head)
{
	struct pfw_printer json = { .out = out };
	uint64_t ns = head->start_ns < 0 ? -(uint64_t)head->start_ns : (uint64_t)head->start_ns;
	char ts[48];
	int bytes = snprintf(ts, sizeof(ts), "%s%" PRIu64 ".%03" PRIu64,
			     head->start_ns < 0 ? "-" : "", ns / 1000, ns % 1000);

	pfw_print(&json, "{'id':%" PRIu64 ",'name':'process','cat':'pfw','pid':%" PRIu64 ",'tid':0",
		  head->first_id, head->pid);
	pfw_print_json(&json, "ts", ts, (size_t)bytes);
	pfw_print(&json,
		  "'ph':'M','args':{'run':%s,'host':%s,'boot':%s,'rank':%" PRId64
		  ",'world_size':%" PRIu64,
		  head->run, head->host, head->boot, head->rank, head->world_size);
	if (head->imported)
		pfw_print(&json, "'clock':'imported'");
	pfw_print(&json, "}}\n");
}

char *pfw_partials_facts(const struct pfw_trace_file *file, const char *name, size_t *bytes)
{
	const struct pfw_processes *processes = file->processes;
	char *text = NULL;
	FILE *out = open_memstream(&text, bytes);
	struct pfw_printer json = { .out = out };
	bool failed;

	if (!out)
		return NULL;
	pfw_print(&json, "{'name':'trace','cat':'pfw','ph':'M','args':{'path':%s}}\n", name);
	if (file->head.ours)
		print_process(out, &file->head);
	for (size_t i = 0; processes && i < processes->count; i++)
		print_process(out, &processes->head[i]);
	failed = ferror(out);
	if (fclose(out) || failed) {
		free(text);
		return NULL;
	}
	return text;
}
