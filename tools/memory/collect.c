/* tools/memory/collect.c - reads the allocations, then in a second pass the spans that own them. */
#include <errno.h>
#include <stdlib.h>

#include "memory/memory.h"
#include "store/kit/grow.h"

/* What a pass takes from the lines. */
enum phase {
	ALLOCATIONS, /* first */
	OWNERS,	     /* then, from the same lines, spans that may own an allocation */
	EVERYTHING,  /* for lines that can be read only once: all allocations and spans */
};

struct collect {
	struct memory *memory;
	const struct pfw_traces *traces;
	enum phase phase;
};

/* ---- lines ---- */

static int add_owner(const struct collect *collect, struct pfw_memory_lines *lines,
		     const struct pfw_entry *entry)
{
	struct pfw_memory_span span = pfw_memory_span_of(entry);
	int64_t name;

	if (collect->phase == OWNERS && !pfw_memory_may_own(&collect->memory->sums, &span))
		return 0;
	name = pfw_memory_name(lines, entry);
	span.name = (uint32_t)name;
	return name < 0 ? (int)name : PFW_PUSH(lines->span, lines->spans, lines->span_room, span);
}

static int add_event(const struct collect *collect, const struct survey_worker *worker,
		     struct pfw_pass_block *block, const struct pfw_entry *entry)
{
	const struct pfw_select *select = &collect->memory->select;
	uint64_t step = PFW_MEMORY_NO_STEP;

	if (!pfw_memory_is_event(entry) ||
	    !pfw_select_entry(select, worker->state, block->file, entry))
		return 0;
	pfw_steps_find(select->steps, block->file, entry, &step);
	return pfw_memory_add_event(block->result, entry, &step);
}

static int work(void *user, const struct survey_worker *worker, struct pfw_pass_block *block)
{
	const struct collect *collect = user;
	struct pfw_pass_lines lines;
	int error = 0;

	pfw_pass_lines_init(&lines, block);
	while (!error && pfw_pass_lines_next(&lines)) {
		enum pfw_memory_class class = pfw_memory_class_of(&lines.entry);

		if (class == PFW_MEMORY_CLASS_OWNER && collect->phase != ALLOCATIONS)
			error = add_owner(collect, block->result, &lines.entry);
		else if (class == PFW_MEMORY_CLASS_EVENT && collect->phase != OWNERS)
			error = add_event(collect, worker, block, &lines.entry);
	}
	return error;
}

/* ---- in order of blocks ---- */

static void drop(void *result)
{
	pfw_memory_lines_release(result);
	free(result);
}

static int add_spans(struct pfw_memory *sums, const struct pfw_memory_lines *lines)
{
	uint32_t *number = calloc((size_t)lines->names.count + 1, sizeof(*number));
	int error = number ? pfw_text_ids_map(&sums->names, 0, &lines->names, number) : -ENOMEM;

	for (size_t i = 0; i < lines->spans && !error; i++) {
		struct pfw_memory_span span = lines->span[i];

		span.name = number[span.name];
		error = pfw_memory_add_span(sums, &span);
	}
	free(number);
	return error;
}

static int done(void *user, struct pfw_pass_block *block)
{
	struct collect *collect = user;
	struct pfw_memory *sums = &collect->memory->sums;
	int error =
		pfw_memory_take(sums, block->result, collect->traces->file[block->file].head.rank);

	return error ?: add_spans(sums, block->result);
}

static bool want(void *user, size_t file, const struct pfw_block *block)
{
	const struct collect *collect = user;

	/* A span may begin outside of the wanted time. */
	return collect->phase != ALLOCATIONS
		       ? pfw_select_ranks_block(&collect->memory->select, file, block)
		       : pfw_select_block(&collect->memory->select, file, block);
}

/* Lines in rings or from a pipe can be read only once. */
static int read_all(struct collect *collect, struct survey_input *input)
{
	struct survey *survey = &collect->memory->survey;
	struct survey_fold fold = { .user = collect,
				    .select = &collect->memory->select,
				    .result_bytes = sizeof(struct pfw_memory_lines),
				    .want = want,
				    .work = work,
				    .done = done,
				    .drop = drop };
	bool once = pfw_traces_once(&input->traces);
	int error;

	collect->phase = once ? EVERYTHING : ALLOCATIONS;
	error = survey_read(survey, input, &fold, SURVEY_FILES);
	collect->phase = EVERYTHING;
	error = error ?: survey_read(survey, input, &fold, SURVEY_RINGS);
	if (error || once || !collect->memory->sums.events)
		return error;
	collect->phase = OWNERS;
	fold.again = true;
	return survey_read(survey, input, &fold, SURVEY_FILES);
}

int memory_collect(struct memory *memory, struct survey_input *input)
{
	struct collect collect = { .memory = memory, .traces = &input->traces };
	return read_all(&collect, input) ?: pfw_memory_count(&memory->sums);
}
