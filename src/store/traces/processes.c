/* store/traces/processes.c - the processes that wrote the lines of a file; see processes.h. */
#include "store/traces/processes.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/base/order.h"
#include "store/gzip/member.h"
#include "store/kit/grow.h"
#include "store/kit/hash.h"
#include "store/line/entry.h"
#include "store/read/input.h"
#include "store/read/scan.h"
#include "store/traces/ranks.h"
#include "store/traces/traces.h"

/* Set in numbers that are made of a file and a pid. */
#define NO_LINE (1ull << 63)

/* The `process` lines of one file. */
struct found {
	struct pfw_trace *head;
	size_t count, room;
	uint64_t most; /* that a file of its size may have: more would take memory without end */
};

void pfw_processes_free(struct pfw_processes *processes)
{
	if (!processes || (processes->users && --processes->users))
		return;
	free(processes->process);
	free(processes->head);
	free(processes);
}

/* ---- reading them ---- */

static int add_process(struct found *found, const struct pfw_entry *entry)
{
	if (found->count >= found->most)
		return -E2BIG;
	if (PFW_ROOM(found->head, found->count, found->room))
		return -ENOMEM;
	found->head[found->count] = (struct pfw_trace){ 0 };
	pfw_trace_take_process(&found->head[found->count++], entry);
	return 0;
}

/* The `process` lines that a member begins with. */
static int read_member(struct found *found, const char *path, uint64_t at, uint64_t bytes)
{
	struct pfw_scan scan;
	int error = pfw_scan_open_range(&scan, path, at, at + bytes);

	if (error)
		return error == -ENOMEM ? error : 0;
	while (!error && pfw_scan_next(&scan) == PFW_SCAN_LINE && pfw_scan_is(&scan, "process"))
		error = add_process(found, &scan.entry);
	pfw_scan_close(&scan);
	return error;
}

/* The same as read_members() below, if it is known what the headers say. */
static int read_known(struct found *found, const char *path, const struct pfw_blocks *blocks)
{
	int error = 0;

	for (size_t i = 0; i < blocks->count && !error; i++) {
		const struct pfw_block *block = &blocks->block[i];

		if (block->mark == PFW_BLOCK_UNMARKED)
			break;
		if (block->mark == PFW_BLOCK_HEADS)
			error = read_member(found, path, block->at, block->bytes);
	}
	return error;
}

/* Marked members have them at their begin.  A member without a mark ends the search, as does the last one of
 * `lines` lines, unless that is 0. */
static int read_members(struct found *found, const char *path, uint64_t lines)
{
	struct pfw_sorted_mark mark;
	struct pfw_link link;
	uint64_t at = 0;
	int error = 0, fd = pfw_input_open_fd(path);

	if (fd < 0)
		return 0;
	while (!error && pfw_chain_look(&link, fd, at) == 0 &&
	       (link.damaged || pfw_sorted_mark_read(link.header, link.header_bytes, &mark) == 0)) {
		if (link.damaged || mark.first)
			error = read_member(found, path, at, link.summary.member_bytes);
		if (lines && found->count == lines)
			break;
		at += link.summary.member_bytes;
	}
	close(fd);
	return error;
}

static int by_pid(const void *a, const void *b)
{
	const struct pfw_trace *x = a, *y = b;

	return PFW_ORDER(x->pid, y->pid) ?: PFW_ORDER(x->start_ns, y->start_ns) ?:
	       PFW_ORDER(x->first_id, y->first_id);
}

/* Own found->head, which is freed if there is no memory. */
static struct pfw_processes *make(struct found *found)
{
	struct pfw_processes *processes = calloc(1, sizeof(*processes));
	struct pfw_traced_process *process = calloc(found->count + 1, sizeof(*process));
	struct pfw_trace *head =
		realloc(found->head, (found->count ? found->count : 1) * sizeof(*head));

	if (head) /* most files have one process, and a run 100,000 of them */
		found->head = head;
	if (!processes || !process) {
		free(processes);
		free(process);
		free(found->head);
		return NULL;
	}
	if (found->count)
		qsort(found->head, found->count, sizeof(*found->head), by_pid);
	for (size_t i = 0; i < found->count; i++)
		process[i] = (struct pfw_traced_process){ .pid = found->head[i].pid,
							  .start_ns = found->head[i].start_ns,
							  .number = i };
	*processes = (struct pfw_processes){
		.process = process, .head = found->head, .count = found->count, .users = 1
	};
	return processes;
}

struct pfw_processes *pfw_processes_of(struct pfw_trace *head, size_t count)
{
	return make(&(struct found){ .head = head, .count = count });
}

