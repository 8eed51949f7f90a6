/* lines.h - the tracer's own lines (cat "pfw"): one function a line of DESIGN section 3.
 *
 * The writer and recovery write them with the same code, so a recovered trace reads as one that
 * ended well.  Each function appends one whole line, '\n' included, at most PFW_JSON_LINE_MAX
 * bytes, and returns the end of what it wrote; it counts the line through pfw_json_end().
 * `ts_ns` is the line's time in ns since the epoch: the writer gives now, recovery the last moment
 * that the trace knows of.  No malloc, no stdio, no locale.
 * Thread: drain, all of them.  Signal: safe.  Strings need not be UTF-8; fixed-size members of the
 * header need not be NUL-terminated.
 */
#ifndef PFW_LINES_H
#define PFW_LINES_H

#include <stdint.h>

#include "json.h"
#include "source.h"
#include "spool.h"

/* `process`, the first line of every file.  `spool` is the spool's path, or NULL for none (heap).
 * Its ts is header->start_ns. */
char *pfw_line_process(struct pfw_json *json, char *out, const struct pfw_spool_header *header,
		       const char *spool, uint64_t tid);

/* `thread_name`, before a thread's first event.  comm: NUL-terminated within 16 bytes, or 16. */
char *pfw_line_thread_name(struct pfw_json *json, char *out, uint64_t tid, const char comm[16],
			   uint64_t ts_ns);

/* `rank`, when it became known after the first line was written. */
char *pfw_line_rank(struct pfw_json *json, char *out, const struct pfw_spool_header *header,
		    uint64_t ts_ns);

/*
 * `lost`: reason is an enum pfw_lost_reason, loss its figure.  The count is the total since the
 * process began, never a difference: of several lines with one reason the last one counts, so that
 * a line repeated after a crash is not a second loss.
 */
char *pfw_line_lost(struct pfw_json *json, char *out, unsigned reason, const struct pfw_loss *loss,
		    uint64_t ts_ns);

/* `waited`: threads that waited for room: count, and total in µs.  Totals, as in `lost`. */
char *pfw_line_waited(struct pfw_json *json, char *out, const struct pfw_loss *waited,
		      uint64_t ts_ns);

/* `excluded`: a key for each enum pfw_excluded_reason whose count is not 0.  Totals. */
char *pfw_line_excluded(struct pfw_json *json, char *out,
			const _Atomic uint64_t excluded[PFW_EXCLUDED_REASONS], uint64_t ts_ns);

/* `unrecorded`: a key for each enum pfw_unrecorded_kind whose count is not 0.  Totals. */
char *pfw_line_unrecorded(struct pfw_json *json, char *out,
			  const _Atomic uint64_t unrecorded[PFW_UNRECORDED_KINDS], uint64_t ts_ns);

/* Short calls of one name on one file (PFW_MIN_DUR).  fname NULL: they have none. */
struct pfw_summed {
	const char *name; /* of the call */
	const char *fname;
	size_t fname_bytes;
	uint64_t count, failed, dur_ns, bytes;
};

/* `summed`: what came since the line before it with the same name and fname: they are to be added
 * up.  `failed` is there where it is not 0. */
char *pfw_line_summed(struct pfw_json *json, char *out, const struct pfw_summed *summed,
		      uint64_t ts_ns);

/* `sums_full`: short calls that have lines of their own, since there was no room to sum them. */
char *pfw_line_sums_full(struct pfw_json *json, char *out, uint64_t count, uint64_t ts_ns);

/* What a source (source.h) has to say of its events: a line of its name, a key for each figure. */
char *pfw_line_figures(struct pfw_json *json, char *out, const char *name,
		       const struct pfw_source_figure *figure, unsigned count, uint64_t ts_ns);

/* `clock_step`: CLOCK_REALTIME jumped from one time to another.  Its ts is to_ns. */
char *pfw_line_clock_step(struct pfw_json *json, char *out, uint64_t from_ns, uint64_t to_ns);

/* `segment` (ph i): a cycle of the schedule, from line first_id to last_id; `steps` active ones from
 * first_step on. */
char *pfw_line_segment(struct pfw_json *json, char *out, uint64_t cycle, uint64_t first_step,
		       uint64_t steps, uint64_t first_id, uint64_t ts_ns);

/*
 * `end`: events = json->events, lost = the sum of header->lost, reason = "exit", "exec", "renamed",
 * "limit" or "recovered"; `exec` = exec_path where it is not NULL.
 */
char *pfw_line_end(struct pfw_json *json, char *out, const struct pfw_spool_header *header,
		   const char *reason, const char *exec_path, uint64_t ts_ns);

/* What is left to torch.profiler is lost with the process: counted as such from now on. */
void pfw_lines_profiled_lost(struct pfw_spool_header *header);

/* The sum of header->lost. */
uint64_t pfw_lines_lost(const struct pfw_spool_header *header);

#endif
