/* manifest.c - what a compacted run consists of; see manifest.h. */
#include "manifest.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "entry.h"
#include "json_print.h"
#include "pfw/pfw.h"

/* A `process` line. */
struct process {
	size_t file;
	uint64_t pid;
	int64_t ts_ns;
	char *args; /* as it is written */
	char *host; /* as it is written, without quotes */
	int64_t rank;
	/* Of its last `end`; NULL: none. */
	char *reason;
	uint64_t end_id, events;
	bool ended;
};

/* An `end` or a `lost`, until all processes are known. */
struct fact {
	size_t file;
	uint64_t pid, id, count;
	int64_t ts_ns;
	char *reason;
	bool end;
};

struct list {
	void *item;
	size_t count, room;
};

struct pfw_manifest {
	char *run;
	struct pfw_manifest_file **file;
	size_t files, file_room;
	struct list processes, facts;
};

/* A place for one more item of `size` bytes, zeroed; NULL: no memory. */
static void *append(struct list *list, size_t size)
{
	char *item;

	if (list->count == list->room) {
		size_t room = list->room ? list->room * 2 : 16;
		void *bigger = realloc(list->item, room * size);

		if (!bigger)
			return NULL;
		list->item = bigger;
		list->room = room;
	}
	item = (char *)list->item + list->count++ * size;
	memset(item, 0, size);
	return item;
}

struct pfw_manifest *pfw_manifest_new(const char *run)
{
	struct pfw_manifest *manifest = calloc(1, sizeof(*manifest));

	if (manifest)
		manifest->run = strdup(run);
	if (manifest && !manifest->run) {
		free(manifest);
		return NULL;
	}
	return manifest;
}

static void free_process(struct process *process)
{
	free(process->args);
	free(process->host);
	free(process->reason);
}

static void free_items(struct pfw_manifest *manifest)
{
	struct process *process = manifest->processes.item;
	struct fact *fact = manifest->facts.item;

	for (size_t i = 0; i < manifest->processes.count; i++)
		free_process(&process[i]);
	for (size_t i = 0; i < manifest->facts.count; i++)
		free(fact[i].reason);
	free(process);
	free(fact);
}

static void free_file(struct pfw_manifest_file *file)
{
	free(file->name);
	free(file);
}

void pfw_manifest_free(struct pfw_manifest *manifest)
{
	if (!manifest)
		return;
	free_items(manifest);
	for (size_t i = 0; i < manifest->files; i++)
		free_file(manifest->file[i]);
	free(manifest->file);
	free(manifest->run);
	free(manifest);
}

struct pfw_manifest_file *pfw_manifest_add(struct pfw_manifest *manifest, const char *name,
					   int64_t rank)
{
	struct pfw_manifest_file *file = calloc(1, sizeof(*file));

	if (file)
		file->name = strdup(name);
	if (manifest->files == manifest->file_room) {
		size_t room = manifest->file_room ? manifest->file_room * 2 : 16;
		struct pfw_manifest_file **bigger =
			realloc(manifest->file, room * sizeof(struct pfw_manifest_file *));

		if (bigger) {
			manifest->file = bigger;
			manifest->file_room = room;
		}
	}
	if (!file || !file->name || manifest->files == manifest->file_room) {
		if (file)
			free_file(file);
		return NULL;
	}
	file->rank = rank;
	file->number = manifest->files;
	file->manifest = manifest;
	return manifest->file[manifest->files++] = file;
}

void pfw_manifest_drop(struct pfw_manifest *manifest)
{
	struct list *processes = &manifest->processes, *facts = &manifest->facts;
	struct process *process = processes->item;
	struct fact *fact = facts->item;
	size_t gone = --manifest->files;

	free_file(manifest->file[gone]);
	while (processes->count && process[processes->count - 1].file == gone)
		free_process(&process[--processes->count]);
	while (facts->count && fact[facts->count - 1].file == gone)
		free(fact[--facts->count].reason);
}

/* ---- lines ---- */

static uint64_t find_u64(const struct pfw_entry *entry, const char *key)
{
	struct pfw_value value;
	uint64_t number;

	return pfw_entry_arg(entry, key, &value) && pfw_value_u64(&value, &number) ? number : 0;
}

/* A string of the args, as it is written; NULL: none, or no memory. */
static char *find_string(const struct pfw_entry *entry, const char *key)
{
	struct pfw_value value;

	if (!pfw_entry_arg(entry, key, &value) || value.type != PFW_VALUE_STRING)
		return NULL;
	return strndup(value.text.at, value.text.bytes);
}

static int take_process(struct pfw_manifest_file *file, const struct pfw_entry *entry)
{
	struct process *process = append(&file->manifest->processes, sizeof(*process));
	struct pfw_value value;

	if (!process)
		return -ENOMEM;
	process->file = file->number;
	process->pid = entry->pid;
	process->ts_ns = entry->ts_ns;
	process->args = strndup(entry->args.at, entry->args.bytes);
	process->host = find_string(entry, "host");
	process->rank = -1;
	if (pfw_entry_arg(entry, "rank", &value))
		pfw_value_i64(&value, &process->rank);
	return process->args ? 0 : -ENOMEM;
}

