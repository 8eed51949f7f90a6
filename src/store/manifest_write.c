/* manifest_write.c - a manifest's text. */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "json_print.h"
#include "manifest_parts.h"
#include "pfw/pfw.h"

/* ---- who ended how, and what was lost ---- */

/* The process that a line is of: pids are used again, so the last one that began before it. */
static struct manifest_process *find_process(const struct pfw_manifest *manifest,
					     const struct manifest_fact *fact)
{
	struct manifest_process *process = manifest->processes.item, *best = NULL;

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
	struct manifest_fact *fact = manifest->facts.item;

	for (size_t i = 0; i < manifest->facts.count; i++) {
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
	int order = strcmp(reason_of(x), reason_of(y));

	if (!order && x->file != y->file)
		order = x->file->number < y->file->number ? -1 : 1;
	if (!order && x->pid != y->pid)
		order = x->pid < y->pid ? -1 : 1;
	return order ? order : x->id < y->id ? -1 : x->id > y->id;
}

static bool same_loss(const struct manifest_fact *a, const struct manifest_fact *b)
{
	return a->pid == b->pid && a->file == b->file && strcmp(reason_of(a), reason_of(b)) == 0;
}

/* A `lost` has its process's total so far: leave the last one of each reason, and no ends. */
static void take_losses(struct pfw_manifest *manifest)
{
	struct manifest_fact *fact = manifest->facts.item;
	size_t losses = 0, count = 0;

	for (size_t i = 0; i < manifest->facts.count; i++) {
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
	manifest->facts.count = count;
}

/* ---- writing ---- */

static void put_us(FILE *out, const char *key, int64_t ns)
{
	fprintf(out, ",\"%s\":%" PRId64 ".%03d", key, ns / 1000, (int)(ns % 1000));
}

/* By reason, of one file or, NULL, of all; how much that is together. */
static uint64_t put_losses(const struct pfw_manifest *manifest,
			   const struct pfw_manifest_file *file, FILE *out)
{
	const struct manifest_fact *fact = manifest->facts.item;
	uint64_t all = 0, sum = 0;
	bool any = false, some = false;

	fputs("\"losses\":{", out);
	for (size_t i = 0; i < manifest->facts.count; i++) {
		if (!file || fact[i].file == file) {
			sum += fact[i].count;
			some = true;
		}
		if (!some || (i + 1 < manifest->facts.count &&
			      strcmp(reason_of(&fact[i]), reason_of(&fact[i + 1])) == 0))
			continue;
		fprintf(out, "%s\"%s\":%" PRIu64, any ? "," : "", reason_of(&fact[i]), sum);
		any = true;
		some = false;
		all += sum;
		sum = 0;
	}
	fputc('}', out);
	return all;
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
		fputc(',', out);
		put_losses(manifest, file, out);
		fputc('}', out);
	}
	fputs("\n],\n", out);
}

/* What the `process` line says, and how the process ended. */
static void put_processes(const struct pfw_manifest *manifest, FILE *out)
{
	const struct manifest_process *process = manifest->processes.item;

	fputs("\"processes\":[", out);
	for (size_t i = 0; i < manifest->processes.count; i++) {
		fputs(i ? ",\n{\"file\":" : "\n{\"file\":", out);
		pfw_json_print_string(out, process[i].file->name);
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
	const struct manifest_process *process = manifest->processes.item;
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
	const struct manifest_process *process = manifest->processes.item;
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
	const struct manifest_process *x = a, *y = b;

	if (x->file != y->file)
		return x->file->number < y->file->number ? -1 : 1;
	if (x->ts_ns != y->ts_ns)
		return x->ts_ns < y->ts_ns ? -1 : 1;
	return x->pid < y->pid ? -1 : x->pid > y->pid;
}

static int compare_files(const void *a, const void *b)
{
	const struct pfw_manifest_file *x = *(struct pfw_manifest_file *const *)a;
	const struct pfw_manifest_file *y = *(struct pfw_manifest_file *const *)b;

	if (x->rank != y->rank)
		return x->rank < y->rank ? -1 : 1;
	return strcmp(x->name, y->name);
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
	if (manifest->processes.count)
		qsort(manifest->processes.item, manifest->processes.count,
		      sizeof(struct manifest_process), compare_processes);
}

int pfw_manifest_write(struct pfw_manifest *manifest, FILE *out)
{
	uint64_t lines = 0, events = 0, bytes = 0, lost;

	put_in_order(manifest);
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
	lost = put_losses(manifest, NULL, out);
	fputs(",\n", out);
	fprintf(out,
		"\"totals\":{\"files\":%zu,\"processes\":%zu,\"lines\":%" PRIu64
		",\"events\":%" PRIu64 ",\"bytes\":%" PRIu64 ",\"lost\":%" PRIu64 "},\n",
		manifest->files, manifest->processes.count, lines, events, bytes, lost);
	put_files(manifest, out);
	put_processes(manifest, out);
	fputs("}\n", out);
	return ferror(out) ? -EIO : 0;
}
