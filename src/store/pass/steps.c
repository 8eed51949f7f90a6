/* store/pass/steps.c - finds steps by their spans; see steps.h. */
#include "store/pass/steps.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/order.h"
#include "store/kit/grow.h"
#include "store/kit/saturate.h"
#include "store/line/step_name.h"
#include "store/pass/pass.h"

/* The steps of a block, and of all blocks. */
struct list {
	struct pfw_step *step;
	size_t count, room;
};

/* The process of a rank that has steps. */
struct leader {
	bool any, several;
	uint64_t process;
	size_t first; /* the first file of the rank, which has all this */
};

struct pfw_steps {
	struct list list;      /* by process, begin */
	struct leader *leader; /* of each file */
	size_t files;
	const struct pfw_pass *pass; /* while they are read, as the next */
	const struct pfw_extent_options *options;
};

/* ---- reading ---- */

/* Whether the line at `at` is of the block's rank. */
static bool is_ours(const struct pfw_pass_block *block, size_t at)
{
	for (size_t i = 0; i < block->pieces; i++) {
		if (at >= block->piece[i].begin && at < block->piece[i].end)
			return true;
	}
	return !block->piece;
}

bool pfw_step_of(struct pfw_step *step, const struct pfw_entry *entry)
{
	*step = (struct pfw_step){ .process = entry->process,
				   .pid = entry->pid,
				   .start_ns = entry->ts_ns,
				   .end_ns = pfw_saturate_add(entry->ts_ns, entry->dur_ns) };
	return entry->has & ~entry->wrong & PFW_ENTRY_TS && pfw_is_step(entry, &step->number);
}

static int take(struct list *list, const struct pfw_pass_block *block, const char *line,
		size_t bytes)
{
	struct pfw_processes_recent recent = { .pid = 0 };
	struct pfw_entry entry;
	struct pfw_step step;

	pfw_entry_parse(&entry, line, bytes);
	if (entry.kind != PFW_ENTRY_EVENT || !pfw_step_of(&step, &entry))
		return 0;
	pfw_processes_set(block->processes, block->file, &entry, &recent);
	step.file = block->file;
	step.process = entry.process;
	return PFW_PUSH(list->step, list->count, list->room, step);
}

static int work(void *user, unsigned worker, struct pfw_pass_block *block)
{
	const char *at = block->text, *line;
	size_t bytes;
	int error = 0;

	(void)user;
	(void)worker;
	while (!error && (line = pfw_pass_search(block, "\"ProfilerStep#", &at, &bytes))) {
		if (is_ours(block, (size_t)(line - block->text)))
			error = take(block->result, block, line, bytes);
	}
	return error;
}

static void drop(void *result)
{
	free(((struct list *)result)->step);
	free(result);
}

static int done(void *user, struct pfw_pass_block *block)
{
	struct pfw_steps *steps = user;
	struct list *list = &steps->list, *found = block->result;
	int error = 0;

	for (size_t i = 0; i < found->count && !error; i++)
		error = PFW_PUSH(list->step, list->count, list->room, found->step[i]);
	return error;
}

/* Lines that are in no file. */
static int take_text(void *user, size_t file, const char *text, size_t bytes)
{
	const struct pfw_steps *steps = user;

	return pfw_pass_text(steps->pass, file, text, bytes);
}

/* ---- order ---- */

static int by_process(const void *a, const void *b)
{
	const struct pfw_step *x = a, *y = b;

	return PFW_ORDER(x->process, y->process) ?: PFW_ORDER(x->start_ns, y->start_ns) ?:
	       PFW_ORDER(x->number, y->number);
}

static bool same_rank(const struct pfw_trace_file *a, const struct pfw_trace_file *b)
{
	return a->head.rank == b->head.rank && strcmp(a->head.run, b->head.run) == 0;
}

/* Find the first file of each rank.  Files come in order of rank. */
static int find_ranks(struct pfw_steps *steps, const struct pfw_traces *traces)
{
	steps->files = traces->count;
	steps->leader = calloc(traces->count + 1, sizeof(*steps->leader));
	for (size_t i = 0; steps->leader && i < traces->count; i++) {
		const struct pfw_trace_file *file = &traces->file[i];
		size_t j = i;

		while (j && traces->file[j - 1].head.rank == file->head.rank &&
		       !same_rank(&traces->file[j - 1], file))
			j--;
		steps->leader[i].first =
			j && same_rank(&traces->file[j - 1], file) ? steps->leader[j - 1].first : i;
	}
	return steps->leader ? 0 : -ENOMEM;
}

/* Sort the steps, and find the process with steps of each rank. */
static void find_leaders(struct pfw_steps *steps)
{
	struct list *list = &steps->list;

	if (list->count)
		qsort(list->step, list->count, sizeof(*list->step), by_process);
	for (size_t i = 0; i < list->count; i++) {
		const struct pfw_step *step = &list->step[i];
		struct leader *leader;

		if (i && step[-1].process == step->process)
			continue;
		leader = &steps->leader[steps->leader[step->file].first];
		leader->several = leader->any;
		leader->any = true;
		leader->process = step->process;
	}
}

/* ---- all ---- */

