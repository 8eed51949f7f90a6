/* store/manifest/manifest.c - collects what a compacted run consists of; see manifest.h. */
#include "store/manifest/manifest.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/order.h"
#include "store/kit/grow.h"
#include "store/line/args.h"
#include "store/manifest/internal.h"

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

static void free_file(struct pfw_manifest_file *file)
{
	free(file->name);
	free(file);
}

void pfw_manifest_free(struct pfw_manifest *manifest)
{
	if (!manifest)
		return;
	for (size_t i = 0; i < manifest->processes; i++)
		free_process(&manifest->process[i]);
	for (size_t i = 0; i < manifest->facts; i++)
		free(manifest->fact[i].reason);
	for (size_t i = 0; i < manifest->files; i++)
		free_file(manifest->file[i]);
	free(manifest->process);
	free(manifest->fact);
	free(manifest->file);
	free(manifest->run);
	free(manifest);
}

struct pfw_manifest_file *pfw_manifest_add(struct pfw_manifest *manifest, const char *name,
					   int64_t rank)
{
	struct pfw_manifest_file *file;

	if (PFW_ROOM(manifest->file, manifest->files, manifest->file_room))
		return NULL;
	file = calloc(1, sizeof(*file));
	if (file)
		file->name = strdup(name);
	if (!file || !file->name) {
		free(file);
		return NULL;
	}
	file->rank = rank;
	file->manifest = manifest;
	return manifest->file[manifest->files++] = file;
}

void pfw_manifest_drop(struct pfw_manifest *manifest)
{
	struct pfw_manifest_file *gone = manifest->file[--manifest->files];

	while (manifest->processes && manifest->process[manifest->processes - 1].file == gone)
		free_process(&manifest->process[--manifest->processes]);
	while (manifest->facts && manifest->fact[manifest->facts - 1].file == gone)
		free(manifest->fact[--manifest->facts].reason);
	free_file(gone);
}

/* ---- lines ---- */

/* A copy of a string of the args, as written; NULL: no such string, or no memory. */
static char *find_string(const struct pfw_entry *entry, const char *key)
{
	struct pfw_slice text;

	return pfw_arg_text(entry, key, &text) ? strndup(text.at, text.bytes) : NULL;
}

static int take_process(struct pfw_manifest_file *file, const struct pfw_entry *entry)
{
	struct pfw_manifest *all = file->manifest;
	struct manifest_process *process;

	if (PFW_APPEND(all->process, all->processes, (struct manifest_process){ .file = file }))
		return -ENOMEM;
	process = &all->process[all->processes - 1];
	file->processes++;
	process->pid = entry->pid;
	process->ts_ns = entry->ts_ns;
	process->args = strndup(entry->args.at, entry->args.bytes);
	process->host = find_string(entry, "host");
	process->rank = pfw_arg_i64(entry, "rank", -1);
	return process->args ? 0 : -ENOMEM;
}

static int take_fact(struct pfw_manifest_file *file, const struct pfw_entry *entry, bool end)
{
	struct pfw_manifest *all = file->manifest;
	const struct manifest_fact fact = {
		.file = file,
		.pid = entry->pid,
		.id = entry->id,
		.count = pfw_arg_u64(entry, end ? "events" : "count", 0),
		.ts_ns = entry->ts_ns,
		.reason = find_string(entry, "reason"),
		.end = end,
	};

	if (!PFW_APPEND(all->fact, all->facts, fact))
		return 0;
	free(fact.reason);
	return -ENOMEM;
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

/* ---- processes of one pid ---- */

static int by_file_and_pid(const void *a, const void *b)
{
	const struct manifest_process *x = *(struct manifest_process *const *)a;
	const struct manifest_process *y = *(struct manifest_process *const *)b;

	return PFW_ORDER(x->file->number, y->file->number) ?: PFW_ORDER(x->pid, y->pid) ?:
	       PFW_ORDER(x->ts_ns, y->ts_ns);
}

int pfw_manifest_mixed(const struct pfw_manifest *manifest, uint64_t *pid)
{
	struct manifest_process *process = manifest->process, **order;
	size_t count = manifest->processes;
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
			strcmp(order[i]->host ? order[i]->host : "",
			       order[i - 1]->host ? order[i - 1]->host : "") != 0;
		*pid = order[i]->pid;
	}
	free(order);
	return mixed;
}
