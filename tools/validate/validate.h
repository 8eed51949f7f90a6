/* tools/validate/validate.h - the parts of `pfw validate`.
 *
 * Room tools/validate: checks of traces, compacted files, indexes and manifests.  It may use
 * tools/ui, tools/share and the store.  Start with validate.c, then line.c (checks) and print.c
 * (output).
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "store/line/entry.h"
#include "store/read/blocks.h"
#include "store/read/scan.h"
#include "store/recover/recover.h"
#include "store/recover/unwritten.h"

/* ---- checks of the lines of many processes in one compacted file (merged.c) ---- */

/* The tracer's own lines of a process: the last ones count, because they have the sums so far. */
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

/* Whether the file is compacted; then merged_release() is due.  False also if it is unreadable. */
bool merged_open(struct merged *merged, const char *path);
void merged_release(struct merged *merged);

/* Take a line without its '\n'; `entry` is its event or NULL.  Return its problem or NULL. */
const char *merged_line(struct merged *merged, const char *line, size_t bytes,
			const struct pfw_entry *entry);

/* After the last line: the problem of process `number` or, if `number` is merged->count, of the
 * whole file; NULL: none.  The result may be in `text`. */
const char *merged_problem(struct merged *merged, size_t number, char *text, size_t size);

struct cli_command;

#define VALIDATE_SHOWN 10 /* problems printed per file; one broken writer makes as many as lines */
/* With more files, text shows a line only for files with problems. */
#define VALIDATE_FILES 16
#define VALIDATE_REASONS 16
#define VALIDATE_NO_PLACE UINT64_MAX

/* The total of one `lost` reason: the last line of a reason counts. */
struct validate_lost {
	char name[32];
	uint64_t count;
};

/* Totals of one file or of all. */
struct validate_tally {
	uint64_t files, lines, events, lost, problems;
	struct merged_said said;
	uint64_t aggregates; /* calls that DFTracer has summed, which no command counts */
	uint64_t running;    /* files whose processes still run */
};

struct validate {
	const struct cli_command *command;
	int format;
	bool quiet;
	bool every; /* a line of each file, however many there are */
	bool few;   /* only of files with problems */
	uint64_t unshown;
	bool colours;
	int status;
	struct validate_tally all;
	unsigned manifests;
	/* Listed after the search for files, to have the spool of each file still being written. */
	struct pfw_spool_listings spools;
	/* The current file. */
	struct pfw_scan scan;
	const char *name; /* as printed */
	struct validate_tally file;
	struct validate_lost reason[VALIDATE_REASONS];
	size_t reason_count;
	uint64_t first_id, last_id;
	/* Of the `process` line of a file of one process. */
	uint64_t pid;
	int64_t start_ns;
	bool began;
	bool stepped; /* the clock was set, or the times are another program's */
	uint64_t early,
		early_at; /* calls long before the process began, and the first one's line */
	bool any_id;
	struct pfw_unwritten *live;	   /* unwritten lines of its process; NULL = none */
	char live_why[PFW_LIVE_WHY_BYTES]; /* why they cannot be read; "" = there are none */
	bool is_merged;			   /* compacted: lines of many processes in order of ts */
	struct merged merged;
	bool ended; /* the last line was an `end` */
	uint64_t end_events, end_lost;
};

/* ---- validate.c; thread: main, as for all functions here ---- */

/* Count a problem of the current line or file, and print it unless VALIDATE_SHOWN were printed. */
__attribute__((format(printf, 2, 3))) void validate_say_line(struct validate *check,
							     const char *format, ...);
__attribute__((format(printf, 2, 3))) void validate_say_file(struct validate *check,
							     const char *format, ...);

/* The same, at a byte of the file. */
void validate_say_place(struct validate *check, uint64_t at, const char *text);

/* ---- line.c ---- */

/* Check the current line. */
void validate_line(struct validate *check);

/* Check the file after its last line. */
void validate_end(struct validate *check);

/* ---- members.c ---- */

/* Compare the header of each gzip member with its lines. */
void validate_members(struct validate *check, const char *path);
