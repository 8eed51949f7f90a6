/* ranks.c - a compacted file of several ranks, taken apart; see ranks.h. */
#include "ranks.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "entry.h"
#include "input.h"
#include "member.h"
#include "more.h"
#include "scan.h"
#include "traces.h"

/* The `process` lines of one file, each as if it were the first of a file of its own. */
struct found {
	struct pfw_trace *head;
	size_t count, room;
};

void pfw_ranks_free(struct pfw_ranks *ranks)
{
	if (!ranks || (ranks->users && --ranks->users))
		return;
	free(ranks->file);
	free(ranks->process);
	free(ranks);
}

/* ---- whose a line is ---- */

/* The process of that pid that began last before it, else the first; NULL: there is none. */
static const struct pfw_ranks_process *find_process(const struct pfw_ranks *ranks, uint64_t pid,
						    int64_t ts_ns)
{
	size_t low = 0, high = ranks->processes;

	while (low < high) {
		size_t middle = (low + high) / 2;
		const struct pfw_ranks_process *at = &ranks->process[middle];

		if (at->pid < pid || (at->pid == pid && at->start_ns <= ts_ns))
			low = middle + 1;
		else
			high = middle;
	}
	if (low && ranks->process[low - 1].pid == pid)
		return &ranks->process[low - 1];
	return low < ranks->processes && ranks->process[low].pid == pid ? &ranks->process[low]
									: NULL;
}

size_t pfw_ranks_of(const struct pfw_ranks *ranks, const struct pfw_entry *entry)
{
	const struct pfw_ranks_process *process = find_process(ranks, entry->pid, entry->ts_ns);

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

/* ---- what the file says ---- */

static int add_process(struct found *found, const struct pfw_entry *entry)
{
	struct pfw_trace *more = pfw_more(found->head, found->count, &found->room, sizeof(*more));

	if (!more)
		return -ENOMEM;
	found->head = more;
	found->head[found->count] = (struct pfw_trace){ 0 };
	pfw_trace_take_process(&found->head[found->count++], entry);
	return 0;
}

/* The `process` lines that a member begins with. */
static int read_member(struct found *found, const char *path, uint64_t at)
{
	struct pfw_scan scan;
	int error = pfw_scan_open_at(&scan, path, at);

	if (error)
		return error == -ENOMEM ? error : 0;
	while (!error && pfw_scan_next(&scan) == PFW_SCAN_LINE && pfw_scan_is(&scan, "process"))
		error = add_process(found, &scan.entry);
	pfw_scan_close(&scan);
	return error;
}

/* All of them: they stand at the begin of members that say so.  What is not compacted ends it. */
static int read_members(struct found *found, const char *path)
{
	unsigned char header[PFW_MEMBER_HEADER_BYTES];
	struct pfw_gzip_summary summary;
	struct pfw_mark mark;
	uint64_t at = 0;
	int error = 0, fd = pfw_input_open_fd(path);

	if (fd < 0)
		return 0;
	while (!error && pread(fd, header, sizeof(header), (off_t)at) == (ssize_t)sizeof(header) &&
	       pfw_gzip_read_summary(header, sizeof(header), &summary) == 0 &&
	       summary.member_bytes && pfw_mark_read(header, sizeof(header), &mark) == 0) {
		if (mark.first)
			error = read_member(found, path, at);
		at += summary.member_bytes;
	}
	close(fd);
	return error;
}

static int by_pid(const void *a, const void *b)
{
	const struct pfw_trace *x = a, *y = b;

	if (x->pid != y->pid)
		return x->pid < y->pid ? -1 : 1;
	return (x->start_ns > y->start_ns) - (x->start_ns < y->start_ns);
}

static bool several(const struct found *found)
{
	for (size_t i = 1; i < found->count; i++) {
		if (found->head[i].rank != found->head[0].rank)
			return true;
	}
	return false;
}

/* Two processes of one pid and of two ranks that may have lived at one time; by_pid() has been at
 * work.  A host gives a pid again when its process is gone. */
static const struct pfw_trace *find_mixed(const struct found *found)
{
	for (size_t i = 1; i < found->count; i++) {
		const struct pfw_trace *one = &found->head[i - 1], *other = &found->head[i];

		if (one->pid == other->pid && one->rank != other->rank &&
		    strcmp(one->host, other->host) != 0)
			return one;
	}
	return NULL;
}

/* ---- parts ---- */

static int by_rank(const void *a, const void *b)
{
	const struct pfw_trace *x = a, *y = b;

	return (x->rank > y->rank) - (x->rank < y->rank);
}

/* The first process of each rank, by rank.  Their number, or -ENOMEM. */
static int64_t find_heads(const struct found *found, struct pfw_trace **out)
{
	struct pfw_trace *head = malloc(found->count * sizeof(*head));
	size_t count = 0;

	if (!head)
		return -ENOMEM;
	for (size_t i = 0; i < found->count; i++) {
		size_t j = 0;

		while (j < count && head[j].rank != found->head[i].rank)
			j++;
		if (j == count)
			head[count++] = found->head[i];
	}
	qsort(head, count, sizeof(*head), by_rank);
	*out = head;
	return (int64_t)count;
}

/* Whose each process is; found->head by pid. */
static int find_processes(struct pfw_ranks *ranks, const struct pfw_trace *head,
			  const struct found *found)
{
	ranks->process = malloc(found->count * sizeof(*ranks->process));
	if (!ranks->process)
		return -ENOMEM;
	for (size_t i = 0; i < found->count; i++) {
		const struct pfw_trace *of = &found->head[i];
		const struct pfw_trace *own =
			bsearch(of, head, ranks->count, sizeof(*head), by_rank);

		ranks->process[ranks->processes++] =
			(struct pfw_ranks_process){ of->pid, of->start_ns, (size_t)(own - head) };
	}
	return 0;
}

/* Have the file among the traces once for each head: the first one stands in its own place. */
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
		if (!part.path)
			return -ENOMEM;
		file[traces->count++] = part;
		ranks->users++;
	}
	return 0;
}

