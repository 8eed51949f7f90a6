/* summary_rows.h - what summary_add.c, summary_merge.c and the index use of summary.c. */
#ifndef PFW_SUMMARY_ROWS_H
#define PFW_SUMMARY_ROWS_H

#include "summary.h"

/* start_ns of a row that holds what was told of a process after its `process` line: its end, or its
 * rank; what was not told is NULL, or rank PFW_SUMMARY_NO_RANK. */
#define PFW_SUMMARY_NO_START INT64_MIN
#define PFW_SUMMARY_NO_RANK INT64_MIN

/* Room for one more of `count` rows of that size; new ones are all zero.  0 or -ENOMEM. */
int pfw_rows_reserve(void **rows, uint32_t count, uint32_t *room, size_t size);

/* What the row of a name is found by. */
struct pfw_summary_key {
	const char *cat, *name;
	uint32_t cat_bytes, name_bytes, hash;
	char ph;
};

/* The row of a name or a file, made where there is none; 0 where there may be no more; or -ENOMEM. */
int64_t pfw_summary_find_name(struct pfw_summary *summary, const struct pfw_summary_key *key);
int64_t pfw_summary_find_file(struct pfw_summary *summary, const char *text, size_t bytes,
			      uint32_t hash);

/* The counts of lines and events, and the times, alone. */
void pfw_summary_merge_times(struct pfw_summary *into, const struct pfw_summary *from);

/* The counts, sums and extremes of a name, without its durations: whoever adds those up bounds them. */
void pfw_summary_merge_name(struct pfw_summary_name *into, const struct pfw_summary_name *from);

/* A call of the thread in that row begins and ends there. */
void pfw_summary_join_calls(struct pfw_summary *summary, uint32_t row, int64_t start_ns,
			    int64_t end_ns);

/* Texts are copied; all return 0 or -ENOMEM; what is beyond the limits counts as left_out. */
int pfw_summary_name_thread(struct pfw_summary *summary, uint32_t row, const char *name,
			    size_t bytes);
int pfw_summary_add_process(struct pfw_summary *summary, const struct pfw_summary_process *process);
int pfw_summary_update_process(struct pfw_summary *summary, const struct pfw_summary_process *news);
int pfw_summary_add_step(struct pfw_summary *summary, const struct pfw_summary_step *step);
int pfw_summary_add_loss(struct pfw_summary *summary, const struct pfw_summary_loss *loss);

#endif
