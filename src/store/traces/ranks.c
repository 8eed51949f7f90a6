/* store/traces/ranks.c - splits a compacted file of several ranks; see ranks.h. */
#include "store/traces/ranks.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/order.h"
#include "store/line/entry.h"
#include "store/traces/traces.h"

void pfw_ranks_free(struct pfw_ranks *ranks)
{
	if (!ranks || (ranks->users && --ranks->users))
		return;
	free(ranks->file);
	free(ranks);
}

/* ---- the rank of a line ---- */

size_t pfw_ranks_of(const struct pfw_ranks *ranks, const struct pfw_entry *entry)
{
	const struct pfw_traced_process *process =
		pfw_processes_find(ranks->processes, entry->pid, entry->ts_ns);

	return process ? process->part : 0;
}

size_t pfw_ranks_file(const struct pfw_traces *traces, size_t file, const struct pfw_entry *entry)
{
	const struct pfw_ranks *ranks = traces->file[file].ranks;

	return ranks ? ranks->file[pfw_ranks_of(ranks, entry)] : file;
}

size_t pfw_ranks_whole(const struct pfw_traces *traces, size_t file)
{
	return traces->file[file].ranks ? traces->file[file].ranks->file[0] : file;
}

/* Two processes of one pid, but different ranks and hosts, or NULL.  One host never has the same
 * pid twice at a time. */
static const struct pfw_trace *find_mixed(const struct pfw_processes *processes)
{
	for (size_t i = 1; i < processes->count; i++) {
		const struct pfw_trace *one = &processes->head[i - 1], *other = one + 1;

		if (one->pid == other->pid && one->rank != other->rank &&
		    strcmp(one->host, other->host) != 0)
			return one;
	}
	return NULL;
}

/* ---- parts ---- */

/* By rank, then in order of the file. */
static int by_rank_and_place(const void *a, const void *b)
{
	const struct pfw_trace *x = *(const struct pfw_trace *const *)a;
	const struct pfw_trace *y = *(const struct pfw_trace *const *)b;

	return PFW_ORDER(x->rank, y->rank) ?: PFW_ORDER(x, y);
}

static int by_rank(const void *a, const void *b)
{
	const struct pfw_trace *x = a, *y = b;

	return PFW_ORDER(x->rank, y->rank);
}

/* The first process of each rank, by rank.  Their number, or -ENOMEM. */
static int64_t find_heads(const struct pfw_processes *processes, struct pfw_trace **out)
{
	const struct pfw_trace **order = malloc(processes->count * sizeof(*order));
	size_t count = 0;

	*out = malloc(processes->count * sizeof(**out));
	if (!order || !*out) {
		free(order);
		free(*out);
		return -ENOMEM;
	}
	for (size_t i = 0; i < processes->count; i++)
		order[i] = &processes->head[i];
	qsort(order, processes->count, sizeof(*order), by_rank_and_place);
	for (size_t i = 0; i < processes->count; i++) {
		if (!i || order[i]->rank != order[i - 1]->rank)
			(*out)[count++] = *order[i];
	}
	free(order);
	return (int64_t)count;
}

/* Give each process its rank's part. */
static void find_parts(struct pfw_processes *processes, const struct pfw_trace *head, size_t heads)
{
	for (size_t i = 0; i < processes->count; i++) {
		const struct pfw_trace *own =
			bsearch(&processes->head[i], head, heads, sizeof(*head), by_rank);

		processes->process[i].part = (size_t)(own - head);
	}
}

/* Replace the file among the traces by one entry for each head; the first stands in its place. */
static int add_parts(struct pfw_traces *traces, size_t number, struct pfw_ranks *ranks,
		     const struct pfw_trace *head)
{
	struct pfw_trace_file *file =
		realloc(traces->file, (traces->count + ranks->count) * sizeof(*file));

	if (!file)
		return -ENOMEM;
	traces->file = file;
	for (size_t i = 0; i < ranks->count; i++) {
		struct pfw_trace_file part = file[number];

		part.ranks = ranks;
		part.head = head[i];
		part.head.bytes = file[number].head.bytes;
		if (!i) {
			file[number] = part;
			ranks->users = 1;
			continue;
		}
		part.blocks = (struct pfw_blocks){ .layout = PFW_LAYOUT_MEMBERS };
		part.path = strdup(part.path);
		part.partial = part.partial ? strdup(part.partial) : NULL;
		if (!part.path || (!part.partial && file[number].partial)) {
			free(part.path);
			return -ENOMEM;
		}
		file[traces->count++] = part;
		ranks->users++;
		part.processes->users++;
	}
	return 0;
}

static int split(struct pfw_traces *traces, size_t number, const struct pfw_trace *head,
		 size_t heads)
{
	struct pfw_processes *processes = traces->file[number].processes;
	struct pfw_ranks *ranks = calloc(1, sizeof(*ranks));

	if (!ranks)
		return -ENOMEM;
	ranks->count = heads;
	ranks->processes = processes;
	ranks->file = calloc(heads, sizeof(*ranks->file));
	if (!ranks->file) {
		pfw_ranks_free(ranks);
		return -ENOMEM;
	}
	find_parts(processes, head, heads);
	/* The traces own it from here on. */
	return add_parts(traces, number, ranks, head);
}

/* 0 or -ENOMEM; *parted is set if the file was split. */
static int part_file(struct pfw_traces *traces, size_t number, char *why, size_t size, bool *parted)
{
	const struct pfw_processes *processes = traces->file[number].processes;
	const struct pfw_trace *mixed;
	struct pfw_trace *head;
	int64_t heads;
	int error = 0;

	if (processes && processes->too_many) {
		snprintf(why, size,
			 "more processes than its %" PRIu64
			 " bytes can hold: its ranks are counted as one",
			 traces->file[number].head.bytes);
		return 0;
	}
	if (!processes || processes->count < 2)
		return 0;
	heads = find_heads(processes, &head);
	if (heads < 0)
		return -ENOMEM;
	if (heads == 1) {
		free(head);
		return 0;
	}
	mixed = find_mixed(processes);
	if (mixed)
		snprintf(why, size,
			 "two hosts have a process %" PRIu64
			 ", so that lines cannot be told apart: "
			 "its ranks are counted as one",
			 mixed->pid);
	else
		error = split(traces, number, head, (size_t)heads);
	*parted |= !mixed;
	free(head);
	return error;
}

int pfw_ranks_part(struct pfw_traces *traces, pfw_traces_say *say, void *user)
{
	size_t files = traces->count;
	bool parted = false;
	int error = 0;

	for (size_t i = 0; i < files && !error; i++) {
		char why[200] = "";

		error = pfw_processes_read(&traces->file[i]);
		error = error ?: part_file(traces, i, why, sizeof(why), &parted);
		if (*why)
			say(user, traces->file[i].path, why);
	}
	if (!parted || error)
		return error;
	pfw_traces_sort(traces);
	for (size_t i = 0; i < traces->count; i++) {
		struct pfw_ranks *ranks = traces->file[i].ranks;

		if (ranks)
			ranks->file[ranks->numbered++] = i;
	}
	return 0;
}
