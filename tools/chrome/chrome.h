/* tools/chrome/chrome.h - the parts of `pfw export --format chrome`.
 *
 * Room tools/chrome: timelines in Kineto's form, and the placing of events on rows that
 * tools/perfetto uses, too.  It may use tools/export and the rooms before it.  Start with chrome.c.
 */
#pragma once

#include "export/export.h"
#include "export/kineto.h"
#include "store/kit/arena.h"
#include "store/kit/pair_ids.h"

/* ---- processes, devices, threads, streams (rows.c) ---- */

/* A group of rows: a process, or a device of a rank. */
struct chrome_process {
	uint64_t pid;	  /* the exported pid */
	size_t group;	  /* group of files: a rank on a host */
	int64_t device;	  /* -1: a process */
	uint32_t number;  /* for flow ids: each process has its own */
	const char *name; /* JSON text without its quotes, or NULL */
	int64_t ts_ns;
};

/* Viewers drop or misdraw spans of one row that overlap without nesting, so such spans go to
 * different lanes of the row. */
#define CHROME_LANES 1024u /* further concurrent spans share the last lane */

struct chrome_lane {
	int64_t *end_ns; /* of the open spans, the innermost last */
	size_t depth, room;
};

/* All zero: empty. */
struct chrome_track {
	struct chrome_lane *lane;
	uint32_t lanes;
};

/* A row: a thread, or a stream of a device. */
struct chrome_thread {
	uint32_t process;
	uint64_t tid; /* the exported tid of its first lane */
	const char *name;
	int64_t ts_ns;
	struct chrome_track track;
};

struct chrome_rows {
	const struct export_job *job;
	size_t *group; /* by number of file */
	struct chrome_group {
		int64_t rank;
		const char *host;
		uint64_t pid, process; /* of its first process */
	} * groups;
	size_t group_count;
	struct pfw_pair_ids process_numbers, thread_numbers;
	struct chrome_process *process;
	size_t process_count, process_room;
	struct chrome_thread *thread;
	size_t thread_count, thread_room;
	struct pfw_arena names;
};

int chrome_rows_init(struct chrome_rows *rows, const struct export_job *job);
void chrome_rows_free(struct chrome_rows *rows);

/* Take the first line of all: its process is the main one if no file's head names one. */
void chrome_rows_first(struct chrome_rows *rows, size_t file, const struct pfw_entry *entry);

/* The process of a line or, with `device` >= 0, that device of its rank; its thread with that tid.
 * Indices of rows->process and rows->thread, or -ENOMEM. */
int64_t chrome_process(struct chrome_rows *rows, size_t file, const struct pfw_entry *entry,
		       int64_t device);
int64_t chrome_thread(struct chrome_rows *rows, uint32_t process, uint64_t tid);

/* The first process of a group. */
int64_t chrome_first_process(struct chrome_rows *rows, size_t group);

/* Whether the pid is not the first process's of its rank. */
bool chrome_is_other(const struct chrome_rows *rows, size_t file, uint64_t pid);

/* Take a line that is no event: a name, `end`, `imported`. 0 or -ENOMEM. */
int chrome_rows_meta(struct chrome_rows *rows, size_t file, const struct pfw_entry *entry,
		     bool *taken);

/* Write the names of all rows, and their order.  0 or -errno. */
int chrome_rows_write(struct chrome_rows *rows, int64_t base_ns, bool *first);

/* ---- kind and place of a line (place.c) ---- */

/* The args of a compute event that are interpreted, not copied. */
struct chrome_work {
	enum pfw_kineto_kind kind;
	bool has_correlation, has_stream, has_sequence;
	uint64_t correlation, stream, context, sequence, fwd_tid, host_pid;
	int64_t device, device_index;
	uint64_t static_smem, dynamic_smem;
	bool smem;
};

#define CHROME_NO_WORK             \
	{                          \
		.device_index = -1 \
	}

struct chrome_place {
	uint32_t process, thread, lane;
	uint64_t pid, tid;
};

void chrome_work_read(struct chrome_work *work, const struct export_args *args);

/* Whether an event is an instant, not a span. */
bool chrome_is_instant(const struct pfw_entry *entry, const struct chrome_work *work);

/* Which end of a launch arrow the event is. */
enum chrome_launch { CHROME_NO_LAUNCH, CHROME_LAUNCHES, CHROME_LAUNCHED };
enum chrome_launch chrome_launch(const struct pfw_entry *entry, const struct chrome_work *work);

/* Whether the event is a forward or backward operator with a sequence number. */
enum chrome_pass { CHROME_NO_PASS, CHROME_FORWARD, CHROME_BACKWARD };
enum chrome_pass chrome_pass(const struct pfw_entry *entry, const struct chrome_work *work);

/* Find the row and the lane of an event. 0 or -ENOMEM. */
int chrome_place_find(struct chrome_place *place, struct chrome_rows *rows, size_t file,
		      const struct pfw_entry *entry, const struct chrome_work *work);

/* ---- arrows (place.c) ---- */

struct chrome_end {
	uint64_t pid, tid;
	int64_t ts_ns;
};

/* An event that arrows begin at; it waits for those that they end at, so that none has one end. */
struct chrome_begin {
	struct chrome_end at;
	bool taken; /* by an end */
};

struct chrome_flows {
	struct chrome_flows_half {
		struct pfw_pair_ids numbers; /* of processes and the numbers of their arrows */
		struct chrome_begin *begin;
		size_t room;
	} newer, older;
	uint64_t next; /* id */
};

/* Add a begin, the last of its number. 0 or -ENOMEM. */
int chrome_flows_begin(struct chrome_flows *flows, uint32_t process, uint64_t number,
		       const struct chrome_end *at);

/* Find a begin, or NULL; good until the next chrome_flows_begin(). */
struct chrome_begin *chrome_flows_find(struct chrome_flows *flows, uint32_t process,
				       uint64_t number);
void chrome_flows_free(struct chrome_flows *flows);
