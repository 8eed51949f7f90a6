/* tools/chrome/rows.c - the rows of a timeline; see chrome.h. */
#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "chrome/chrome.h"
#include "common/base/order.h"
#include "store/kit/grow.h"

/* Larger than any Linux pid: for devices of several ranks, and for processes with a pid in use. */
#define MERGED_DEVICES 10000000u
#define DEVICES_OF_A_RANK 1000u
#define OTHER_PIDS 20000000u
#define SORT_OF_DEVICES 5000000u /* Kineto's */

/* ---- ranks ---- */

static size_t find_group(struct chrome_rows *rows, const struct pfw_trace *head)
{
	for (size_t i = 0; i < rows->group_count; i++) {
		const struct chrome_group *group = &rows->groups[i];

		if (group->rank == head->rank && strcmp(group->host, head->host) == 0)
			return i;
	}
	rows->groups[rows->group_count] =
		(struct chrome_group){ .rank = head->rank, .host = head->host };
	return rows->group_count++;
}

/* The first process of a file may be that of its group. */
static void note_first(struct chrome_group *group, const struct pfw_traces *traces, size_t file)
{
	uint64_t number;
	const struct pfw_trace *first = pfw_processes_first(traces, &file, 1, &number);

	if (!first || (group->pid && group->process <= number))
		return;
	group->process = number;
	group->pid = first->pid;
}

int chrome_rows_init(struct chrome_rows *rows, const struct export_job *job)
{
	*rows = (struct chrome_rows){ .job = job };
	rows->group = calloc(job->traces->count + 1, sizeof(*rows->group));
	rows->groups = calloc(job->count + 1, sizeof(*rows->groups));
	if (!rows->group || !rows->groups)
		return -ENOMEM;
	for (size_t i = 0; i < job->count; i++) {
		size_t file = job->file[i];

		rows->group[file] = find_group(rows, &job->traces->file[file].head);
		note_first(&rows->groups[rows->group[file]], job->traces, file);
	}
	return 0;
}

void chrome_rows_free(struct chrome_rows *rows)
{
	for (size_t i = 0; i < rows->thread_count; i++) {
		struct chrome_track *track = &rows->thread[i].track;

		while (track->lanes)
			free(track->lane[--track->lanes].end_ns);
		free(track->lane);
	}
	free(rows->thread);
	free(rows->process);
	free(rows->group);
	free(rows->groups);
	pfw_pair_ids_release(&rows->process_numbers);
	pfw_pair_ids_release(&rows->thread_numbers);
	pfw_arena_release(&rows->names);
}

/* ---- processes and threads ---- */

/* Whether another group or a device has that pid, or, if this is a device, any process. */
static bool is_taken(const struct chrome_rows *rows, uint64_t pid, size_t group, bool device)
{
	for (size_t i = 0; i < rows->process_count; i++) {
		const struct chrome_process *other = &rows->process[i];

		if (other->pid == pid && (device || other->device >= 0 || other->group != group))
			return true;
	}
	return false;
}

/* A device's pid is its number, as in Kineto, unless a process has that pid. */
static uint64_t shown_pid(const struct chrome_rows *rows, size_t group, uint64_t pid,
			  int64_t device)
{
	bool merged = rows->job->options->merge;

	if (device >= 0) {
		pid = (uint64_t)device;
		for (size_t i = 0; i < rows->group_count && !merged; i++)
			merged = rows->groups[i].pid == pid && pid;
		if (merged)
			pid += MERGED_DEVICES + DEVICES_OF_A_RANK * group;
	}
	if (!is_taken(rows, pid, group, device >= 0))
		return pid;
	for (pid = OTHER_PIDS; is_taken(rows, pid, group, true);)
		pid++;
	return pid;
}

static int64_t process_of(struct chrome_rows *rows, size_t group, uint64_t process, uint64_t pid,
			  int64_t device)
{
	uint64_t who = (uint64_t)group << 1 | (device >= 0);
	int64_t number = pfw_pair_ids_of(&rows->process_numbers, who,
					 device >= 0 ? (uint64_t)device : process);

	if (number < (int64_t)rows->process_count)
		return number;
	if (PFW_ROOM(rows->process, rows->process_count, rows->process_room))
		return -ENOMEM;
	rows->process[number] = (struct chrome_process){
		.pid = shown_pid(rows, group, pid, device),
		.group = group,
		.device = device,
		.ts_ns = INT64_MIN,
	};
	for (size_t i = 0; i < rows->process_count && device < 0; i++)
		rows->process[number].number += rows->process[i].device < 0;
	rows->process_count++;
	return number;
}

int64_t chrome_process(struct chrome_rows *rows, size_t file, const struct pfw_entry *entry,
		       int64_t device)
{
	return process_of(rows, rows->group[file], entry->process, entry->pid, device);
}

int64_t chrome_first_process(struct chrome_rows *rows, size_t group)
{
	return process_of(rows, group, rows->groups[group].process, rows->groups[group].pid, -1);
}

