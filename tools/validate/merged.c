/* tools/validate/merged.c - checks of a compacted file; see validate.h. */
#include "validate/validate.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/order.h"
#include "store/kit/grow.h"
#include "store/line/args.h"
#include "store/line/hash.h"

bool merged_open(struct merged *merged, const char *path)
{
	struct pfw_blocks blocks;

	*merged = (struct merged){ .ts_ns = INT64_MIN, .in_front = true };
	if (pfw_blocks_find(&blocks, path))
		return false;
	if (pfw_marks_read(&merged->marks, path, &blocks))
		merged->marks.marked = false;
	pfw_blocks_free(&blocks);
	return merged->marks.marked;
}

void merged_release(struct merged *merged)
{
	free(merged->process);
	merged->process = NULL;
}

/* Find or make the process of a pid; NULL: no memory. */
static struct merged_process *find(struct merged *merged, uint64_t pid)
{
	size_t low;
	struct merged_process *more;

	if (merged->last < merged->count && merged->process[merged->last].pid == pid)
		return &merged->process[merged->last];
	low = merged->last = PFW_BISECT(at, merged->count, merged->process[at].pid < pid);
	if (low < merged->count && merged->process[low].pid == pid)
		return &merged->process[low];
	if (PFW_ROOM(merged->process, merged->count, merged->room))
		return NULL;
	more = merged->process;
	memmove(more + low + 1, more + low, (merged->count++ - low) * sizeof(*more));
	more[low] = (struct merged_process){ .pid = pid };
	return &more[low];
}

void merged_said_take(struct merged_said *said, const struct pfw_entry *entry)
{
	if (pfw_slice_is(&entry->name, "waited")) {
		int64_t total_ns = pfw_arg_ns(entry, "total", 0);

		said->waited = pfw_arg_u64(entry, "count", 0);
		said->waited_us = total_ns > 0 ? (uint64_t)total_ns / 1000 : 0;
	} else if (pfw_slice_is(&entry->name, "unrecorded")) {
		said->uring_operations = pfw_arg_u64(entry, "io_uring_operations", 0);
		said->aio_contexts = pfw_arg_u64(entry, "aio_contexts", 0);
		said->early_calls = pfw_arg_u64(entry, "early_calls", 0);
		said->gpu_us = pfw_arg_u64(entry, "gpu_us", 0);
	}
}

void merged_said_add(struct merged_said *sum, const struct merged_said *one)
{
	sum->waited += one->waited;
	sum->waited_us += one->waited_us;
	sum->uring_operations += one->uring_operations;
	sum->aio_contexts += one->aio_contexts;
	sum->early_calls += one->early_calls;
	PFW_RAISE(sum->gpu_us, one->gpu_us);
}

static void take_own(struct merged *merged, struct merged_process *process,
		     const struct pfw_entry *entry)
{
	if (pfw_slice_is(&entry->name, "process")) {
		process->begun++;
		merged->any_begun = true;
	} else if (pfw_slice_is(&entry->name, "end") &&
		   (!process->ended || entry->id > process->end_id)) {
		process->ended = true;
		process->end_id = entry->id;
		process->end_events = pfw_arg_u64(entry, "events", 0);
		process->end_lost = pfw_arg_u64(entry, "lost", 0);
	} else {
		merged_said_take(&process->said, entry);
	}
}

const char *merged_line(struct merged *merged, const char *line, size_t bytes,
			const struct pfw_entry *entry)
{
	struct merged_process *process;
	bool own, back;

	merged->lines++;
	merged->checksum += pfw_linehash(line, bytes);
	if (!entry)
		return NULL;
	process = find(merged, entry->pid);
	if (!process)
		return "no memory to check its process";
	own = entry->ph == 'M' && pfw_slice_is(&entry->cat, "pfw");
	process->events += entry->ph != 'M';
	if (own)
		take_own(merged, process, entry);
	merged->in_front = merged->in_front && own && pfw_slice_is(&entry->name, "process");
	if (merged->in_front || !merged->marks.sorted || !(entry->has & PFW_ENTRY_TS))
		return NULL;
	back = entry->ts_ns < merged->ts_ns;
	merged->ts_ns = entry->ts_ns;
	return back ? "`ts` goes back in a file that is sorted" : NULL;
}

const char *merged_problem(struct merged *merged, size_t number, char *text, size_t size)
{
	const struct merged_process *process = &merged->process[number];

	/* A header that was changed is a problem of its own, said with its place. */
	if (number == merged->count && merged->marks.damaged)
		return NULL;
	if (number == merged->count)
		return merged->lines == merged->marks.lines &&
				       merged->checksum == merged->marks.checksum
			       ? NULL
			       : "its lines do not fit the headers of its members";
	merged->lost += process->end_lost;
	if (!process->begun && !merged->any_begun) /* another tool's */
		return NULL;
	if (!process->begun)
		snprintf(text, size, "lines of process %" PRIu64 ", which has no `process` line",
			 process->pid);
	else if (!process->ended)
		snprintf(text, size, "process %" PRIu64 " is not finished (no `end`)",
			 process->pid);
	/* If a pid was used twice, its lines cannot be assigned to one of the two processes. */
	else if (process->begun == 1 && process->end_events != process->events &&
		 !merged->marks.cut)
		snprintf(text, size,
			 "the `end` of process %" PRIu64 " says %" PRIu64
			 " events, and there are %" PRIu64,
			 process->pid, process->end_events, process->events);
	else
		return NULL;
	return text;
}
