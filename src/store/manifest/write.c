/* store/manifest/write.c - writes a manifest's text. */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/order.h"
#include "pfw/pfw.h"
#include "store/json/emit.h"
#include "store/json/print.h"
#include "store/manifest/internal.h"

/* ---- ends and losses of processes ---- */

/* The process of a line: of those with its pid, the last one that began before the line. */
static struct manifest_process *find_process(const struct pfw_manifest *manifest,
					     const struct manifest_fact *fact)
{
	struct manifest_process *process = manifest->process, *best = NULL;

	for (size_t i = 0; i < manifest->processes; i++) {
		if (process[i].file == fact->file && process[i].pid == fact->pid &&
		    process[i].ts_ns <= fact->ts_ns && (!best || best->ts_ns <= process[i].ts_ns))
			best = &process[i];
	}
	return best;
}

/* The last `end` of a process counts. */
static void take_ends(struct pfw_manifest *manifest)
{
	struct manifest_fact *fact = manifest->fact;

	for (size_t i = 0; i < manifest->facts; i++) {
		struct manifest_process *process = fact[i].end ? find_process(manifest, &fact[i])
							       : NULL;

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

static const char *reason_of(const struct manifest_fact *fact)
{
	return fact->reason ? fact->reason : "?";
}

static int compare_losses(const void *a, const void *b)
{
	const struct manifest_fact *x = a, *y = b;

	return strcmp(reason_of(x), reason_of(y)) ?: PFW_ORDER(x->file->number, y->file->number) ?:
	       PFW_ORDER(x->pid, y->pid) ?: PFW_ORDER(x->id, y->id);
}

static bool same_loss(const struct manifest_fact *a, const struct manifest_fact *b)
{
	return a->pid == b->pid && a->file == b->file && strcmp(reason_of(a), reason_of(b)) == 0;
}

/* A `lost` line has its process's total so far: keep the last one of each reason, and no ends. */
static void take_losses(struct pfw_manifest *manifest)
{
	struct manifest_fact *fact = manifest->fact;
	size_t losses = 0, count = 0;

	for (size_t i = 0; i < manifest->facts; i++) {
		if (!fact[i].end)
			fact[losses++] = fact[i];
		else
			free(fact[i].reason);
	}
	if (losses)
		qsort(fact, losses, sizeof(*fact), compare_losses);
	for (size_t i = 0; i < losses; i++) {
		if (i + 1 < losses && same_loss(&fact[i], &fact[i + 1]))
			free(fact[i].reason);
		else
			fact[count++] = fact[i];
	}
	manifest->facts = count;
}

/* ---- writing ---- */

static void put_us(struct pfw_printer *json, const char *key, int64_t ns)
{
	char text[64];

	pfw_print_json(json, key, text, (size_t)(pfw_emit_us(text, ns) - text));
}

/* Write the losses of one file or, if NULL, of all, by reason.  Return their sum. */
static uint64_t put_losses(const struct pfw_manifest *manifest,
			   const struct pfw_manifest_file *file, struct pfw_printer *json)
{
	const struct manifest_fact *fact = manifest->fact;
	uint64_t all = 0, sum = 0;
	bool some = false;

	pfw_print(json, file ? "'losses':{" : "\n'losses':{");
	for (size_t i = 0; i < manifest->facts; i++) {
		if (!file || fact[i].file == file) {
			sum += fact[i].count;
			some = true;
		}
		if (!some || (i + 1 < manifest->facts &&
			      strcmp(reason_of(&fact[i]), reason_of(&fact[i + 1])) == 0))
			continue;
		pfw_print(json, "'%s':%" PRIu64, reason_of(&fact[i]), sum);
		some = false;
		all += sum;
		sum = 0;
	}
	pfw_print(json, "}");
	return all;
}

static void put_files(const struct pfw_manifest *manifest, struct pfw_printer *json)
{
	pfw_print(json, "\n'files':[");
	for (size_t i = 0; i < manifest->files; i++) {
		const struct pfw_manifest_file *file = manifest->file[i];
		const struct pfw_pack_sum *sum = &file->sum;
		char checksum[24];

		snprintf(checksum, sizeof(checksum), "%016" PRIx64, sum->checksum);
		pfw_print(json,
			  "\n{'file':%s,'rank':%" PRId64 ",'bytes':%" PRIu64 ",'members':%" PRIu64
			  ",'lines':%" PRIu64 ",'events':%" PRIu64 ",'checksum':%s",
			  file->name, file->rank, sum->bytes, sum->members, sum->lines,
			  sum->lines - sum->metadata, checksum);
		if (sum->least_ns <= sum->greatest_ns) {
			put_us(json, "first_ts", sum->least_ns);
			put_us(json, "last_end", sum->greatest_ns);
		}
		put_losses(manifest, file, json);
		pfw_print(json, "}");
	}
	pfw_print(json, "\n]");
}

/* Write the content of each `process` line, and how the process ended. */
static void put_processes(const struct pfw_manifest *manifest, struct pfw_printer *json)
{
	const struct manifest_process *process = manifest->process;

	pfw_print(json, "\n'processes':[");
	for (size_t i = 0; i < manifest->processes; i++) {
		pfw_print(json, "\n{'file':%s,'pid':%" PRIu64, process[i].file->name,
			  process[i].pid);
		put_us(json, "start", process[i].ts_ns);
		pfw_print(json, "'rank':%" PRId64, process[i].rank);
		if (process[i].ended && process[i].reason)
			pfw_print(json, "'reason':'%s','events':%" PRIu64, process[i].reason,
				  process[i].events);
		else
			pfw_print(json, "'reason':null,'events':null");
		pfw_print_json(json, "args", process[i].args, strlen(process[i].args));
		pfw_print(json, "}");
	}
	pfw_print(json, "\n]");
}

/* Write the hosts.  Clock offsets between hosts are unknown, so only the first host has one: 0. */
static void put_hosts(const struct pfw_manifest *manifest, struct pfw_printer *json)
{
	const struct manifest_process *process = manifest->process;
	size_t count = 0;
	const char **host = calloc(manifest->processes + 1, sizeof(char *));

	for (size_t i = 0; host && i < manifest->processes; i++) {
		if (process[i].host)
			host[count++] = process[i].host;
	}
	if (count)
		qsort(host, count, sizeof(char *), pfw_order_text);
	pfw_print(json, "\n'hosts':[");
	for (size_t i = 0; i < count; i++) {
		if (!i || strcmp(host[i - 1], host[i]) != 0)
			pfw_print(json,
				  i ? "{'host':'%s','clock_offset':null}"
				    : "{'host':'%s','clock_offset':0}",
				  host[i]);
	}
	pfw_print(json, "]");
	free(host);
}

static void put_ranks(const struct pfw_manifest *manifest, struct pfw_printer *json)
{
	const struct manifest_process *process = manifest->process;
	int64_t *rank = calloc(manifest->processes + 1, sizeof(*rank));
	size_t count = 0;

	for (size_t i = 0; rank && i < manifest->processes; i++) {
		if (process[i].rank >= 0)
			rank[count++] = process[i].rank;
	}
	if (count)
		qsort(rank, count, sizeof(*rank), pfw_order_i64);
	pfw_print(json, "\n'ranks':[");
	for (size_t i = 0; i < count; i++) {
		if (!i || rank[i] != rank[i - 1])
			pfw_print(json, "%" PRId64, rank[i]);
	}
	pfw_print(json, "]");
	free(rank);
}

static int compare_processes(const void *a, const void *b)
{
	const struct manifest_process *x = a, *y = b;

	return PFW_ORDER(x->file->number, y->file->number) ?: PFW_ORDER(x->ts_ns, y->ts_ns) ?:
	       PFW_ORDER(x->pid, y->pid);
}

static int compare_files(const void *a, const void *b)
{
	const struct pfw_manifest_file *x = *(struct pfw_manifest_file *const *)a;
	const struct pfw_manifest_file *y = *(struct pfw_manifest_file *const *)b;

	return PFW_ORDER(x->rank, y->rank) ?: strcmp(x->name, y->name);
}

static void put_in_order(struct pfw_manifest *manifest)
{
	if (manifest->files)
		qsort(manifest->file, manifest->files, sizeof(struct pfw_manifest_file *),
		      compare_files);
	for (size_t i = 0; i < manifest->files; i++)
		manifest->file[i]->number = i;
	take_ends(manifest);
	take_losses(manifest);
	if (manifest->processes)
		qsort(manifest->process, manifest->processes, sizeof(struct manifest_process),
		      compare_processes);
}

int pfw_manifest_write(struct pfw_manifest *manifest, FILE *out)
{
	uint64_t lines = 0, events = 0, bytes = 0, lost;
	struct pfw_printer json = { .out = out };

	put_in_order(manifest);
	for (size_t i = 0; i < manifest->files; i++) {
		const struct pfw_pack_sum *sum = &manifest->file[i]->sum;

		lines += sum->lines;
		events += sum->lines - sum->metadata;
		bytes += sum->bytes;
	}
	pfw_print(&json, "{'format':%d,'version':'" PFW_VERSION "','run':%s", PFW_MANIFEST_FORMAT,
		  manifest->run);
	put_ranks(manifest, &json);
	put_hosts(manifest, &json);
	lost = put_losses(manifest, NULL, &json);
	pfw_print(&json,
		  "\n'totals':{'files':%zu,'processes':%zu,'lines':%" PRIu64 ",'events':%" PRIu64
		  ",'bytes':%" PRIu64 ",'lost':%" PRIu64 "}",
		  manifest->files, manifest->processes, lines, events, bytes, lost);
	put_files(manifest, &json);
	put_processes(manifest, &json);
	pfw_print(&json, "\n}\n");
	return ferror(out) ? -EIO : 0;
}
