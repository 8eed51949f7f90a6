/* tools/validate/merged.h - checks of the lines of many processes in one compacted file. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "store/line/entry.h"
#include "store/read/blocks.h"

/* What a process says of itself besides events: its last lines count, which have the sums so far. */
struct merged_said {
	uint64_t waited, waited_us;
	/* operations that bypassed libc, or came too early, and are not in the trace */
	uint64_t uring_operations, aio_contexts, early_calls;
	uint64_t gpu_us; /* the longest before a kill, whose GPU work is not in the trace */
};

/* Take a line of the tracer's own. */
void merged_said_take(struct merged_said *said, const struct pfw_entry *entry);
/* Add what another process or file says. */
void merged_said_add(struct merged_said *sum, const struct merged_said *one);

/* All lines of one pid. */
struct merged_process {
	uint64_t pid;
	struct merged_said said;
	uint64_t begun; /* number of `process` lines; a pid may be used again */
	uint64_t events, end_id, end_events, end_lost;
	bool ended;
};

struct merged {
	struct pfw_marks marks;
	struct merged_process *process; /* sorted by pid */
	size_t count, room;
	size_t last; /* index found last */
	uint64_t lines, checksum;
	int64_t ts_ns;
	bool any_begun; /* some process has a `process` line */
	bool in_front;	/* so far all lines are `process` lines */
	uint64_t lost;	/* set by merged_problem() */
};

/* Whether the file is compacted; then merged_release() is due.  False also if the file cannot be
 * read. */
bool merged_open(struct merged *merged, const char *path);
void merged_release(struct merged *merged);

/* Take a line without its '\n'; `entry` is the parsed event, else NULL.  Return its problem or
 * NULL. */
const char *merged_line(struct merged *merged, const char *line, size_t bytes,
			const struct pfw_entry *entry);

/* After the last line: the problem of process `number` or, if `number` is merged->count, of the
 * whole file; NULL: none.  The result may be in `text`. */
const char *merged_problem(struct merged *merged, size_t number, char *text, size_t size);
