/* chrome_rows.c - who is shown where on a timeline: processes, devices, threads, streams; see
 * export_chrome.h. */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "export_chrome.h"
#include "store/emit.h"
#include "store/more.h"

/* No Linux pid is that large: devices of several ranks, and processes whose pid is another's. */
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
		(struct chrome_group){ .rank = head->rank, .host = head->host, .pid = head->pid };
	return rows->group_count++;
}

int chrome_rows_init(struct chrome_rows *rows, const struct export_job *job)
{
	*rows = (struct chrome_rows){ .job = job };
	rows->group = calloc(job->traces->count + 1, sizeof(*rows->group));
	rows->groups = calloc(job->count + 1, sizeof(*rows->groups));
	if (!rows->group || !rows->groups)
		return -ENOMEM;
	for (size_t i = 0; i < job->count; i++)
		rows->group[job->file[i]] = find_group(rows, &job->traces->file[job->file[i]].head);
	return 0;
}

void chrome_rows_free(struct chrome_rows *rows)
{
	for (size_t i = 0; i < rows->thread_count; i++)
		pfw_track_free(&rows->thread[i].track);
	free(rows->thread);
	free(rows->process);
	free(rows->group);
	free(rows->groups);
	pfw_numbers_release(&rows->process_numbers);
	pfw_numbers_release(&rows->thread_numbers);
	pfw_arena_release(&rows->names);
}

/* ---- processes and threads ---- */

static bool is_taken(const struct chrome_rows *rows, uint64_t pid)
{
	for (size_t i = 0; i < rows->process_count; i++) {
		if (rows->process[i].pid == pid)
			return true;
	}
	return false;
}

/* A device is shown by its number, as Kineto does, where no process has that pid. */
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
	if (!is_taken(rows, pid))
		return pid;
	for (pid = OTHER_PIDS; is_taken(rows, pid);)
		pid++;
	return pid;
}