static int take_fact(struct pfw_manifest_file *file, const struct pfw_entry *entry, bool end)
{
	struct fact *fact = append(&file->manifest->facts, sizeof(*fact));

	if (!fact)
		return -ENOMEM;
	fact->file = file->number;
	fact->pid = entry->pid;
	fact->id = entry->id;
	fact->ts_ns = entry->ts_ns;
	fact->count = find_u64(entry, end ? "events" : "count");
	fact->reason = find_string(entry, "reason");
	fact->end = end;
	return 0;
}

int pfw_manifest_line(struct pfw_manifest_file *file, const char *line, size_t bytes)
{
	struct pfw_entry entry;

	pfw_entry_parse(&entry, line, bytes - 1);
	if (entry.kind != PFW_ENTRY_EVENT || !pfw_slice_is(&entry.cat, "pfw"))
		return 0;
	if (pfw_slice_is(&entry.name, "process"))
		return take_process(file, &entry);
	if (pfw_slice_is(&entry.name, "end"))
		return take_fact(file, &entry, true);
	if (pfw_slice_is(&entry.name, "lost"))
		return take_fact(file, &entry, false);
	return 0;
}

/* ---- who ended how, and what was lost ---- */

/* The process that a line is of: pids are used again, so the last one that began before it. */
static struct process *find_process(const struct pfw_manifest *manifest, const struct fact *fact)
{
	struct process *process = manifest->processes.item, *best = NULL;

	for (size_t i = 0; i < manifest->processes.count; i++) {
		if (process[i].file == fact->file && process[i].pid == fact->pid &&
		    process[i].ts_ns <= fact->ts_ns && (!best || best->ts_ns <= process[i].ts_ns))
			best = &process[i];
	}
	return best;
}

/* The last `end` of a process counts. */
static void take_ends(struct pfw_manifest *manifest)
{
	struct fact *fact = manifest->facts.item;

	for (size_t i = 0; i < manifest->facts.count; i++) {
		struct process *process = fact[i].end ? find_process(manifest, &fact[i]) : NULL;

		if (!process || (process->ended && process->end_id > fact[i].id))
			continue;
		free(process->reason);
		process->reason = fact[i].reason;
		fact[i].reason = NULL;
		process->events = fact[i].count;
		process->end_id = fact[i].id;
		process->ended = true;
	}
}

static int compare_losses(const void *a, const void *b)
{
	const struct fact *x = a, *y = b;
	int order = strcmp(x->reason ? x->reason : "", y->reason ? y->reason : "");

	if (!order && x->file != y->file)
		order = x->file < y->file ? -1 : 1;
	if (!order && x->pid != y->pid)
		order = x->pid < y->pid ? -1 : 1;
	return order ? order : x->id < y->id ? -1 : x->id > y->id;
}

/* A `lost` has its process's total so far: the last one of a reason counts. */
static uint64_t put_losses(struct pfw_manifest *manifest, FILE *out)
{
	struct fact *fact = manifest->facts.item;
	uint64_t all = 0, sum = 0;
	size_t count = 0;
	bool any = false;

	for (size_t i = 0; i < manifest->facts.count; i++) {
		if (!fact[i].end)
			fact[count++] = fact[i];
		else
			free(fact[i].reason);
	}
	manifest->facts.count = count;
	if (count)
		qsort(fact, count, sizeof(*fact), compare_losses);
	fputs("\"losses\":{", out);
	for (size_t i = 0; i < count; i++) {
		bool last = i + 1 == count || fact[i].pid != fact[i + 1].pid ||
			    fact[i].file != fact[i + 1].file ||
			    strcmp(fact[i].reason ? fact[i].reason : "",
				   fact[i + 1].reason ? fact[i + 1].reason : "") != 0;

		sum += last ? fact[i].count : 0;
		if (i + 1 < count && fact[i].reason && fact[i + 1].reason &&
		    strcmp(fact[i].reason, fact[i + 1].reason) == 0)
			continue;
		fprintf(out, "%s\"%s\":%" PRIu64, any ? "," : "",
			fact[i].reason ? fact[i].reason : "?", sum);
		any = true;
		all += sum;
		sum = 0;
	}
	fputs("},\n", out);
	return all;
}

/* ---- writing ---- */

static void put_us(FILE *out, const char *key, int64_t ns)
{
	fprintf(out, ",\"%s\":%" PRId64 ".%03d", key, ns / 1000, (int)(ns % 1000));
}

static void put_files(const struct pfw_manifest *manifest, FILE *out)
{
	fputs("\"files\":[", out);
	for (size_t i = 0; i < manifest->files; i++) {
		const struct pfw_manifest_file *file = manifest->file[i];
		const struct pfw_pack_sum *sum = &file->sum;

		fputs(i ? ",\n{\"file\":" : "\n{\"file\":", out);
		pfw_json_print_string(out, file->name);
		fprintf(out,
			",\"rank\":%" PRId64 ",\"bytes\":%" PRIu64 ",\"members\":%" PRIu64
			",\"lines\":%" PRIu64 ",\"events\":%" PRIu64 ",\"checksum\":\"%016" PRIx64
			"\"",
			file->rank, sum->bytes, sum->members, sum->lines,
			sum->lines - sum->metadata, sum->checksum);
		if (sum->least_ns <= sum->greatest_ns) {
			put_us(out, "first_ts", sum->least_ns);
			put_us(out, "last_end", sum->greatest_ns);
		}
		fputc('}', out);
	}
	fputs("\n],\n", out);
}

