/* common/encode/own_lines.h - the tracer's own lines (cat "pfw"), one function for each.
 *
 * The writer and recovery share this code, so a recovered trace has the same lines as a complete
 * one.  Each function appends one line with its '\n', at most PFW_JSON_LINE_MAX bytes, counts it
 * through pfw_json_end() and returns its end.  `ts_ns` is in ns since the epoch: the writer passes
 * the current time, recovery the last time known in the trace.  No malloc, no stdio, no locale.
 * Thread: drain, all of them.  Signal: safe.  Strings need not be UTF-8; fixed-size members of the
 * header need not be NUL-terminated.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "common/encode/encode.h"
#include "common/format/source.h"
#include "common/format/spool.h"

/* Of the lines of a trace, in its first one.  docs/format.rst describes each, and
 * trace.schema.json. */
#define PFW_TRACE_FORMAT 1

/* `process`, the first line of a file, at header->start_ns.  `spool`: path of the spool, or NULL if
 * it is on the heap. */
char *pfw_line_process(struct pfw_json *json, char *out, const struct pfw_spool_header *header,
		       const char *spool, uint64_t tid);

/* `thread_name`, before a thread's first event.  comm: NUL-terminated within 16 bytes, or 16. */
char *pfw_line_thread_name(struct pfw_json *json, char *out, uint64_t tid, const char comm[16],
			   uint64_t ts_ns);

/* `rank`, if the rank became known after the first line was written. */
char *pfw_line_rank(struct pfw_json *json, char *out, const struct pfw_spool_header *header,
		    uint64_t ts_ns);

/* `lost`: reason is an enum pfw_lost_reason.  The count is the total since the process began: of
 * several lines with one reason the last one counts, so that a line repeated after a crash is not a
 * second loss. */
char *pfw_line_lost(struct pfw_json *json, char *out, unsigned reason, const struct pfw_loss *loss,
		    uint64_t ts_ns);

/* Totals as in `lost`; nothing is appended if all are 0.
 * `waited`: how often threads waited for room, and the time in µs.
 * `excluded`, `unrecorded`: a key for each reason or kind with a count other than 0.
 * `stacks_lost`: calls that were to have their stacks, by why they have none.
 * `sums_full`: short calls that became lines because the table of sums was full. */
char *pfw_line_waited(struct pfw_json *json, char *out, const struct pfw_loss *waited,
		      uint64_t ts_ns);
char *pfw_line_excluded(struct pfw_json *json, char *out,
			const _Atomic uint64_t excluded[PFW_EXCLUDED_REASONS], uint64_t ts_ns);
char *pfw_line_unrecorded(struct pfw_json *json, char *out,
			  const _Atomic uint64_t unrecorded[PFW_UNRECORDED_KINDS], uint64_t ts_ns);
char *pfw_line_stacks_lost(struct pfw_json *json, char *out,
			   const _Atomic uint64_t lost[PFW_STACKS_LOST_REASONS], uint64_t ts_ns);
char *pfw_line_sums_full(struct pfw_json *json, char *out, uint64_t count, uint64_t ts_ns);

/* `mapping`: the file `name` (a string of the spool) is still mapped, `size` bytes of it.  touched:
 * as PFW_TYPE_SOME. */
char *pfw_line_mapping(struct pfw_json *json, char *out, uint32_t name, uint64_t size,
		       uint64_t touched, uint64_t ts_ns);

/* The figures of a source (common/format/source.h): a line with its name, a key for each figure;
 * none if count is 0. */
char *pfw_line_figures(struct pfw_json *json, char *out, const char *name,
		       const struct pfw_source_figure *figure, unsigned count, uint64_t ts_ns);

/* `clock_step`: CLOCK_REALTIME jumped from one time to another.  Its ts is to_ns. */
char *pfw_line_clock_step(struct pfw_json *json, char *out, uint64_t from_ns, uint64_t to_ns);

/* `segment` (ph i): a finished cycle of the schedule, from line first_id to the previous line, with
 * `steps` active steps from first_step on. */
char *pfw_line_segment(struct pfw_json *json, char *out, uint64_t cycle, uint64_t first_step,
		       uint64_t steps, uint64_t first_id, uint64_t ts_ns);

/* `dump`: why a flight recorder wrote this file; it has every event that ended since from_ns, and
 * `overwritten` older ones are gone since the dump before. */
#define PFW_DUMP_WHY_MAX 200
struct pfw_dump_facts {
	const char *why;
	uint64_t number;
	uint64_t from_ns;
	uint64_t overwritten;
	uint64_t refused; /* conditions that found a dump under way, or no further one allowed */
};
char *pfw_line_dump(struct pfw_json *json, char *out, const struct pfw_dump_facts *facts,
		    uint64_t ts_ns);

/* `end`: events = json->events, lost = the sum of header->lost, reason = "exit", "exec", "renamed",
 * "limit", "seccomp", "dump" or "recovered"; `exec` = exec_path unless it is NULL. */
char *pfw_line_end(struct pfw_json *json, char *out, const struct pfw_spool_header *header,
		   const char *reason, const char *exec_path, uint64_t ts_ns);

/* Count the events left to torch.profiler (header->profiled) as lost. */
void pfw_spool_profiled_lost(struct pfw_spool_header *header);

/* The sum of header->lost. */
uint64_t pfw_spool_lost(const struct pfw_spool_header *header);

/* ---- the sums of short calls in the spool, as `summed` lines ----
 *
 * recorder/spool/short_sums.h fills the entries; recovery reads those of a dead process.
 */

/* The part of an entry that the trace does not have. */
struct pfw_sum_news {
	uint16_t call;
	uint32_t name;
	uint64_t count, failed, ticks, bytes;
};

/* The difference between `sum` and `known`, without call and name.  False: there is none, or the
 * entry changes too fast to read.  Thread: any. */
bool pfw_summed_since(const struct pfw_sum *sum, const struct pfw_sum_figures *known,
		      struct pfw_sum_news *news);

/* The difference between an entry of a dead process and its last slot, which has this parity.
 * False: there is none, or the entry is damaged.  Thread: any. */
bool pfw_summed_left(const struct pfw_sum *sum, unsigned parity, struct pfw_sum_news *news);

/* Append the `summed` line: the calls since the previous one of this name and fname, which readers
 * add up.  Thread: drain. */
char *pfw_summed_line(struct pfw_json *json, char *out, const struct pfw_sum_news *news,
		      uint64_t ts_ns);
