/* tools/memory/index.c - answers from the indexes of all files, or from none. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/order.h"
#include "memory/memory.h"
#include "share/unasked.h"
#include "store/index/index.h"
#include "store/memory/in_index.h"
#include "ui/cli.h"

struct asking {
	struct memory *memory;
	const struct pfw_traces *traces;
	struct pfw_memory_from *from; /* of each file */
};

bool memory_asks_indexes(const struct memory *memory)
{
	return !select_args_but_rank(&memory->select) && !memory->snapshots &&
	       !memory->survey.no_index;
}

static bool takes_part(void *user, size_t file)
{
	const struct asking *asking = user;

	return pfw_select_rank(&asking->memory->select, asking->traces->file[file].head.rank);
}

/* The option that an index with rows of memory may not answer. */
static const char *lacks(const struct memory *memory, const struct pfw_trace_file *file)
{
	if (memory->bins)
		return "--bins";
	if (file->ranks)
		return "what one rank in a file of several allocates";
	return memory->lives_most ? "--blocks of so many" : "each of so many blocks not freed";
}

/* 1; 0 if the lines must be read; -ENOMEM. */
static int ask_index(struct asking *asking, struct pfw_indexes_ahead *ahead, size_t number)
{
	const struct pfw_trace_file *file = &asking->traces->file[number];
	struct memory *memory = asking->memory;
	const struct survey *survey = &memory->survey;
	bool one = survey->format == CLI_CSV || survey->format == CLI_TSV; /* the first table */
	struct pfw_memory_from *from = &asking->from[number];
	struct pfw_index *index;
	int error;

	*from = (struct pfw_memory_from){
		.file = file,
		.number = number,
		/* An index has no course over time, and sums of a whole file only. */
		.none = memory->bins || file->ranks,
		.unfreed_most = one			? 0
				: survey->row_limit < 0 ? UINT64_MAX
							: (uint64_t)survey->row_limit,
	};
	error = pfw_index_ahead(ahead, number, &index);
	if (error)
		return error == -ENOMEM ? error : 0;
	error = pfw_memory_from_index(&memory->sums, from, index);
	if (error == -ENOENT)
		memory->lacks = lacks(memory, file);
	error = error ?: survey_keep_problems(&memory->survey, file->path, index);
	pfw_index_close(index);
	return error == -ENOMEM ? error : !error;
}

static int ask_all(struct asking *asking)
{
	struct pfw_indexes_ahead *ahead;
	int asked = 1;

	if (pfw_indexes_ahead_open(&ahead, asking->traces, survey_jobs(&asking->memory->survey),
				   asking, takes_part, NULL))
		return -ENOMEM;
	for (size_t i = 0; i < asking->traces->count && asked > 0; i++) {
		if (takes_part(asking, i))
			asked = ask_index(asking, ahead, i);
	}
	pfw_indexes_ahead_close(ahead);
	return asked;
}

/* Whether a process of another file of the rank has steps.  Files come in order of rank. */
static bool leads_another(const struct asking *asking, size_t file)
{
	const struct pfw_trace_file *all = asking->traces->file, *one = &all[file];
	size_t other = file;

	while (other && all[other - 1].head.rank == one->head.rank)
		other--;
	for (; other < asking->traces->count && all[other].head.rank == one->head.rank; other++) {
		if (other != file && asking->from[other].leaders &&
		    strcmp(all[other].head.run, one->head.run) == 0)
			return true;
	}
	return false;
}

/* Whether the steps of some file are those of a process in another one. */
static bool strays(const struct asking *asking)
{
	for (size_t i = 0; i < asking->traces->count; i++) {
		if (asking->from[i].followers && leads_another(asking, i))
			return true;
	}
	return false;
}

/* 1 if a process is in two files: it may free in one file what it allocated in the other; 0; -ENOMEM. */
static int share_processes(const struct pfw_traces *traces)
{
	size_t count = 0, all = 0;
	int64_t *number;
	int shared = 0;

	for (size_t i = 0; i < traces->count; i++)
		all += traces->file[i].processes ? traces->file[i].processes->count : 0;
	number = calloc(all + 1, sizeof(*number));
	if (!number)
		return -ENOMEM;
	for (size_t i = 0; i < traces->count; i++) {
		const struct pfw_processes *own = traces->file[i].processes;

		for (size_t j = 0; own && !traces->file[i].ranks && j < own->count; j++)
			number[count++] = (int64_t)own->process[j].number;
	}
	qsort(number, count, sizeof(*number), pfw_order_i64);
	for (size_t i = 1; i < count && !shared; i++)
		shared = number[i] == number[i - 1];
	free(number);
	return shared;
}

/* Returns as memory_ask_indexes(). */
static int ask(struct memory *memory, const struct pfw_traces *traces)
{
	struct asking asking = { .memory = memory, .traces = traces };
	int asked;

	asking.from = calloc(traces->count + 1, sizeof(*asking.from));
	if (!asking.from)
		return -ENOMEM;
	memory->lacks = NULL;
	asked = pfw_memory_init(&memory->sums, 0);
	memory->sums.lives_most = memory->lives_most;
	asked = asked ? asked : ask_all(&asking);
	if (asked > 0 && memory->sums.events) {
		int shared = share_processes(traces);

		if (shared)
			memory->lacks = "a process in two files";
		else if (strays(&asking))
			memory->lacks = "the memory in steps of a process in another file";
		asked = shared < 0 ? shared : !memory->lacks;
	}
	free(asking.from);
	if (asked > 0) {
		survey_tell_problems(&memory->survey);
		return pfw_memory_settle(&memory->sums) ? -ENOMEM : 1;
	}
	survey_forget_problems(&memory->survey);
	pfw_memory_release(&memory->sums);
	return asked;
}

int memory_part_ranks(struct memory *memory, struct pfw_traces *traces)
{
	int error = 0;

	for (size_t i = 0; i < traces->count && !error; i++)
		error = pfw_processes_read(&traces->file[i]);
	error = error ?: pfw_processes_number(traces);
	return error ?: pfw_ranks_part(traces, survey_say, &memory->survey);
}

int memory_ask_indexes(struct memory *memory, const struct pfw_traces *traces)
{
	int asked = ask(memory, traces);

	if (!asked && unasked_of_survey(&memory->survey, traces))
		asked = ask(memory, traces);
	return asked;
}