int64_t chrome_thread(struct chrome_rows *rows, uint32_t process, uint64_t tid)
{
	int64_t number = pfw_pair_ids_of(&rows->thread_numbers, process, tid);

	if (number < (int64_t)rows->thread_count)
		return number;
	return PFW_PUSH(
		       rows->thread, rows->thread_count, rows->thread_room,
		       (struct chrome_thread){ .process = process, .tid = tid, .ts_ns = INT64_MIN })
		       ? -ENOMEM
		       : number;
}

void chrome_rows_first(struct chrome_rows *rows, size_t file, const struct pfw_entry *entry)
{
	struct chrome_group *group = &rows->groups[rows->group[file]];

	if (group->pid)
		return;
	group->pid = entry->pid;
	group->process = entry->process;
}

bool chrome_is_other(const struct chrome_rows *rows, size_t file, uint64_t pid)
{
	return rows->groups[rows->group[file]].pid != pid;
}

/* ---- names ---- */

static int take_name(struct chrome_rows *rows, size_t file, const struct pfw_entry *entry)
{
	bool process = !pfw_slice_is(&entry->name, "thread_name");
	const char *key = pfw_slice_is(&entry->name, "process") ? "cmd" : "name";
	int64_t of = chrome_process(rows, file, entry, -1), thread = 0;
	struct pfw_value value;
	const char *name;

	if (of < 0)
		return (int)of;
	if (!pfw_entry_arg(entry, key, &value) || value.type != PFW_VALUE_STRING)
		return 0;
	/* A stream is a lane of its own in our traces, a row of a device here. */
	if (!process && entry->tid >= EXPORT_LANE && value.text.bytes > 4 &&
	    memcmp(value.text.at, "GPU ", 4) == 0)
		return 0;
	if (!process)
		thread = chrome_thread(rows, (uint32_t)of, entry->tid);
	if (thread < 0)
		return (int)thread;
	name = pfw_arena_copy(&rows->names, value.text.at, value.text.bytes);
	if (!name)
		return -ENOMEM;
	if (process) {
		rows->process[of].name = name;
		rows->process[of].ts_ns = entry->ts_ns;
	} else {
		rows->thread[thread].name = name;
		rows->thread[thread].ts_ns = entry->ts_ns;
	}
	return 0;
}

int chrome_rows_meta(struct chrome_rows *rows, size_t file, const struct pfw_entry *entry,
		     bool *taken)
{
	const struct pfw_slice *name = &entry->name;

	*taken = false;
	if (entry->ph != 'M' || !pfw_slice_is(&entry->cat, "pfw"))
		return 0;
	*taken = pfw_slice_is(name, "process") || pfw_slice_is(name, "thread_name") ||
		 pfw_slice_is(name, "process_name");
	if (*taken)
		return take_name(rows, file, entry);
	*taken = pfw_slice_is(name, "end") || pfw_slice_is(name, "imported");
	return 0;
}

/* ---- writing them ---- */

struct writing {
	struct export_sink *sink;
	int64_t base_ns;
	bool *first;
};

/* Write a metadata event; `format` makes the JSON of its one arg. */
__attribute__((format(printf, 7, 8))) static int
write_meta(const struct writing *writing, const char *name, uint64_t pid, uint64_t tid,
	   int64_t ts_ns, const char *key, const char *format, ...)
{
	va_list values;
	int bytes;
	char *at;

	va_start(values, format);
	bytes = vsnprintf(NULL, 0, format, values);
	va_end(values);
	at = export_sink_room(writing->sink, 256 + (size_t)bytes);
	if (!at)
		return -ENOMEM;
	at = pfw_emit(at, *writing->first ? "{\"ph\":\"M\",\"name\":\""
					  : ",\n{\"ph\":\"M\",\"name\":\"");
	at = pfw_emit(at, name);
	at = pfw_emit(at, "\",\"ts\":");
	at = pfw_emit_us(at, ts_ns == INT64_MIN ? 0 : ts_ns - writing->base_ns);
	at = pfw_append_u64(pfw_emit(at, ",\"pid\":"), pid);
	at = pfw_append_u64(pfw_emit(at, ",\"tid\":"), tid);
	at = export_key(pfw_emit(at, ",\"args\":{"), key);
	va_start(values, format);
	at += vsnprintf(at, (size_t)bytes + 1, format, values);
	va_end(values);
	*writing->first = false;
	return export_sink_used(writing->sink, pfw_emit(at, "}}"));
}

