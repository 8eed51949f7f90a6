/* store/summary/rows.h - the rows of a summary, for the room and the index. */
#pragma once

#include "store/line/io.h"
#include "store/summary/summary.h"

/* start_ns of a row from an `end` or `rank` line without a `process` line before it.  Its unknown
 * members are NULL, or PFW_SUMMARY_NO_RANK. */
#define PFW_SUMMARY_NO_START INT64_MIN
#define PFW_SUMMARY_NO_RANK INT64_MIN

/* The key of the row of a name. */
struct pfw_summary_key {
	const char *cat, *name;
	uint32_t cat_bytes, name_bytes, hash;
	char ph;
};

/* The row of a name or a file, which is added if it does not exist; 0 if the table is full; or
 * -ENOMEM. */
int64_t pfw_summary_find_name(struct pfw_summary *summary, const struct pfw_summary_key *key);
int64_t pfw_summary_find_file(struct pfw_summary *summary, const char *text, size_t bytes,
			      uint32_t hash);

/* Merge only the counts of lines and events, and the times. */
void pfw_summary_merge_times(struct pfw_summary *into, const struct pfw_summary *from);

/* Merge the counts, sums and extremes of a name, without its durations, which the caller has to
 * bound. */
void pfw_summary_merge_name(struct pfw_summary_name *into, const struct pfw_summary_name *from);

/* Add a call of a thread, to find out whether calls are nested. */
static inline void pfw_summary_join_calls(struct pfw_summary *summary, uint32_t row,
					  int64_t start_ns, int64_t end_ns)
{
	struct pfw_summary_thread *thread = &summary->thread[row];

	if (start_ns == INT64_MAX)
		return;
	/* Row 0 has many threads. */
	if (!row || start_ns < thread->calls_end_ns)
		summary->nested = true;
	if (thread->call_ns == INT64_MAX)
		thread->call_ns = start_ns;
	if (end_ns > thread->calls_end_ns)
		thread->calls_end_ns = end_ns;
}

/* Texts are copied.  All return 0 or -ENOMEM; items beyond the limits count as left_out. */
int pfw_summary_name_thread(struct pfw_summary *summary, uint32_t row, const char *name,
			    size_t bytes);
int pfw_summary_add_process(struct pfw_summary *summary, const struct pfw_summary_process *process);
int pfw_summary_update_process(struct pfw_summary *summary, const struct pfw_summary_process *news);
int pfw_summary_add_step(struct pfw_summary *summary, const struct pfw_summary_step *step);
int pfw_summary_add_loss(struct pfw_summary *summary, const struct pfw_summary_loss *loss);

/* ---- lines; private to the room ---- */

/* Add the args of a line of cat "pfw" and ph M; `thread`: its row.  Return 0 or -ENOMEM.  Thread:
 * as pfw_summary_add(). */
int pfw_summary_own_line(struct pfw_summary *summary, const struct pfw_entry *entry,
			 uint32_t thread);

/* Add the step of a span that has a step's name. */
int pfw_summary_step_line(struct pfw_summary *summary, const struct pfw_entry *entry);

/* Add `count` calls of one kind on a file: their total time and bytes. */
void pfw_summary_add_calls(struct pfw_summary_file *file, struct pfw_io_call call, uint64_t count,
			   uint64_t ns, uint64_t bytes);

/* The role of lines of that cat and name.  Thread: any. */
struct pfw_io_call pfw_summary_call(const char *cat, size_t cat_bytes, const char *name,
				    size_t name_bytes);