int64_t chrome_process(struct chrome_rows *rows, size_t file, uint64_t pid, int64_t device)
{
	size_t group = rows->group[file];
	uint64_t who = (uint64_t)group << 1 | (device >= 0);
	int64_t number =
		pfw_numbers_of(&rows->process_numbers, who, device >= 0 ? (uint64_t)device : pid);
	struct chrome_process *more;

	if (number < (int64_t)rows->process_count)
		return number;
	more = pfw_more(rows->process, rows->process_count, &rows->process_room, sizeof(*more));
	if (!more)
		return -ENOMEM;
	rows->process = more;
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

int64_t chrome_thread(struct chrome_rows *rows, uint32_t process, uint64_t tid)
{
	int64_t number = pfw_numbers_of(&rows->thread_numbers, process, tid);
	struct chrome_thread *more;

	if (number < (int64_t)rows->thread_count)
		return number;
	more = pfw_more(rows->thread, rows->thread_count, &rows->thread_room, sizeof(*more));
	if (!more)
		return -ENOMEM;
	rows->thread = more;
	rows->thread[rows->thread_count++] =
		(struct chrome_thread){ .process = process, .tid = tid, .ts_ns = INT64_MIN };
	return number;
}

void chrome_rows_first(struct chrome_rows *rows, size_t file, uint64_t pid)
{
	struct chrome_group *group = &rows->groups[rows->group[file]];

	if (!group->pid)
		group->pid = pid;
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
	int64_t of = chrome_process(rows, file, entry->pid, -1), thread = 0;
	struct pfw_value value;
	const char *name;

	if (of < 0)
		return (int)of;
	if (!pfw_entry_arg(entry, key, &value) || value.type != PFW_VALUE_STRING)
		return 0;
	/* Streams have lanes of their own in our traces; there they are rows of a device. */
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

/* One metadata event; `value` is JSON. */
static int write_meta(const struct writing *writing, const char *name, uint64_t pid, uint64_t tid,
		      int64_t ts_ns, const char *key, const char *value)
{
	char *at = export_sink_room(writing->sink, 256 + strlen(value));

	if (!at)
		return -ENOMEM;
	at = pfw_emit(at, *writing->first ? "{\"ph\":\"M\",\"name\":\""
					  : ",\n{\"ph\":\"M\",\"name\":\"");
	at = pfw_emit_bytes(at, name, strlen(name));
	at = pfw_emit(at, "\",\"ts\":");
	at = pfw_emit_us(at, ts_ns == INT64_MIN ? 0 : ts_ns - writing->base_ns);
	at = pfw_emit(at, ",\"pid\":");
	at = pfw_emit_u64(at, pid);
	at = pfw_emit(at, ",\"tid\":");
	at = pfw_emit_u64(at, tid);
	at = pfw_emit(at, ",\"args\":{\"");
	at = pfw_emit_bytes(at, key, strlen(key));
	at = pfw_emit(at, "\":");
	at = pfw_emit_bytes(at, value, strlen(value));
	at = pfw_emit(at, "}}");
	*writing->first = false;
	return export_sink_used(writing->sink, at);
}

static int write_process(const struct writing *writing, const struct chrome_rows *rows,
			 const struct chrome_process *process)
{
	const struct chrome_group *group = &rows->groups[process->group];
	bool merged = rows->job->options->merge, device = process->device >= 0;
	const char *name = process->name ? process->name : device ? "device" : "process";
	size_t size = strlen(name) + 256;
	char *text = malloc(size), rank[160] = "", what[40] = "CPU";
	uint64_t sort = device ? SORT_OF_DEVICES + (uint64_t)process->device : process->pid;
	int error;

	if (!text)
		return -ENOMEM;
	if (merged && group->rank >= 0)
		snprintf(rank, sizeof(rank), "rank %" PRId64 "%s%s, ", group->rank,
			 *group->host ? " on " : "", group->host);
	/* By rank; of each, processes before devices. */
	if (merged)
		sort = (uint64_t)process->group * 2 * SORT_OF_DEVICES +
		       (device ? sort : sort % SORT_OF_DEVICES);
	if (device)
		snprintf(what, sizeof(what), "GPU %" PRId64, process->device);
	snprintf(text, size, "\"%s\"", name);
	error = write_meta(writing, "process_name", process->pid, 0, process->ts_ns, "name", text);
	snprintf(text, size, "\"%s%s\"", rank, what);
	if (!error)
		error = write_meta(writing, "process_labels", process->pid, 0, process->ts_ns,
				   "labels", text);
	snprintf(text, size, "%" PRIu64, sort);
	if (!error)
		error = write_meta(writing, "process_sort_index", process->pid, 0, process->ts_ns,
				   "sort_index", text);
	free(text);
	return error;
}

static int write_lane(const struct writing *writing, const struct chrome_process *process,
		      const struct chrome_thread *thread, uint32_t lane)
{
	uint64_t tid = thread->tid + (uint64_t)lane * EXPORT_LANE;
	int64_t ts_ns = thread->ts_ns == INT64_MIN ? process->ts_ns : thread->ts_ns;
	const char *name = thread->name ? thread->name : "";
	size_t size = strlen(name) + 96;
	char *text = malloc(size);
	int error = 0, used;

	if (!text)
		return -ENOMEM;
	if (process->device >= 0)
		used = snprintf(text, size, "\"stream %" PRIu64, thread->tid);
	else if (thread->name)
		used = snprintf(text, size, "\"%s", name);
	else
		used = snprintf(text, size, "\"thread %" PRIu64, thread->tid);
	if (lane)
		snprintf(text + used, size - (size_t)used, " (lane %u)\"", lane + 1);
	else
		snprintf(text + used, size - (size_t)used, "\"");
	if (process->device >= 0 || thread->name || lane)
		error = write_meta(writing, "thread_name", process->pid, tid, ts_ns, "name", text);
	snprintf(text, size, "%" PRIu64, thread->tid % EXPORT_LANE);
	if (!error)
		error = write_meta(writing, "thread_sort_index", process->pid, tid, ts_ns,
				   "sort_index", text);
	free(text);
	return error;
}

/* Numbers of an array's entries, in order of what is shown. */
static const struct chrome_rows *sorting;

static int by_pid(const void *a, const void *b)
{
	uint64_t x = sorting->process[*(const uint32_t *)a].pid;
	uint64_t y = sorting->process[*(const uint32_t *)b].pid;

	return (x > y) - (x < y);
}

static int by_tid(const void *a, const void *b)
{
	const struct chrome_thread *x = &sorting->thread[*(const uint32_t *)a];
	const struct chrome_thread *y = &sorting->thread[*(const uint32_t *)b];
	/* The lanes of a thread stand behind it, also where they are threads of a trace by now. */
	uint64_t one = x->tid % EXPORT_LANE, other = y->tid % EXPORT_LANE;
	int pids = by_pid(&x->process, &y->process);

	if (pids || one != other)
		return pids ? pids : (one > other) - (one < other);
	return (x->tid > y->tid) - (x->tid < y->tid);
}

static uint32_t *in_order(const struct chrome_rows *rows, size_t count,
			  int (*order)(const void *, const void *))
{
	uint32_t *number = malloc((count + 1) * sizeof(*number));

	for (uint32_t i = 0; number && i < count; i++)
		number[i] = i;
	sorting = rows;
	if (number)
		qsort(number, count, sizeof(*number), order);
	return number;
}

/* A device bears the name of its rank's first process. */
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
