/* manifest.c - what a compacted run consists of; see manifest.h. */
#include "manifest.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "entry.h"
#include "manifest_parts.h"
#include "more.h"

/* A place for one more item of `size` bytes, zeroed; NULL: no memory. */
static void *append(struct manifest_list *list, size_t size)
{
	char *more = pfw_more(list->item, list->count, &list->room, size);

	if (!more)
		return NULL;
	list->item = more;
	return memset(more + list->count++ * size, 0, size);
}

struct manifest_process *pfw_manifest_add_process(struct pfw_manifest_file *file)
{
	struct manifest_process *process = append(&file->manifest->processes, sizeof(*process));

	if (process)
		process->file = file;
	return process;
}

struct manifest_fact *pfw_manifest_add_fact(struct pfw_manifest_file *file)
{
	struct manifest_fact *fact = append(&file->manifest->facts, sizeof(*fact));

	if (fact)
		fact->file = file;
	return fact;
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

static void free_process(struct manifest_process *process)
{
	free(process->args);
	free(process->host);
	free(process->reason);
}

static void free_items(struct pfw_manifest *manifest)
{
	struct manifest_process *process = manifest->processes.item;
	struct manifest_fact *fact = manifest->facts.item;

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
	struct pfw_manifest_file *file, **more;

	more = pfw_more(manifest->file, manifest->files, &manifest->file_room,
			sizeof(struct pfw_manifest_file *));
	if (!more)
		return NULL;
	manifest->file = more;
	file = calloc(1, sizeof(*file));
	if (file)
		file->name = strdup(name);
	if (!file || !file->name) {
		free(file);
		return NULL;
	}
	file->rank = rank;
	file->manifest = manifest;
	return more[manifest->files++] = file;
}

size_t pfw_manifest_count(const struct pfw_manifest *manifest)
{
	return manifest->files;
}

void pfw_manifest_drop(struct pfw_manifest *manifest)
{
	struct manifest_list *processes = &manifest->processes, *facts = &manifest->facts;
	struct manifest_process *process = processes->item;
	struct manifest_fact *fact = facts->item;
	struct pfw_manifest_file *gone = manifest->file[--manifest->files];

	while (processes->count && process[processes->count - 1].file == gone)
		free_process(&process[--processes->count]);
	while (facts->count && fact[facts->count - 1].file == gone)
		free(fact[--facts->count].reason);
	free_file(gone);
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
	struct manifest_process *process = pfw_manifest_add_process(file);
	struct pfw_value value;

	if (!process)
		return -ENOMEM;
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
	struct manifest_fact *fact = pfw_manifest_add_fact(file);

	if (!fact)
		return -ENOMEM;
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

/* ---- whose lines are whose ---- */

static int by_file_and_pid(const void *a, const void *b)
{
	const struct manifest_process *x = *(struct manifest_process *const *)a;
	const struct manifest_process *y = *(struct manifest_process *const *)b;

	if (x->file != y->file)
		return x->file->number < y->file->number ? -1 : 1;
	if (x->pid != y->pid)
		return x->pid < y->pid ? -1 : 1;
	return (x->ts_ns > y->ts_ns) - (x->ts_ns < y->ts_ns);
}

int pfw_manifest_mixed(const struct pfw_manifest *manifest, uint64_t *pid)
{
	struct manifest_process *process = manifest->processes.item, **order;
	size_t count = manifest->processes.count;
	int mixed = 0;

	order = malloc((count + 1) * sizeof(struct manifest_process *));
	if (!order)
		return -ENOMEM;
	for (size_t i = 0; i < count; i++)
		order[i] = &process[i];
	qsort(order, count, sizeof(struct manifest_process *), by_file_and_pid);
	for (size_t i = 1; i < count && !mixed; i++) {
		mixed = order[i]->file == order[i - 1]->file &&
			order[i]->pid == order[i - 1]->pid &&
			order[i]->rank != order[i - 1]->rank &&
			strcmp(order[i]->host, order[i - 1]->host) != 0;
		*pid = order[i]->pid;
	}
	free(order);
	return mixed;
}
