/* tools/patterns/patterns.c - `pfw patterns`: sizes, order, alignment, sharing, metadata of file
 * accesses.
 */
#include "patterns/patterns.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/order.h"
#include "share/unasked.h"
#include "store/index/index.h"
#include "store/kit/grow.h"
#include "store/pass/pass.h"
#include "store/patterns/in_index.h"

struct collect {
	struct patterns *patterns;
	const struct survey_input *input;
	const struct pfw_traces *traces;
	bool *indexed; /* files that their index has answered */
};

/* The call that a line `summed` adds up, or that a line `mapping` stands for at the process's
 * end. */
static bool call_of(const struct pfw_entry *entry, struct pfw_slice *name)
{
	struct pfw_value value;

	if (pfw_slice_is(&entry->name, "mapping")) {
		*name = (struct pfw_slice){ .at = "munmap", .bytes = strlen("munmap") };
		return true;
	}
	if (!pfw_entry_arg(entry, "name", &value) || value.type != PFW_VALUE_STRING)
		return false;
	*name = value.text;
	return true;
}

static bool wanted(const struct pfw_select *select, struct pfw_select_state *state, size_t file,
		   const struct pfw_entry *entry)
{
	struct pfw_slice cat = { .escaped = false }, name;

	if (entry->ph != 'M')
		return pfw_select_entry(select, state, file, entry);
	if (!call_of(entry, &name))
		return false;
	cat.at = pfw_io_call_cat(name.at, name.bytes);
	cat.bytes = strlen(cat.at);
	return survey_wants(select, state, file, entry, true, name, cat);
}

static void drop(void *result)
{
	pfw_patterns_block_release(result);
	free(result);
}

static int work(void *user, const struct survey_worker *worker, struct pfw_pass_block *block)
{
	const struct collect *collect = user;
	const struct pfw_select *select = &collect->patterns->select;
	struct pfw_pass_lines lines;
	int error = 0;

	pfw_pass_lines_init(&lines, block);
	while (!error && pfw_pass_lines_next(&lines))
		error = pfw_patterns_block_add(block->result, &lines.entry, select->fnames,
					       wanted(select, worker->state, block->file,
						      &lines.entry));
	return error;
}

struct patterns_rank *patterns_find_rank(struct patterns *patterns, int64_t rank)
{
	size_t low = PFW_BISECT(i, patterns->ranks, patterns->rank[i].rank < rank);
	struct patterns_rank *at;

	if (low < patterns->ranks && patterns->rank[low].rank == rank)
		return &patterns->rank[low];
	if (PFW_APPEND(patterns->rank, patterns->ranks, (struct patterns_rank){ .rank = rank }))
		return NULL;
	/* Files come in order of rank, so that it mostly is the last. */
	at = &patterns->rank[low];
	memmove(at + 1, at, (patterns->ranks - 1 - low) * sizeof(*at));
	*at = (struct patterns_rank){ .rank = rank };
	return at;
}

static int done(void *user, struct pfw_pass_block *block)
{
	struct collect *collect = user;
	struct pfw_patterns_block *result = block->result;
	int64_t rank = collect->traces->file[block->file].head.rank;
	struct patterns_rank *known = patterns_find_rank(collect->patterns, rank);
	int error = known ? 0 : -ENOMEM;

	if (!error)
		error = pfw_patterns_take(&collect->patterns->found, block->file, rank, result);
	for (unsigned i = 0; i < 2 && known; i++) {
		known->counters.io[i] += result->counters.io[i];
		known->counters.storage[i] += result->counters.storage[i];
		known->counters.any |= result->counters.any;
	}
	return error;
}

/* All blocks of a wanted rank before --until, since earlier ones give the offsets of
 * descriptors. */
static bool want(void *user, size_t file, const struct pfw_block *block)
{
	const struct collect *collect = user;
	const struct pfw_select *select = &collect->patterns->select;

	return !collect->indexed[file] && pfw_select_ranks_block(select, file, block) &&
	       !(select->times && block->summed &&
		 block->least_ns >= select->window[file].until_ns);
}

/* ---- from indexes ---- */

/* The option that no index can answer; NULL: none. */
static const char *needs_lines(const struct patterns *patterns)
{
	if (patterns->survey.no_index)
		return "--no-index";
	return pfw_patterns_indexable(&patterns->found) ? select_args_but_rank(&patterns->select)
							: "--alignment or --small";
}

/* 1; 0 if the lines must be read; -ENOMEM.  Only a rank with lines is known, as where they are
 * read. */
static int ask_index(struct collect *collect, size_t file)
{
	const struct pfw_trace_file *trace = &collect->traces->file[file];
	struct survey *survey = &collect->patterns->survey;
	struct pfw_pattern_counters counters = { 0 };
	struct patterns_rank *rank;
	struct pfw_index *index;
	int error;

	/* An index covers its whole file, but no lines in rings. */
	if (trace->ranks || collect->input->live.live[file] || pfw_index_of(&index, trace))
		return 0;
	error = survey_keep_problems(survey, trace->path, index);
	error = error ? error
		      : pfw_patterns_from_index(&collect->patterns->found, trace->head.rank,
						&counters, index);
	pfw_index_close(index);
	if (error) {
		survey_forget_problems(survey);
		return error == -ENOMEM ? error : 0;
	}
	survey_tell_problems(survey);
	rank = patterns_find_rank(collect->patterns, trace->head.rank);
	if (!rank)
		return -ENOMEM;
	pfw_pattern_add_counters(&rank->counters, &counters);
	return 1;
}