static bool want(void *user, size_t file, const struct pfw_block *block)
{
	const struct pfw_extent_options *options = ((struct pfw_steps *)user)->options;

	return options->want(options->select, file, block);
}

int pfw_steps_read(struct pfw_steps **out, const struct pfw_traces *traces,
		   const struct pfw_extent_options *options)
{
	struct pfw_steps *steps = calloc(1, sizeof(*steps));
	struct pfw_pass pass = {
		.traces = traces,
		.jobs = options->jobs,
		.user = steps,
		.result_bytes = sizeof(struct list),
		.want = options->want ? want : NULL,
		.work = work,
		.done = done,
		.drop = drop,
		.stop = options->stop,
	};
	int error = steps ? find_ranks(steps, traces) : -ENOMEM;

	if (steps) {
		steps->options = options;
		steps->pass = &pass;
	}
	*out = NULL;
	if (!error && !pfw_traces_once(traces))
		error = pfw_pass_run(&pass);
	if (error == -EIO) /* a damaged file has steps, too */
		error = 0;
	if (!error && options->more)
		error = options->more(options->user, take_text, steps);
	if (error) {
		pfw_steps_free(steps);
		return error;
	}
	find_leaders(steps);
	*out = steps;
	return 0;
}

int pfw_steps_make(struct pfw_steps **out, const struct pfw_step *step, size_t count)
{
	struct pfw_steps *steps = calloc(1, sizeof(*steps));
	int error = steps ? 0 : -ENOMEM;

	*out = NULL;
	if (!error) {
		steps->files = 1;
		steps->leader = calloc(1, sizeof(*steps->leader));
		error = steps->leader ? 0 : -ENOMEM;
	}
	for (size_t i = 0; i < count && !error; i++)
		error = PFW_PUSH(steps->list.step, steps->list.count, steps->list.room, step[i]);
	if (error) {
		pfw_steps_free(steps);
		return error;
	}
	find_leaders(steps);
	*out = steps;
	return 0;
}

void pfw_steps_free(struct pfw_steps *steps)
{
	if (!steps)
		return;
	free(steps->list.step);
	free(steps->leader);
	free(steps);
}

/* ---- asking ---- */

static struct pfw_in_step find(const struct pfw_steps *steps, uint64_t process, int64_t ts_ns)
{
	const struct pfw_step wanted = { .process = process,
					 .number = UINT64_MAX,
					 .start_ns = ts_ns };
	const struct pfw_step *step = steps->list.step, *last;
	struct pfw_in_step found = { .begin_ns = INT64_MIN, .end_ns = INT64_MAX };
	size_t low = PFW_BISECT(at, steps->list.count, by_process(&step[at], &wanted) <= 0);

	if (low < steps->list.count && step[low].process == process) {
		found.own = true;
		found.end_ns = step[low].start_ns;
	}
	last = low && step[low - 1].process == process ? &step[low - 1] : NULL;
	if (!last)
		return found;
	/* Steps of a process do not overlap: only the last one begun can hold the event. */
	found.own = true;
	found.in = ts_ns < last->end_ns;
	found.number = last->number;
	found.begin_ns = found.in ? last->start_ns : last->end_ns;
	if (found.in && last->end_ns < found.end_ns)
		found.end_ns = last->end_ns;
	return found;
}

unsigned pfw_steps_leaders(const struct pfw_steps *steps, size_t file)
{
	const struct leader *leader = &steps->leader[steps->leader[file].first];

	return leader->several ? 2 : leader->any;
}

struct pfw_in_step pfw_steps_at(const struct pfw_steps *steps, size_t file, uint64_t process,
				int64_t ts_ns)
{
	const struct leader *leader = &steps->leader[steps->leader[file].first];
	struct pfw_in_step found = find(steps, process, ts_ns);

	if (!found.own && leader->any && !leader->several) {
		found = find(steps, leader->process, ts_ns);
		found.own = false;
	}
	return found;
}

bool pfw_steps_find(const struct pfw_steps *steps, size_t file, const struct pfw_entry *entry,
		    uint64_t *number)
{
	struct pfw_in_step found;

	if (pfw_says_step(entry, number))
		return true;
	if (!steps || file >= steps->files || !(entry->has & ~entry->wrong & PFW_ENTRY_TS))
		return false;
	found = pfw_steps_at(steps, file, entry->process, entry->ts_ns);
	if (found.in)
		*number = found.number;
	return found.in;
}

int64_t pfw_steps_ns(const struct pfw_steps *steps, const struct pfw_traces *traces,
		     uint64_t number, int64_t rank, int64_t pid, uint64_t *processes)
{
	const struct pfw_step *last = NULL;
	int64_t most = 0, sum = 0;

	*processes = 0;
	for (size_t i = 0; steps && i < steps->list.count; i++) {
		const struct pfw_step *step = &steps->list.step[i];

		if (step->number != number ||
		    (rank >= 0 && traces->file[step->file].head.rank != rank) ||
		    (pid >= 0 && step->pid != (uint64_t)pid))
			continue;
		if (!last || last->process != step->process) {
			++*processes;
			sum = 0;
		}
		last = step;
		sum = pfw_saturate_add(sum, step->end_ns - step->start_ns);
		most = sum > most ? sum : most;
	}
	return most;
}