static int split(struct pfw_traces *traces, size_t number, struct found *found,
		 struct pfw_trace *head, size_t heads)
{
	struct pfw_ranks *ranks = calloc(1, sizeof(*ranks));

	if (!ranks)
		return -ENOMEM;
	ranks->count = heads;
	ranks->file = calloc(heads, sizeof(*ranks->file));
	if (!ranks->file || find_processes(ranks, head, found)) {
		pfw_ranks_free(ranks);
		return -ENOMEM;
	}
	/* From here on it is the traces'. */
	return add_parts(traces, number, ranks, head);
}

/* 0 or -ENOMEM; *parted: it was. */
static int part_file(struct pfw_traces *traces, size_t number, struct found *found, char *why,
		     size_t size, bool *parted)
{
	const struct pfw_trace *mixed;
	struct pfw_trace *head = NULL;
	int64_t heads;
	int error = read_members(found, traces->file[number].path);

	if (error || !several(found))
		return error;
	heads = find_heads(found, &head);
	if (heads < 0)
		return -ENOMEM;
	qsort(found->head, found->count, sizeof(*found->head), by_pid);
	mixed = find_mixed(found);
	if (mixed)
		snprintf(why, size,
			 "two hosts have a process %" PRIu64
			 ", so that lines cannot be told apart: "
			 "its ranks are counted as one",
			 mixed->pid);
	else
		error = split(traces, number, found, head, (size_t)heads);
	*parted |= !mixed;
	free(head);
	return error;
}

int pfw_ranks_part(struct pfw_traces *traces,
		   void (*say)(void *user, const char *path, const char *why), void *user)
{
	size_t files = traces->count;
	bool parted = false;
	int error = 0;

	for (size_t i = 0; i < files && !error; i++) {
		struct found found = { 0 };
		char why[200] = "";

		/* Of a pipe nothing must be taken. */
		if (!traces->file[i].head.ours)
			continue;
		error = part_file(traces, i, &found, why, sizeof(why), &parted);
		free(found.head);
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
