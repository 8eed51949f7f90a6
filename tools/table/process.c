/* tools/table/process.c - names of processes, for rows by process and by command; see table.h. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/order.h"
#include "share/select_args.h"
#include "store/kit/grow.h"
#include "store/line/args.h"
#include "store/pass/pass.h"
#include "store/traces/traces.h"
#include "table/table.h"

#define COMMAND_MAX 200u

struct process {
	int64_t rank;	  /* its file's, as of all lines, though a file may have several */
	int64_t own_rank; /* -1: it had none when it began */
	int64_t start_ns;
	uint64_t pid, ppid;
	int64_t loader;	 /* its number among the workers of a DataLoader; -1: it is none */
	bool forked;	 /* its parent is in the traces, with the same command */
	unsigned number; /* among the forked ones of its parent, by their begins */
	char command[COMMAND_MAX];
};

/* A line of a process that has named a worker of its DataLoader. */
struct worker {
	int64_t rank, ts_ns, number;
	uint64_t pid;
};

struct table_processes {
	struct process *process;
	struct worker *worker;
	uint32_t count, workers;
};

static int by_begin(const void *a, const void *b)
{
	const struct process *x = a, *y = b;

	return PFW_ORDER(x->rank, y->rank) ?: PFW_ORDER(x->pid, y->pid) ?:
	       PFW_ORDER(x->start_ns, y->start_ns);
}

/* The last process of that pid that began before that time; an exec, or reuse of the pid, begins another
 * process.  NULL: none. */
static const struct process *find(const struct table_processes *all, int64_t rank, uint64_t pid,
				  int64_t at_ns)
{
	const struct process wanted = { .rank = rank, .pid = pid, .start_ns = at_ns };
	size_t low = PFW_BISECT(at, all->count, by_begin(&all->process[at], &wanted) <= 0);

	if (low && all->process[low - 1].pid == pid && all->process[low - 1].rank == rank)
		return &all->process[low - 1];
	if (low < all->count && all->process[low].pid == pid && all->process[low].rank == rank)
		return &all->process[low]; /* clocks: its line is a bit later than its event */
	return NULL;
}

static int add(struct table_processes *all, const struct pfw_entry *entry, int64_t rank)
{
	struct pfw_slice command;
	struct process process = { .loader = -1,
				   .rank = rank,
				   .own_rank = pfw_arg_i64(entry, "rank", -1),
				   .start_ns = entry->ts_ns,
				   .pid = entry->pid,
				   .ppid = pfw_arg_u64(entry, "ppid", 0) };

	if (pfw_arg_text(entry, "cmd", &command))
		pfw_slice_decode(&command, process.command, sizeof(process.command));
	return PFW_APPEND(all->process, all->count, process);
}

static int add_worker(struct table_processes *all, const struct pfw_entry *entry, int64_t rank)
{
	const struct worker worker = { .rank = rank,
				       .ts_ns = entry->ts_ns,
				       .number = pfw_arg_i64(entry, "number", -1),
				       .pid = pfw_arg_u64(entry, "pid", 0) };

	return PFW_APPEND(all->worker, all->workers, worker);
}

/* ---- their lines, which are anywhere in a compacted file ---- */

struct search {
	const struct pfw_traces *traces;
	const struct pfw_select *reach; /* of which the ranks count */
	struct pfw_select lines;
	struct table_processes *all;
};

static bool want(void *user, size_t file, const struct pfw_block *block)
{
	const struct search *search = user;

	return pfw_select_rank(search->reach, search->traces->file[file].head.rank) &&
	       pfw_select_block(&search->lines, file, block);
}

static int work(void *user, const struct survey_worker *worker, struct pfw_pass_block *block)
{
	const struct search *search = user;
	struct pfw_pass_lines lines;
	int64_t rank = search->traces->file[block->file].head.rank;
	int error = 0;

	(void)worker;
	pfw_pass_lines_init(&lines, block);
	while (!error && pfw_pass_lines_next(&lines)) {
		if (!pfw_slice_is(&lines.entry.cat, "pfw"))
			continue;
		if (pfw_slice_is(&lines.entry.name, "process"))
			error = add(block->result, &lines.entry, rank);
		else if (pfw_slice_is(&lines.entry.name, "DataLoader worker"))
			error = add_worker(block->result, &lines.entry, rank);
	}
	return error;
}

static int done(void *user, struct pfw_pass_block *block)
{
	struct table_processes *all = ((const struct search *)user)->all;
	const struct table_processes *found = block->result;
	int error = 0;

	for (uint32_t i = 0; i < found->count && !error; i++)
		error = PFW_APPEND(all->process, all->count, found->process[i]);
	for (uint32_t i = 0; i < found->workers && !error; i++)
		error = PFW_APPEND(all->worker, all->workers, found->worker[i]);
	return error;
}

static void drop(void *result)
{
	table_processes_free(result);
}