static int ask_indexes(struct collect *collect, const char *lacks)
{
	collect->indexed = calloc(collect->traces->count + 1, sizeof(bool));
	if (!collect->indexed)
		return -ENOMEM;
	for (size_t i = 0; i < collect->traces->count; i++) {
		int asked = 0;

		if (!lacks && pfw_select_file(&collect->patterns->select, i))
			asked = ask_index(collect, i);
		if (asked < 0)
			return asked;
		collect->indexed[i] = asked;
		if (!asked && collect->traces->file[i].partial &&
		    pfw_select_file(&collect->patterns->select, i) &&
		    survey_lacks(&collect->patterns->survey, collect->input,
				 lacks ? lacks
				       : "what these options ask for, or a file of several ranks,"))
			return -ENOENT;
	}
	return 0;
}

/* Read the traces.  0 or -errno; -ENOENT after a message: a partial has not what is asked for, or a file is gone.
 * Thread: main, as below. */
static int collect_operations(struct patterns *patterns, struct survey_input *input)
{
	struct collect collect = { .patterns = patterns, .input = input, .traces = &input->traces };
	const struct survey_fold fold = { .user = &collect,
					  .select = &patterns->select,
					  .want = want,
					  .result_bytes = sizeof(struct pfw_patterns_block),
					  .work = work,
					  .done = done,
					  .drop = drop };
	const char *lacks = needs_lines(patterns);
	bool few = !lacks && !input->live.any;
	int error = few ? patterns_find_few(patterns, &input->traces) : 0;

	if (few && !error && !patterns->few.known &&
	    unasked_of_survey(&patterns->survey, &input->traces))
		error = patterns_find_few(patterns, &input->traces);
	if (error || patterns->few.known)
		return error;
	if (!patterns->survey.no_index)
		patterns->survey.lacks = lacks;
	error = ask_indexes(&collect, lacks);
	if (!error && pfw_traces_lay_out(&input->traces, survey_say, &patterns->survey))
		error = -ENOENT;
	if (!error)
		error = survey_read(&patterns->survey, input, &fold, SURVEY_ALL);
	if (!error)
		error = pfw_patterns_end(&patterns->found);
	pfw_patterns_close(&patterns->found);
	free(collect.indexed);
	return error;
}

/* ---- the command ---- */

static int read_and_print(void *user, struct survey_input *input)
{
	struct patterns *patterns = user;
	struct survey *survey = &patterns->survey;
	int status = survey_attach(survey, input, NULL), error;

	patterns->select.ask_fnames = true;
	if (status == CLI_OK)
		status = survey_resolve(survey, input, &patterns->select);
	if (status != CLI_OK)
		return status;
	error = collect_operations(patterns, input);
	if (error == -ENOENT)
		return CLI_USAGE;
	return survey_end(survey, error ?: patterns_print(patterns));
}

static int begin(void *user, struct cli_args *args)
{
	struct patterns *patterns = user;

	(void)args;
	patterns->survey.indexed = !needs_lines(patterns);
	return -1;
}

static int patterns_main(const struct cli_command *command, int argc, char **argv)
{
	struct patterns patterns = { .survey = { .command = command,
						 .user = &patterns,
						 .select = &patterns.select,
						 .begin = begin,
						 .body = read_and_print,
						 .partials = true,
						 .row_limit = SURVEY_FEW_ROWS,
						 .few_rows = 50 } };
	int status;

	pfw_patterns_init(&patterns.found);
	status = survey_main(&patterns.survey, argc, argv);
	pfw_patterns_release(&patterns.found);
	patterns_free_few(&patterns.few);
	free(patterns.rank);
	return status;
}

static const struct cli_option patterns_options[] = {
	{ "alignment", 0, "BYTES",
	  "alignment that reads and writes are checked for (default: 4KiB)",
	  CLI_INTO(struct patterns, found.alignment), .least = 1, .most = INT64_MAX },
	{ "small", 0, "BYTES", "calls below BYTES are small (default: 1MiB)",
	  CLI_INTO(struct patterns, found.small), .least = 1, .most = INT64_MAX },
	{ "row-limit", 0, "N", "files shown (default in text and md: 50); -1: all",
	  SURVEY_ROW_LIMIT },
	SELECT_ARGS_TIMES,
	SELECT_ARGS_FILTERS,
	SURVEY_OPTION_ALL_RUNS,
	SURVEY_OPTION_ALL_RANKS,
	SURVEY_OPTION_WIDE,
	SURVEY_OPTIONS,
	{ "format", 0, SURVEY_FORMAT_NAMES,
	  "md: to paste; for programs times in µs, sizes in bytes", SURVEY_INTO(format) },
	{ 0 },
};

const struct cli_command cli_patterns = {
	.name = "patterns",
	.operands = "[PATH...]",
	.summary = "Show how files are used: sizes, order, alignment, sharing, metadata",
	.options = patterns_options,
	.details = SURVEY_PATHS
	"Rows are for all files, each rank and each file; files with most bytes come\n"
	"first.  The counters are Darshan's, counted from every single call.\n"
	"docs/analysis.rst defines the terms.\n",
	.main = patterns_main,
};