int pfw_processes_read(struct pfw_trace_file *file)
{
	struct found found = { .most = pfw_processes_most(file->head.bytes) };
	bool compacted, too_many;
	int error;

	/* Nothing may be read from a pipe. */
	if (file->processes || !file->head.ours)
		return 0;
	error = file->blocks.block && file->blocks.block->mark != PFW_BLOCK_UNKNOWN
			? read_known(&found, file->path, &file->blocks)
			: read_members(&found, file->path, file->process_lines);
	compacted = found.count != 0;
	for (size_t i = 0; i < found.count; i++) {
		if (found.head[i].rank < 0)
			found.head[i].rank = pfw_trace_rank_of_name(file->path);
	}
	too_many = error == -E2BIG;
	if (too_many)
		error = 0;
	if (!error && !compacted)
		error = PFW_PUSH(found.head, found.count, found.room, file->head);
	if (error) {
		free(found.head);
		return -ENOMEM;
	}
	file->processes = make(&found);
	if (!file->processes)
		return -ENOMEM;
	file->processes->compacted = compacted;
	file->processes->too_many = too_many;
	return 0;
}

struct pfw_processes *pfw_processes_join(const struct pfw_trace_file *const *file, size_t count)
{
	struct found found = { 0 };

	for (size_t i = 0; i < count; i++) {
		const struct pfw_processes *from = file[i]->processes;

		for (size_t j = 0; from && j < from->count; j++) {
			if (PFW_PUSH(found.head, found.count, found.room, from->head[j])) {
				free(found.head);
				return NULL;
			}
		}
	}
	return make(&found);
}

/* ---- the process of a line ---- */

const struct pfw_traced_process *pfw_processes_find(const struct pfw_processes *processes,
						    uint64_t pid, int64_t ts_ns)
{
	const struct pfw_traced_process *process = processes->process;
	size_t next = PFW_BISECT(at, processes->count,
				 process[at].pid < pid ||
					 (process[at].pid == pid && process[at].start_ns <= ts_ns));

	if (next && process[next - 1].pid == pid)
		return &process[next - 1];
	return next < processes->count && process[next].pid == pid ? &process[next] : NULL;
}

/* Remember the process, and the time in which its pid is its own. */
static void note(struct pfw_processes_recent *recent, const struct pfw_processes *processes,
		 const struct pfw_traced_process *process)
{
	const struct pfw_traced_process *first = processes->process,
					*end = first + processes->count;
	const struct pfw_traced_process *next = process + 1;

	recent->process = process->number;
	recent->imported = processes->head[process - first].imported;
	recent->since_ns = process > first && process[-1].pid == process->pid ? process->start_ns
									      : INT64_MIN;
	recent->until_ns = next < end && next->pid == process->pid ? next->start_ns : INT64_MAX;
}

void pfw_processes_look(const struct pfw_processes *processes, size_t file,
			const struct pfw_entry *entry, struct pfw_processes_recent *recent)
{
	const struct pfw_traced_process *process =
		processes ? pfw_processes_find(processes, entry->pid, entry->ts_ns) : NULL;

	*recent = (struct pfw_processes_recent){ .pid = entry->pid,
						 .since_ns = INT64_MIN,
						 .until_ns = INT64_MAX };
	if (process)
		note(recent, processes, process);
	else
		recent->process =
			pfw_hash_mix(entry->pid ^ 0x9e3779b97f4a7c15u, file + 0xd6e8feb86659fd93u) |
			NO_LINE;
}

/* ---- the processes of all files ---- */

/* A process of one of the files. */
struct entry {
	struct pfw_traced_process *process;
	const struct pfw_trace *head;
	size_t file, of; /* the file, and how many processes it has */
	bool compacted;
};

/* A process has one rank and one run; in a forged trace these alone may differ. */
static int compare_identities(const struct entry *x, const struct entry *y)
{
	const struct pfw_trace *a = x->head, *b = y->head;

	return PFW_ORDER(a->start_ns, b->start_ns) ?: PFW_ORDER(a->rank, b->rank) ?:
	       PFW_ORDER(a->pid, b->pid) ?: strcmp(a->host, b->host) ?: strcmp(a->boot, b->boot) ?:
	       strcmp(a->run, b->run);
}

/* By identity, then the part of its lines, then the file that is used: that with the most
 * processes; a compacted one; the first. */
static int compare(const void *a, const void *b)
{
	const struct entry *x = a, *y = b;

	return compare_identities(x, y) ?: PFW_ORDER(x->head->first_id, y->head->first_id) ?:
	       PFW_ORDER(y->of, x->of) ?: PFW_ORDER(y->compacted, x->compacted) ?:
	       PFW_ORDER(x->file, y->file);
}

