/* tools/table/by_thread.c - fills rows by process and thread, or of some of these, from indexes. */
#include <errno.h>

#include "table/answer.h"

bool table_limits_threads(const struct table_options *options)
{
	return options->reach.pid.count || options->reach.tid.count;
}

bool table_asks_threads(const struct table_options *options)
{
	const unsigned threads = TABLE_BIT(TABLE_PID) | TABLE_BIT(TABLE_TID) | TABLE_BITS_PROCESSES;

	return table_limits_threads(options) || table_bits(options) & threads;
}

static bool is_chosen(const struct table_options *options, uint64_t pid, uint64_t tid)
{
	return pfw_select_in_ranges(&options->reach.pid, pid) &&
	       pfw_select_in_ranges(&options->reach.tid, tid);
}

int table_add_extent(struct answer *answer, const struct pfw_summary *summary)
{
	if (!table_limits_threads(answer->options))
		return 1;
	if (summary->thread[0].lines)
		return table_lacks(answer, "--pid or --tid of a trace of so many threads");
	for (uint32_t i = 1; i < summary->threads; i++) {
		const struct pfw_summary_thread *thread = &summary->thread[i];

		if (is_chosen(answer->options, thread->pid, thread->tid))
			table_extent_add(&answer->table->extent, thread->first_ns, thread->last_ns);
	}
	return 1;
}

static int add_says(void *user, uint64_t pid, uint64_t tid, unsigned says)
{
	struct answer *answer = user;

	/* GPU work is in threads of its own; its time counts for those that launched it. */
	if (answer->options->reach.tid.count && says & PFW_TABLE_SAYS_DEVICE) {
		table_lacks(answer, "--tid of a trace with GPU work");
		return -ENOENT;
	}
	if (is_chosen(answer->options, pid, tid))
		answer->table->says |= says;
	return 0;
}

/* The bytes that the calls of a row mapped or touched, and their time if they are not on files. */
static void add_apart(struct table *table, const struct pfw_table_row *row)
{
	table_add_memory(table->memory, &row->name,
			 row->sums.transfers ? 0 : (uint64_t)row->sums.bytes);
	table_add_apart(table->apart_ns, &row->cat, row->sums.total_ns);
}

static int add_row(void *user, const struct pfw_table_thread_row *found)
{
	struct answer *answer = user;
	const struct pfw_table_row *row = &found->row;
	bool call = found->section == PFW_TABLE_IO;
	const struct pfw_table_line line = { .section = found->section,
					     .device = row->device,
					     .annotation = row->annotation,
					     .name = row->name,
					     .cat = row->cat,
					     .shapes = row->shape,
					     .shapes_text = !call,
					     .step = -1 };
	const struct pfw_entry entry = { .kind = PFW_ENTRY_EVENT,
					 .has = PFW_ENTRY_NAME | PFW_ENTRY_CAT | PFW_ENTRY_PH,
					 .ph = 'X',
					 .pid = found->pid,
					 .tid = found->tid,
					 .name = row->name,
					 .cat = row->cat,
					 .args = { .at = "{}", .bytes = 2 } };
	struct pfw_tally sums = row->sums;
	struct pfw_average *into;
	int64_t number;

	if (!is_chosen(answer->options, found->pid, found->tid))
		return 0;
	/* Their lines know which of the steps have a name that is asked for. */
	if (!call && answer->options->wanted.name.count &&
	    pfw_slice_is(&row->name, "ProfilerStep*")) {
		table_lacks(answer, "--name, where there are steps,");
		return -ENOENT;
	}
	if (call && pfw_slice_is(&row->cat, "pfw")) { /* mappings at the end: no row */
		if (table_answer_wants(answer, &entry))
			add_apart(answer->table, row);
		return 0;
	}
	number = table_answer_row(answer, &line, &entry);
	if (number < 0)
		return number == -ENOMEM ? -ENOMEM : 0;
	into = &answer->table->rows.row[number];
	if (call) {
		add_apart(answer->table, row);
		sums.bytes = sums.transfers ? sums.bytes : 0;
		if (!answer->table->too_many &&
		    pfw_table_add_durations(&into->durations, found->durations))
			return -ENOMEM;
	}
	pfw_tally_merge(&into->sums, &sums);
	return 0;
}

int table_add_threads(struct answer *answer, struct pfw_index *index)
{
	struct pfw_table_thread_rows rows = { .user = answer, .row = add_row, .thread = add_says };
	int error;

	table_lacks(answer, "a table of so many threads and names");
	error = pfw_table_calls_from_index(index, &rows);
	error = error ?: pfw_table_threads_from_index(index, &rows);
	return error == -ENOMEM ? error : !error;
}
