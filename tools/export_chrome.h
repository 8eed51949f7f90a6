/* export_chrome.h - `pfw export --format chrome`: the half that its parts share. */
#ifndef PFW_EXPORT_CHROME_H
#define PFW_EXPORT_CHROME_H

#include "export.h"
#include "store/arena.h"
#include "store/kineto.h"
#include "store/numbers.h"
#include "store/track.h"

/* ---- who is shown where (chrome_rows.c) ---- */

/* A row group: a process, or a device of a rank. */
struct chrome_process {
	uint64_t pid;	  /* as shown */
	size_t group;	  /* of files: a rank on a host */
	int64_t device;	  /* -1: a process */
	uint32_t number;  /* of flows: each process has its own */
	const char *name; /* JSON text without its quotes, or NULL */
	int64_t ts_ns;
};

/* A row: a thread, or a stream of a device. */
struct chrome_thread {
	uint32_t process;
	uint64_t tid; /* as shown, of its first lane */
	const char *name;
	int64_t ts_ns;
	struct pfw_track track;
};

struct chrome_rows {
	const struct export_job *job;
	size_t *group; /* of each file of the traces */
	struct chrome_group {
		int64_t rank;
		const char *host;
		uint64_t pid; /* of its first process */
	} * groups;
	size_t group_count;
	struct pfw_numbers process_numbers, thread_numbers;
	struct chrome_process *process;
	size_t process_count, process_room;
	struct chrome_thread *thread;
	size_t thread_count, thread_room;
	struct pfw_arena names;
};

int chrome_rows_init(struct chrome_rows *rows, const struct export_job *job);
void chrome_rows_free(struct chrome_rows *rows);

/* The first line of all: its process is the main one where no head of a file names one. */
void chrome_rows_first(struct chrome_rows *rows, size_t file, uint64_t pid);

/* The process of a line, or with `device` >= 0 that device of its rank; its thread of that tid.
 * Numbers of rows->process, rows->thread, or -ENOMEM. */
int64_t chrome_process(struct chrome_rows *rows, size_t file, uint64_t pid, int64_t device);
int64_t chrome_thread(struct chrome_rows *rows, uint32_t process, uint64_t tid);

/* Whether the pid is not that of its rank's first process. */
bool chrome_is_other(const struct chrome_rows *rows, size_t file, uint64_t pid);

/* Take a line that is no event of the timeline: names, `end`, `imported`.  0 or -ENOMEM. */
int chrome_rows_meta(struct chrome_rows *rows, size_t file, const struct pfw_entry *entry,
		     bool *taken);

/* Write the names of all rows, and their order.  0 or -errno. */
int chrome_rows_write(struct chrome_rows *rows, int64_t base_ns, bool *first);

/* ---- what a line is, and where it is shown (chrome_place.c) ---- */

/* What args say of a compute event besides what is copied. */
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

/* Whether it is a moment, not a stretch of time. */
bool chrome_is_instant(const struct pfw_entry *entry, const struct chrome_work *work);

/* Which end of an arrow from a call to the work that it launches. */
enum chrome_launch { CHROME_NO_LAUNCH, CHROME_LAUNCHES, CHROME_LAUNCHED };
enum chrome_launch chrome_launch(const struct pfw_entry *entry, const struct chrome_work *work);

/* Whether it is a forward or a backward operator, with a sequence number. */
enum chrome_pass { CHROME_NO_PASS, CHROME_FORWARD, CHROME_BACKWARD };
enum chrome_pass chrome_pass(const struct pfw_entry *entry, const struct chrome_work *work);

/* On which row, and on which lane of it.  0 or -ENOMEM. */
int chrome_place_find(struct chrome_place *place, struct chrome_rows *rows, size_t file,
		      const struct pfw_entry *entry, const struct chrome_work *work);

/* ---- arrows from forward to backward operators (chrome_flows.c) ---- */

struct chrome_end {
	uint64_t pid, tid;
	int64_t ts_ns;
};

struct chrome_flows {
	struct chrome_flow {
		uint64_t process, sequence; /* process + 1; 0: free */
		struct chrome_end forward;
	} * flow;
	size_t room; /* a power of two */
	size_t count;
	uint64_t next; /* id */
};

/* A forward operator.  0 or -ENOMEM. */
int chrome_flows_forward(struct chrome_flows *flows, uint32_t process, uint64_t sequence,
			 const struct chrome_end *at);

/* A backward one: whether it is the first of that sequence number; then *forward is where the last
 * forward one was. */
bool chrome_flows_backward(struct chrome_flows *flows, uint32_t process, uint64_t sequence,
			   struct chrome_end *forward);
void chrome_flows_free(struct chrome_flows *flows);

#endif
