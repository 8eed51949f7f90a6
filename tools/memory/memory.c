/* tools/memory/memory.c - `pfw memory`: peaks, growth in each step, owners and leaks of
 * allocations. */
#include "memory/memory.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "memory/pickle.h"
#include "share/unrecorded.h"
#include "store/kit/grow.h"
#include "ui/interrupt.h"

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
	struct pfw_memory_span span;
	int64_t name;

	pfw_memory_span_of(&span, entry);
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

#define BINS_MAX 100000
#define BLOCKS_MAX 1000000
/* Memory for items before the sorter uses a file. */
#define BUDGET_BYTES (64u << 20)

/* ---- the command ---- */

/* The option that no index or partial can answer. */
static const char *needs_lines(const struct memory *memory)
{
	const char *lacks = memory->survey.no_index ? "--no-index"
						    : select_args_but_rank(&memory->select);

	lacks = lacks ? lacks : memory->lacks;
	return lacks ? lacks : "a trace with its older index";
}

/* Read the lines and add them up.  CLI_OK, or the exit status. */
static int read_lines(struct memory *memory, struct survey_input *input)
{
	struct survey *survey = &memory->survey;
	struct collect collect = { .memory = memory, .traces = &input->traces };
	bool ask = memory_asks_indexes(memory);
	int status = CLI_OK, error = pfw_memory_init(&memory->sums, BUDGET_BYTES);

	if (!error && survey_lacks(survey, input, needs_lines(memory)))
		return CLI_USAGE;
	if (!survey->no_index && !memory->snapshots)
		survey->lacks = select_args_but_rank(&memory->select) ?: memory->lacks;
	if (!error && ask && pfw_traces_lay_out(&input->traces, survey_say, survey))
		return CLI_USAGE;
	if (error)
		return survey_end(survey, error);
	memory->select.ask_steps = true;
	status = survey_attach(survey, input, NULL);
	status = status ?: survey_resolve(survey, input, &memory->select);
	if (status != CLI_OK)
		return status;
	memory->sums.bins = memory->bins;
	memory->sums.lives_most = memory->lives_most;
	error = read_all(&collect, input) ?: pfw_memory_count(&memory->sums);
	return error ? survey_end(survey, error) : CLI_OK;
}

static int read_and_print(void *user, struct survey_input *input)
{
	struct memory *memory = user;
	struct survey *survey = &memory->survey;
	int status = CLI_OK, error = 0, asked = 0;

	if (memory_asks_indexes(memory)) {
		error = memory_part_ranks(memory, &input->traces);
		/* An index would answer for a rank that does not exist, too. */
		status = error ? survey_end(survey, error)
			       : survey_resolve(survey, input, &memory->select);
		if (status != CLI_OK)
			return status;
		asked = memory_ask_indexes(memory, &input->traces);
	}
	if (!asked)
		status = read_lines(memory, input);
	if (asked < 0 || status != CLI_OK)
		return asked < 0 ? survey_end(survey, asked) : status;
	error = memory_print(memory);
	if (!error && !memory->sums.events && !survey->quiet)
		unrecorded_say_none(survey->command, "allocations are",
				    select_args_but_rank(&memory->select),
				    ": record them with PFW_CUPTI=memory, torch.profiler's "
				    "profile_memory=True, or, for a snapshot, "
				    "torch.cuda.memory._record_memory_history()");
	return survey_end(survey, error);
}

/* By its name or its first bytes: a file that is only named as a pickle, or is one of Python 2,
 * gets a message about pickles. */
static bool is_snapshot(const char *path)
{
	const char *suffix = strrchr(path, '.');

	return (suffix && strcmp(suffix, ".pickle") == 0) || pfw_pickle_is(path);
}

/* Replace snapshots among the operands by traces without names, which memory_main() closes.
 * -1, or CLI_USAGE after an error message. */
static int open_snapshots(void *user, struct cli_args *args)
{
	struct memory *memory = user;
	const _Atomic bool *stop = stop_watch();
	char why[256];
	int error;

	memory->snapshot = calloc((size_t)args->operands + 1, sizeof(*memory->snapshot));
	for (int i = 0; memory->snapshot && i < args->operands; i++) {
		struct memory_snapshot *snapshot = &memory->snapshot[memory->snapshots];

		if (!is_snapshot(args->argv[i]))
			continue;
		error = snapshot_open(&snapshot->trace, args->argv[i], stop, why, sizeof(why));
		if (error == -EINTR) {
			stop_end();
			return 130;
		}
		if (error)
			return cli_error(args->command->name, "%s: %s", cli_name(args->argv[i]),
					 why);
		memory->snapshots++;
		snprintf(snapshot->path, sizeof(snapshot->path), "/proc/self/fd/%d",
			 fileno(snapshot->trace));
		args->argv[i] = snapshot->path;
	}
	memory->survey.heads = memory_asks_indexes(memory);
	return memory->snapshot ? -1 : survey_end(&memory->survey, -ENOMEM);
}

static int memory_main(const struct cli_command *command, int argc, char **argv)
{
	struct memory memory = { .survey = { .command = command,
					     .user = &memory,
					     .select = &memory.select,
					     .begin = open_snapshots,
					     .body = read_and_print,
					     .row_limit = SURVEY_FEW_ROWS,
					     .few_rows = 20,
					     .partials = true },
				 .sums = { .items = PFW_SORTER_EMPTY } };
	int status = survey_main(&memory.survey, argc, argv);

	pfw_memory_release(&memory.sums);
	for (size_t i = 0; i < memory.snapshots; i++)
		fclose(memory.snapshot[i].trace);
	free(memory.snapshot);
	return status;
}

static const struct cli_option memory_options[] = {
	{ "bins", 'b', "N", "also the course over time, in N intervals",
	  CLI_INTO(struct memory, bins), .least = 1, .most = BINS_MAX },
	{ "blocks", 0, "N", "also the N greatest blocks: when each was allocated and freed",
	  CLI_INTO(struct memory, lives_most), .least = 1, .most = BLOCKS_MAX },
	{ "row-limit", 0, "N",
	  "rows of allocators and of unfreed blocks (default in text and md: 20); -1: all",
	  SURVEY_ROW_LIMIT },
	SELECT_ARGS_TIMES,
	SELECT_ARGS_PROCESSES,
	{ "step", 0, "LIST", "events of these steps", .id = SELECT_ARGS + PFW_SELECT_STEP },
	{ "where", 'w', "EXPR", "an expression over any field: args.bytes > 1048576",
	  .id = SELECT_ARGS + PFW_SELECT_WHERE },
	SURVEY_OPTION_ALL_RUNS,
	SURVEY_OPTION_WIDE,
	SURVEY_OPTIONS,
	{ "format", 0, SURVEY_FORMAT_NAMES,
	  "md: to paste; for programs times in µs, sizes in bytes; csv and tsv have the devices only",
	  SURVEY_INTO(format) },
	{ 0 },
};

const struct cli_command cli_memory = {
	.name = "memory",
	.operands = "[PATH...]",
	.summary = "Show allocations: peaks, growth in each step, who allocates, what is not freed",
	.options = memory_options,
	.details = SURVEY_PATHS
	"Read from events of kind memory: PyTorch's (profile_memory=True) and CUPTI's\n"
	"(PFW_CUPTI=memory).  PATH may also be a snapshot, the pickle written by\n"
	"torch.cuda.memory._dump_snapshot(); nothing in the pickle is executed.\n"
	"docs/analysis.rst defines the terms.\n",
	.main = memory_main,
};