/* What the `process` line says, and how the process ended. */
static void put_processes(const struct pfw_manifest *manifest, FILE *out)
{
	const struct process *process = manifest->processes.item;

	fputs("\"processes\":[", out);
	for (size_t i = 0; i < manifest->processes.count; i++) {
		fputs(i ? ",\n{\"file\":" : "\n{\"file\":", out);
		pfw_json_print_string(out, manifest->file[process[i].file]->name);
		fprintf(out, ",\"pid\":%" PRIu64, process[i].pid);
		put_us(out, "start", process[i].ts_ns);
		fprintf(out, ",\"rank\":%" PRId64 ",\"reason\":", process[i].rank);
		if (process[i].ended && process[i].reason)
			fprintf(out, "\"%s\",\"events\":%" PRIu64, process[i].reason,
				process[i].events);
		else
			fputs("null,\"events\":null", out);
		fprintf(out, ",\"args\":%s}", process[i].args);
	}
	fputs("\n]\n", out);
}

static int compare_text(const void *a, const void *b)
{
	return strcmp(*(char *const *)a, *(char *const *)b);
}

/* The hosts, and what is known of their clocks against the first one's: nothing, of another. */
static void put_hosts(const struct pfw_manifest *manifest, FILE *out)
{
	const struct process *process = manifest->processes.item;
	size_t count = 0;
	const char **host = calloc(manifest->processes.count + 1, sizeof(char *));

	for (size_t i = 0; host && i < manifest->processes.count; i++) {
		if (process[i].host)
			host[count++] = process[i].host;
	}
	if (count)
		qsort(host, count, sizeof(char *), compare_text);
	fputs("\"hosts\":[", out);
	for (size_t i = 0, given = 0; i < count; i++) {
		if (i && strcmp(host[i - 1], host[i]) == 0)
			continue;
		fprintf(out, "%s{\"host\":\"%s\",\"clock_offset\":%s}", given ? "," : "", host[i],
			given ? "null" : "0");
		given++;
	}
	fputs("],\n", out);
	free(host);
}

static int compare_ranks(const void *a, const void *b)
{
	int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;

	return x < y ? -1 : x > y;
}

static void put_ranks(const struct pfw_manifest *manifest, FILE *out)
{
	const struct process *process = manifest->processes.item;
	int64_t *rank = calloc(manifest->processes.count + 1, sizeof(*rank));
	size_t count = 0, given = 0;

	for (size_t i = 0; rank && i < manifest->processes.count; i++) {
		if (process[i].rank >= 0)
			rank[count++] = process[i].rank;
	}
	if (count)
		qsort(rank, count, sizeof(*rank), compare_ranks);
	fputs("\"ranks\":[", out);
	for (size_t i = 0; i < count; i++) {
		if (!i || rank[i] != rank[i - 1])
			fprintf(out, "%s%" PRId64, given++ ? "," : "", rank[i]);
	}
	fputs("],\n", out);
	free(rank);
}

static int compare_processes(const void *a, const void *b)
{
	const struct process *x = a, *y = b;

	if (x->file != y->file)
		return x->file < y->file ? -1 : 1;
	if (x->ts_ns != y->ts_ns)
		return x->ts_ns < y->ts_ns ? -1 : 1;
	return x->pid < y->pid ? -1 : x->pid > y->pid;
}

int pfw_manifest_write(struct pfw_manifest *manifest, FILE *out)
{
	uint64_t lines = 0, events = 0, bytes = 0, lost;

	take_ends(manifest);
	if (manifest->processes.count)
		qsort(manifest->processes.item, manifest->processes.count, sizeof(struct process),
		      compare_processes);
	for (size_t i = 0; i < manifest->files; i++) {
		const struct pfw_pack_sum *sum = &manifest->file[i]->sum;

		lines += sum->lines;
		events += sum->lines - sum->metadata;
		bytes += sum->bytes;
	}
	fprintf(out,
		"{\"format\":%d,\"version\":\"" PFW_VERSION "\",\"run\":", PFW_MANIFEST_FORMAT);
	pfw_json_print_string(out, manifest->run);
	fputs(",\n", out);
	put_ranks(manifest, out);
	put_hosts(manifest, out);
	lost = put_losses(manifest, out);
	fprintf(out,
		"\"totals\":{\"files\":%zu,\"processes\":%zu,\"lines\":%" PRIu64
		",\"events\":%" PRIu64 ",\"bytes\":%" PRIu64 ",\"lost\":%" PRIu64 "},\n",
		manifest->files, manifest->processes.count, lines, events, bytes, lost);
	put_files(manifest, out);
	put_processes(manifest, out);
	fputs("}\n", out);
	return ferror(out) ? -EIO : 0;
}