/* All processes of all files, sorted: their number, or -ENOMEM. */
static int64_t list(const struct pfw_traces *traces, struct entry **out)
{
	size_t count = 0, room = 0;

	*out = NULL;
	for (size_t i = 0; i < traces->count; i++) {
		const struct pfw_processes *from = traces->file[i].processes;

		/* The parts of a file of several ranks share its processes. */
		if (pfw_ranks_whole(traces, i) != i)
			continue;
		for (size_t j = 0; from && j < from->count; j++) {
			const struct entry entry = { .process = &from->process[j],
						     .head = &from->head[j],
						     .file = i,
						     .of = from->count,
						     .compacted = from->compacted };

			if (PFW_PUSH(*out, count, room, entry)) {
				free(*out);
				return -ENOMEM;
			}
		}
	}
	if (count)
		qsort(*out, count, sizeof(**out), compare);
	return (int64_t)count;
}

int pfw_processes_number(struct pfw_traces *traces)
{
	struct entry *entry;
	int64_t count = list(traces, &entry);
	uint64_t number = 0;

	if (count < 0)
		return (int)count;
	for (int64_t i = 0; i < count; i++) {
		number += i && compare_identities(&entry[i - 1], &entry[i]);
		entry[i].process->number = number;
	}
	free(entry);
	return 0;
}

const struct pfw_trace *pfw_processes_first(const struct pfw_traces *traces, const size_t *file,
					    size_t count, uint64_t *number)
{
	const struct pfw_trace *first = NULL;

	for (size_t i = 0; i < count; i++) {
		const struct pfw_trace_file *one = &traces->file[file[i]];
		const struct pfw_processes *own = one->processes;

		for (size_t j = 0; own && j < own->count; j++) {
			if (own->head[j].rank != one->head.rank ||
			    (first && own->process[j].number >= *number))
				continue;
			first = &own->head[j];
			*number = own->process[j].number;
		}
	}
	return first;
}

/* ---- doubles ---- */

/* Count the file that is left out among those of its run; note one that is not, `partly`. */
static int add_double(struct pfw_traces *traces, size_t left, size_t used, bool partly)
{
	const struct pfw_trace_file *file = traces->file;
	struct pfw_traces_double *same = NULL;

	for (size_t i = 0; i < traces->doubles && !same && !partly; i++) {
		if (!traces->twice[i].partly &&
		    strcmp(traces->twice[i].run, file[left].head.run) == 0)
			same = &traces->twice[i];
	}
	if (!same) {
		if (PFW_APPEND(traces->twice, traces->doubles,
			       (struct pfw_traces_double){ .partly = partly }))
			return -ENOMEM;
		same = &traces->twice[traces->doubles - 1];
		memcpy(same->run, file[left].head.run, sizeof(same->run));
		same->left_out = strdup(file[left].path);
		same->used = strdup(file[used].path);
		if (!same->left_out || !same->used)
			return -ENOMEM;
	}
	same->several |= strcmp(same->used, file[used].path) != 0;
	same->count++;
	return 0;
}

/* Of each file: how many of its processes another file has, too, and which file that is. */
struct shared {
	size_t processes, file;
};

static void find_shared(const struct entry *entry, size_t count, struct shared *shared)
{
	size_t first = 0;

	for (size_t i = 1; i < count; i++) {
		if (compare_identities(&entry[first], &entry[i]) ||
		    entry[first].head->first_id != entry[i].head->first_id) {
			first = i;
		} else if (entry[first].file != entry[i].file) {
			shared[entry[i].file].processes++;
			shared[entry[i].file].file = entry[first].file;
		}
	}
}

static int drop(struct pfw_traces *traces, const struct shared *shared)
{
	size_t kept = 0;

	for (size_t i = 0; i < traces->count; i++) {
		const struct pfw_processes *own = traces->file[i].processes;

		if (shared[i].processes &&
		    add_double(traces, i, shared[i].file, shared[i].processes < own->count))
			return -ENOMEM;
	}
	for (size_t i = 0; i < traces->count; i++) {
		struct pfw_trace_file *file = &traces->file[i];

		if (shared[i].processes && shared[i].processes == file->processes->count)
			pfw_trace_file_free(file);
		else
			traces->file[kept++] = *file;
	}
	traces->count = kept;
	return 0;
}

int pfw_processes_drop_doubles(struct pfw_traces *traces)
{
	struct shared *shared = calloc(traces->count + 1, sizeof(*shared));
	struct entry *entry = NULL;
	int64_t count = shared ? list(traces, &entry) : -ENOMEM;
	int error = count < 0 ? (int)count : 0;

	if (!error) {
		find_shared(entry, (size_t)count, shared);
		error = drop(traces, shared);
		free(entry);
	}
	free(shared);
	return error;
}