/* Read the blocks that can have such lines, by their index. */
static int find_lines(struct search *search, struct survey *survey, struct survey_input *input)
{
	/* Whoever reads the events reports problems. */
	const struct survey_fold fold = { .user = search,
					  .select = &search->lines,
					  .result_bytes = sizeof(struct table_processes),
					  .want = want,
					  .work = work,
					  .done = done,
					  .drop = drop,
					  .again = true };
	char why[256];
	int error = 0;

	if (pfw_traces_once(&input->traces))
		return 0;
	if (pfw_select_add(&search->lines, PFW_SELECT_NAME, "process", why, sizeof(why)) ||
	    pfw_select_add(&search->lines, PFW_SELECT_NAME, "DataLoader worker", why, sizeof(why)))
		return -ENOMEM;
	if (!survey->no_index)
		error = select_args_use_indexes(&search->lines, survey->command, &input->traces,
						true);
	if (!error && survey_resolve(survey, input, &search->lines) != CLI_OK)
		error = -ENOMEM;
	return error ?: survey_read(survey, input, &fold, SURVEY_FILES);
}

/* ---- their names ---- */

static int by_parent(const void *a, const void *b)
{
	const struct process *x = *(struct process *const *)a, *y = *(struct process *const *)b;

	return PFW_ORDER(x->rank, y->rank) ?: PFW_ORDER(x->ppid, y->ppid) ?:
	       PFW_ORDER(x->start_ns, y->start_ns) ?: PFW_ORDER(x->pid, y->pid);
}

static int number_workers(struct table_processes *all)
{
	struct process **forked = calloc(all->count + 1, sizeof(*forked));
	size_t count = 0;

	if (!forked)
		return -ENOMEM;
	for (uint32_t i = 0; i < all->count; i++) {
		struct process *process = &all->process[i];
		const struct process *parent =
			find(all, process->rank, process->ppid, process->start_ns);

		process->forked = parent && parent->own_rank == process->own_rank &&
				  strcmp(parent->command, process->command) == 0;
		if (process->forked)
			forked[count++] = process;
	}
	if (count)
		qsort(forked, count, sizeof(*forked), by_parent);
	for (size_t i = 1; i < count; i++) {
		if (forked[i]->ppid == forked[i - 1]->ppid &&
		    forked[i]->rank == forked[i - 1]->rank)
			forked[i]->number = forked[i - 1]->number + 1;
	}
	free(forked);
	return 0;
}

static void name_workers(struct table_processes *all)
{
	for (uint32_t i = 0; i < all->workers; i++) {
		const struct worker *worker = &all->worker[i];
		const struct process *found = find(all, worker->rank, worker->pid, worker->ts_ns);

		if (found)
			all->process[found - all->process].loader = worker->number;
	}
}

int table_processes_read(struct table_processes **out, struct survey *survey,
			 struct survey_input *input, const struct pfw_select *reach)
{
	struct table_processes *all = calloc(1, sizeof(*all));
	struct search search = {
		.traces = &input->traces, .reach = reach, .lines = { .meta = true }, .all = all
	};
	int error = all ? find_lines(&search, survey, input) : -ENOMEM;

	pfw_select_release(&search.lines);
	if (!error) {
		if (all->count)
			qsort(all->process, all->count, sizeof(*all->process), by_begin);
		error = number_workers(all);
		name_workers(all);
	}
	*out = all;
	return error;
}

bool table_processes_unique(const struct table_processes *all)
{
	for (uint32_t i = 1; i < all->count; i++) {
		if (all->process[i].pid == all->process[i - 1].pid &&
		    all->process[i].rank == all->process[i - 1].rank)
			return false;
	}
	return true;
}

void table_processes_free(struct table_processes *all)
{
	if (all) {
		free(all->process);
		free(all->worker);
	}
	free(all);
}

size_t table_process_name(const struct table_processes *all, int64_t rank,
			  const struct pfw_entry *entry, char *out, size_t size)
{
	const struct process *process = find(all, rank, entry->pid, entry->ts_ns);

	if (!process)
		return (size_t)snprintf(out, size, "%" PRIu64, entry->pid);
	if (process->loader >= 0)
		return (size_t)snprintf(
			out, size, "%" PRIu64 " DataLoader worker %" PRId64 " of %" PRIu64 ": %s",
			entry->pid, process->loader, process->ppid, process->command);
	if (process->forked)
		return (size_t)snprintf(out, size, "%" PRIu64 " worker %u of %" PRIu64 ": %s",
					entry->pid, process->number, process->ppid,
					process->command);
	return (size_t)snprintf(out, size, "%" PRIu64 " %s", entry->pid, process->command);
}

size_t table_process_command(const struct table_processes *all, int64_t rank,
			     const struct pfw_entry *entry, char *out, size_t size)
{
	const struct process *process = find(all, rank, entry->pid, entry->ts_ns);

	return (size_t)snprintf(out, size, "%s", process ? process->command : "");
}