static int write_process(const struct writing *writing, const struct chrome_rows *rows,
			 const struct chrome_process *process)
{
	const struct chrome_group *group = &rows->groups[process->group];
	bool merged = rows->job->options->merge, device = process->device >= 0;
	const char *name = process->name ? process->name : device ? "device" : "process";
	char rank[160] = "", what[40] = "CPU";
	uint64_t sort = device ? SORT_OF_DEVICES + (uint64_t)process->device : process->pid;
	int error;

	if (merged && group->rank >= 0)
		snprintf(rank, sizeof(rank), "rank %" PRId64 "%s%s, ", group->rank,
			 *group->host ? " on " : "", group->host);
	/* By rank, and within a rank processes before devices. */
	if (merged)
		sort = (uint64_t)process->group * 2 * SORT_OF_DEVICES +
		       (device ? sort : sort % SORT_OF_DEVICES);
	if (device)
		snprintf(what, sizeof(what), "GPU %" PRId64, process->device);
	error = write_meta(writing, "process_name", process->pid, 0, process->ts_ns, "name",
			   "\"%s\"", name);
	if (!error)
		error = write_meta(writing, "process_labels", process->pid, 0, process->ts_ns,
				   "labels", "\"%s%s\"", rank, what);
	return error ? error
		     : write_meta(writing, "process_sort_index", process->pid, 0, process->ts_ns,
				  "sort_index", "%" PRIu64, sort);
}

static int write_lane(const struct writing *writing, const struct chrome_process *process,
		      const struct chrome_thread *thread, uint32_t lane)
{
	uint64_t tid = thread->tid + (uint64_t)lane * EXPORT_LANE;
	int64_t ts_ns = thread->ts_ns == INT64_MIN ? process->ts_ns : thread->ts_ns;
	bool stream = process->device >= 0;
	char number[40], suffix[32] = "";
	int error = 0;

	snprintf(number, sizeof(number), "%s %" PRIu64, stream ? "stream" : "thread", thread->tid);
	if (lane)
		snprintf(suffix, sizeof(suffix), " (lane %u)", lane + 1);
	if (stream || thread->name || lane)
		error = write_meta(writing, "thread_name", process->pid, tid, ts_ns, "name",
				   "\"%s%s\"", stream || !thread->name ? number : thread->name,
				   suffix);
	return error ? error
		     : write_meta(writing, "thread_sort_index", process->pid, tid, ts_ns,
				  "sort_index", "%" PRIu64, thread->tid % EXPORT_LANE);
}

/* Indices of an array, sorted by what they show. */
static int by_pid(const void *a, const void *b, void *rows)
{
	const struct chrome_process *process = ((const struct chrome_rows *)rows)->process;
	uint64_t x = process[*(const uint32_t *)a].pid, y = process[*(const uint32_t *)b].pid;

	return PFW_ORDER(x, y);
}

static int by_tid(const void *a, const void *b, void *rows)
{
	const struct chrome_thread *thread = ((const struct chrome_rows *)rows)->thread;
	const struct chrome_thread *x = &thread[*(const uint32_t *)a];
	const struct chrome_thread *y = &thread[*(const uint32_t *)b];

	/* The lanes of a thread follow it, also if an import has made them threads. */
	return by_pid(&x->process, &y->process, rows) ?:
	       PFW_ORDER(x->tid % EXPORT_LANE, y->tid % EXPORT_LANE) ?:
	       PFW_ORDER(x->tid, y->tid);
}

static uint32_t *in_order(const struct chrome_rows *rows, size_t count,
			  int (*order)(const void *, const void *, void *))
{
	uint32_t *number = malloc((count + 1) * sizeof(*number));

	for (uint32_t i = 0; number && i < count; i++)
		number[i] = i;
	if (number)
		qsort_r(number, count, sizeof(*number), order, (void *)rows);
	return number;
}

/* A device has the name of its rank's first process. */
static void name_devices(struct chrome_rows *rows)
{
	for (size_t i = 0; i < rows->process_count; i++) {
		struct chrome_process *device = &rows->process[i];

		for (size_t j = 0; j < rows->process_count && device->device >= 0 && !device->name;
		     j++) {
			const struct chrome_process *process = &rows->process[j];

			if (process->device < 0 && process->group == device->group &&
			    process->pid == rows->groups[device->group].pid) {
				device->name = process->name;
				device->ts_ns = process->ts_ns;
			}
		}
	}
}

int chrome_rows_write(struct chrome_rows *rows, int64_t base_ns, bool *first)
{
	struct writing writing = { rows->job->sink, base_ns, first };
	uint32_t *process = in_order(rows, rows->process_count, by_pid);
	uint32_t *number = in_order(rows, rows->thread_count, by_tid);
	int error = process && number ? 0 : -ENOMEM;

	name_devices(rows);
	for (size_t i = 0; i < rows->process_count && !error; i++)
		error = write_process(&writing, rows, &rows->process[process[i]]);
	for (size_t i = 0; i < rows->thread_count && !error; i++) {
		const struct chrome_thread *thread = &rows->thread[number[i]];

		for (uint32_t lane = 0;
		     !error && lane < (thread->track.lanes ? thread->track.lanes : 1); lane++)
			error = write_lane(&writing, &rows->process[thread->process], thread, lane);
	}
	free(process);
	free(number);
	return error;
}
