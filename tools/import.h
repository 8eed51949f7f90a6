/* import.h - `pfw import`: the half that its parts share. */
#ifndef PFW_IMPORT_H
#define PFW_IMPORT_H

#include <stdbool.h>
#include <stdint.h>

#include "export.h"
#include "store/arena.h"
#include "store/kineto.h"
#include "store/numbers.h"
#include "store/spill.h"

/* ---- the JSON of a chrome trace, value by value (import_read.c) ---- */

struct import_reader; /* opaque */

enum import_item {
	IMPORT_END,
	IMPORT_MEMBER, /* of the outer object: its key and value */
	IMPORT_EVENT,  /* an element of traceEvents */
	IMPORT_BROKEN, /* nothing behind this place can be read: why */
};

struct import_value {
	struct pfw_slice key;  /* MEMBER: without its quotes */
	struct pfw_slice text; /* without space between its parts; not looked at further */
	uint64_t at;	       /* byte of the text where it begins */
	const char *why;       /* BROKEN: a constant, or what is wrong with the file */
};

/* Open the file.  0, or as pfw_input_open().  Thread: one at a time for one reader. */
int import_reader_open(struct import_reader **out, const char *path);
void import_reader_close(struct import_reader *reader);

/* The next one; good until the next call. */
enum import_item import_reader_next(struct import_reader *reader, struct import_value *value);

/* ---- memory of operators, as torch.profiler counts it (import_memory.c) ---- */

struct import_memory {
	struct pfw_spill record; /* struct import_allocation each */
	struct pfw_spill_budget budget;
	size_t count;
};

struct import_allocation {
	int64_t ts_ns, bytes;
	/* Of all before it, once they are in order. */
	int64_t cpu_before, device_before;
	int64_t covered; /* spans that begin here less those that end before; settled: that cover it */
	bool on_device;
};

int import_memory_add(struct import_memory *memory, int64_t ts_ns, int64_t bytes, bool on_device);
int import_memory_sort(struct import_memory *memory);

/* What was taken and given back from start to end, both included; it is used, then. */
void import_memory_sum(struct import_memory *memory, int64_t start_ns, int64_t end_ns, int64_t *cpu,
		       int64_t *device);

/* All sums were asked for: whether some span has the allocations of that time. */
void import_memory_settle(struct import_memory *memory);
bool import_memory_used(const struct import_memory *memory, int64_t ts_ns);
void import_memory_free(struct import_memory *memory);

/* ---- what the whole trace says (import_survey.c) ---- */

/* A process or a thread that has a name, as JSON text without its quotes. */
struct import_name {
	uint64_t pid, tid;
	int64_t ts_ns;
	const char *name;
	bool thread, device;
};

struct import_trace {
	int64_t base_ns;
	struct pfw_arena texts;
	const char *host, *run; /* JSON text without quotes */
	int64_t rank;		/* -1: none */
	uint64_t world_size, main_pid;
	bool has_main_pid; /* said: a trace of ours */
	bool has_memory;   /* profile_memory */
	bool pid_seen;
	struct pfw_text extra; /* other members of the outer object: `"key":value,…` */
	struct import_name *name;
	size_t names, names_room;
	struct import_name *lane; /* further lanes of threads, in order of pid and tid */
	size_t lanes;
	struct import_memory memory;
	int64_t least_ns;
};

/* Take a member of the outer object, an event.  0 or -errno. */
int import_survey_member(struct import_trace *trace, const struct import_value *value);
int import_survey_event(struct import_trace *trace, const struct pfw_entry *entry);

/* All was seen. */
int import_survey_end(struct import_trace *trace);
void import_trace_free(struct import_trace *trace);

/* ---- an event as a line of ours (import_event.c) ---- */

struct import_events {
	struct import_trace *trace;
	struct export_args args;
	struct pfw_numbers lanes; /* of devices that have been named */
	uint64_t id;		  /* of the last line */
	uint64_t events;
	int64_t greatest_ns;
};

/* What to do with an event of ph '?', which is none of ours. */
enum import_kind {
	IMPORT_SPAN,	/* X i C: a line */
	IMPORT_DROPPED, /* made anew from the lines on export, or for viewers only */
	IMPORT_UNKNOWN, /* of a ph that the trace format has nothing for */
};

/* What is to become of an event; metadata that import_survey_event() took is DROPPED. */
enum import_kind import_event_kind(const struct import_trace *trace, const struct pfw_entry *entry);

/* Append its line, at most import_event_room() bytes.  Return the end, or NULL: no memory. */
size_t import_event_room(const struct pfw_entry *entry);
char *import_event_line(char *at, struct import_events *events, const struct pfw_entry *entry);

/* The lines in front of all events, and the last one. */
int import_head_lines(struct import_events *events, struct export_sink *sink);
int import_last_line(struct import_events *events, struct export_sink *sink);

/* Of an event: a pid that is a text or below 0 is the main one's. */
uint64_t import_pid(const struct import_trace *trace, const struct pfw_entry *entry);

/* The thread whose further lane that is, or itself. */
uint64_t import_tid(const struct import_trace *trace, uint64_t pid, uint64_t tid);

/* Its time since the epoch. */
static inline int64_t import_ts(const struct import_trace *trace, int64_t ts_ns)
{
	int64_t sum;

	if (__builtin_add_overflow(trace->base_ns, ts_ns, &sum))
		return ts_ns < 0 ? INT64_MIN : INT64_MAX;
	return sum;
}

#endif
