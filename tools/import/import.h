/* tools/import/import.h - the parts of `pfw import`.
 *
 * Room tools/import: chrome traces (PyTorch's, Perfetto's) to lines of ours.  It may use
 * tools/export (Kineto's names, the sink) and the rooms before it.  Start with import.c, then
 * event.c.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "export/export.h"
#include "export/kineto.h"
#include "store/kit/arena.h"
#include "store/kit/pair_ids.h"
#include "store/sys/spill.h"

/* ---- the JSON of a chrome trace, value by value (read.c) ---- */

struct import_reader; /* opaque */

enum import_item {
	IMPORT_END,
	IMPORT_MEMBER, /* a member of the outer object: its key and value */
	IMPORT_EVENT,  /* an element of traceEvents */
	IMPORT_BROKEN, /* the rest cannot be read; `why` says why */
};

struct import_value {
	struct pfw_slice key;  /* MEMBER: the key without its quotes */
	struct pfw_slice text; /* the value without white space between tokens; not validated */
	uint64_t at;	       /* offset of the value in the text */
	const char *why;       /* BROKEN: a constant, or the file's problem */
};

/* Open the file. 0, or as pfw_input_open().  Thread: one at a time per reader. */
int import_reader_open(struct import_reader **out, const char *path);
void import_reader_close(struct import_reader *reader);

/* The next item, valid until the next call. */
enum import_item import_reader_next(struct import_reader *reader, struct import_value *value);

/* ---- memory of operators, as torch.profiler counts it (event.c) ---- */

struct import_memory {
	struct pfw_spill record; /* struct import_allocation each */
	struct pfw_spill_budget budget;
	size_t count;
};

struct import_allocation {
	int64_t ts_ns, bytes;
	/* Sums over all earlier records, once they are sorted. */
	int64_t cpu_before, device_before;
	/* spans that begin here minus spans that end before; settled: spans that cover this time */
	int64_t covered;
	bool on_device;
};

int import_memory_add(struct import_memory *memory, int64_t ts_ns, int64_t bytes, bool on_device);
int import_memory_sort(struct import_memory *memory);

/* After all sums: compute which allocations some span covers, and look one up. */
void import_memory_settle(struct import_memory *memory);
bool import_memory_used(const struct import_memory *memory, int64_t ts_ns);
void import_memory_free(struct import_memory *memory);

/* ---- facts of the whole trace (survey.c) ---- */

/* The name of a process or thread, as JSON text without quotes. */
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
	bool has_main_pid;	 /* the file names the main pid: an export of ours */
	bool has_memory;	 /* recorded with profile_memory */
	struct pfw_buffer extra; /* other members of the outer object: `"key":value,...` */
	struct import_name *name;
	size_t names, names_room;
	struct import_name *lane; /* second and further lanes of threads, by pid and tid */
	size_t lanes;
	struct import_memory memory;
	int64_t least_ns;
};

/* Add a member of the outer object; an event. 0 or -errno. */
int import_survey_member(struct import_trace *trace, const struct import_value *value);
int import_survey_event(struct import_trace *trace, const struct pfw_entry *entry);

/* Finish after the last event. 0 or -errno. */
int import_survey_end(struct import_trace *trace);
void import_trace_free(struct import_trace *trace);

/* ---- an event as a line of ours (event.c) ---- */

struct import_events {
	struct import_trace *trace;
	struct export_args args;
	struct pfw_pair_ids lanes; /* of devices whose name is written */
	uint64_t id;		   /* of the last line */
	uint64_t events;
	int64_t greatest_ns;
};

/* What becomes of an event. */
enum import_kind {
	IMPORT_SPAN,	/* ph X, i or C: becomes a line */
	IMPORT_DROPPED, /* recreated by export, or of use only to viewers */
	IMPORT_UNKNOWN, /* the trace format has no such ph */
};

/* The kind of an event; metadata that import_survey_event() used is DROPPED. */
enum import_kind import_event_kind(const struct import_trace *trace, const struct pfw_entry *entry);

/* Append the event's line, at most import_event_room() bytes.  Its end, or NULL without memory. */
size_t import_event_room(const struct pfw_entry *entry);
char *import_event_line(char *at, struct import_events *events, const struct pfw_entry *entry);

/* The lines before all events, and the last line. */
int import_head_lines(struct import_events *events, struct export_sink *sink);
int import_last_line(struct import_events *events, struct export_sink *sink);

/* The thread of a further lane, or the tid itself. */
uint64_t import_tid(const struct import_trace *trace, uint64_t pid, uint64_t tid);

/* An event's time since the epoch. */
static inline int64_t import_ts(const struct import_trace *trace, int64_t ts_ns)
{
	int64_t sum;

	if (__builtin_add_overflow(trace->base_ns, ts_ns, &sum))
		return ts_ns < 0 ? INT64_MIN : INT64_MAX;
	return sum;
}
