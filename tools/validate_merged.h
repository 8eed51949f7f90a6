/* validate_merged.h - what must be true of the lines of many processes in one compacted file. */
#ifndef PFW_VALIDATE_MERGED_H
#define PFW_VALIDATE_MERGED_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "store/entry.h"
#include "store/marks.h"

/* All lines of one pid. */
struct merged_process {
	uint64_t pid;
	uint64_t begun; /* `process` lines: pids are used again */
	uint64_t events, end_id, end_events, end_lost;
	bool ended;
};

struct merged {
	struct pfw_marks marks;
	struct merged_process *process; /* by pid */
	size_t count, room;
	size_t last; /* the one found last */
	uint64_t lines, checksum;
	int64_t ts_ns;
	bool in_front; /* only `process` lines so far */
	uint64_t lost; /* filled in by merged_problem() */
};

/* Whether the file is compacted; then merged_release() is due.  False also where it cannot be read. */
bool merged_open(struct merged *merged, const char *path);
void merged_release(struct merged *merged);

/* Take a line, without its '\n'; `entry` is it where it is an event, else NULL.  What is wrong with
 * it, or NULL. */
const char *merged_line(struct merged *merged, const char *line, size_t bytes,
			const struct pfw_entry *entry);

/* At the end: what is wrong with process number `number` of merged->count, or with that number with
 * the whole; NULL: nothing.  `text` may be where it stands. */
const char *merged_problem(struct merged *merged, size_t number, char *text, size_t size);

#endif
