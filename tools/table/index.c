/* tools/table/index.c - fills the rows of `pfw table` from indexes alone, if they can answer. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "store/index/index.h"
#include "store/kit/grow.h"
#include "store/kit/saturate.h"
#include "store/line/io.h"
#include "table/answer.h"
#include "table/columns.h"

#define STEP_BITS 65536u

/* What no index knows of rows of steps, which have no conditions but ranks. */
static const char *needed_by_steps(const struct table_options *options)
{
	if (table_bits(options) & ~(TABLE_BIT(TABLE_STEP) | TABLE_BIT(TABLE_RANK)) &&
	    !table_asks_step_kinds(options))
		return "--group-by step with another field";
	if (options->plain || options->filtered || select_args_but_rank(&options->reach))
		return "--group-by step with a condition other than --rank, or with --plain,";
	return NULL;
}

const char *table_needs_lines(const struct table_options *options)
{
	static const char *const by[TABLE_FIELDS] = {
		[TABLE_SHAPE] = "--group-by shape with --plain",
		[TABLE_STACK] = "--group-by stack",
		[TABLE_LINE] = "--group-by line",
		[TABLE_FNAME] = "--group-by fname with another field, or with --plain,",
		[TABLE_OPERATOR] = "--group-by operator with --plain",
		[TABLE_ARG... TABLE_ARG_LAST] = "--group-by args.KEY with --plain",
	};
	bool args = table_asks_args(options);
	struct pfw_select reach = options->reach, wanted = options->wanted;
	enum pfw_index_order order;
	const char *lacks;

	if (options->survey->no_index)
		return "--no-index";
	if (options->by_file) {
		if (options->filtered || select_args_but_rank(&options->reach))
			return "--group-by fname with a condition other than --rank";
		if (!options->survey->row_limit)
			return "--group-by fname without a row";
		return table_columns_of_files(options, &order)
			       ? NULL
			       : "--group-by fname with these columns or this order";
	}
	if (options->by_step)
		return needed_by_steps(options);
	for (unsigned i = 0; i < options->fields; i++) {
		bool shape = options->field[i] == TABLE_SHAPE && !options->plain;

		if (by[options->field[i]] && !shape &&
		    !(args && options->field[i] >= TABLE_OPERATOR))
			return by[options->field[i]];
	}
	if ((options->plain || args) && table_asks_threads(options))
		return args ? "rows by args or operator of processes or threads"
			    : "--plain of processes or threads";
	lacks = args ? table_args_need_lines(options) : NULL;
	reach.pid.count = reach.tid.count = 0;
	wanted.where_count = args || table_where_of_names(options) ? 0 : wanted.where_count;
	lacks = lacks ? lacks : select_args_need_lines(&reach);
	return lacks ? lacks : select_args_need_lines(&wanted);
}

/* Whether a file takes part.  Of all conditions on what takes part, indexes know ranks only. */
static bool takes_part(const struct table_options *options, const struct pfw_trace_file *file)
{
	return pfw_select_rank(&options->reach, file->head.rank);
}

/* Whether a row has all steps of a trace. */
static bool is_steps(const struct pfw_summary_name *name)
{
	return name->name_bytes == sizeof(PFW_SUMMARY_STEPS) - 1 &&
	       memcmp(name->name, PFW_SUMMARY_STEPS, name->name_bytes) == 0;
}

/* An event with this name; of steps, with that of any of them. */
static struct pfw_entry as_entry(const struct pfw_summary_name *name)
{
	static const struct pfw_slice step = { .at = "ProfilerStep#0", .bytes = 14 };
	const struct pfw_slice its = { .at = name->name, .bytes = name->name_bytes };
	const struct pfw_slice cat = { .at = name->cat, .bytes = name->cat_bytes };

	struct pfw_entry entry = table_event_named(is_steps(name) ? step : its, cat);

	entry.ph = name->ph == 'M' ? 'M' : 'X';
	return entry;
}

/* What the calls of a name mapped or touched, and their time if they are on no files. */
static void add_apart(struct table *table, const struct pfw_summary_name *name)
{
	const struct pfw_slice cat = { .at = name->cat, .bytes = name->cat_bytes };
	const struct pfw_slice its = { .at = name->name, .bytes = name->name_bytes };

	table_add_memory(table->memory, &its, name->transfers ? 0 : name->bytes);
	table_add_apart(table->apart_ns, &cat, pfw_saturate_i128(name->sum_ns));
}

static int add_name(const struct answer *answer, struct pfw_average *row,
		    const struct pfw_summary_name *name)
{
	struct pfw_tally *sums = &row->sums;
	const struct pfw_tally more = { .count = name->count,
					.total_ns = pfw_saturate_i128(name->sum_ns),
					.self_ns = pfw_saturate_i128(name->sum_ns),
					.timed = name->durations.total,
					.min_ns = name->min_ns,
					.max_ns = name->max_ns };

	/* No index has the begins of calls; no column needs them. */
	pfw_tally_merge(sums, &more);
	if (name->transfers) {
		sums->transfers += name->transfers;
		sums->bytes = pfw_saturate_add(sums->bytes, pfw_saturate_i128(name->bytes));
		sums->transfer_ns =
			pfw_saturate_add(sums->transfer_ns, pfw_saturate_i128(name->transfer_ns));
	}
	return answer->table->too_many ? 0
				       : pfw_sketch_merge(&row->durations, &name->durations, true);
}

bool table_answer_wants(struct answer *answer, const struct pfw_entry *entry)
{
	return !answer->options->filtered ||
	       pfw_select_entry(&answer->options->wanted, answer->wanted, 0, entry);
}

int64_t table_answer_row(struct answer *answer, const struct pfw_table_line *line,
			 const struct pfw_entry *entry)
{
	if (!table_answer_wants(answer, entry))
		return -ENOENT;
	table_key_fields(&answer->key, answer->options, line, entry, answer->rank);
	return pfw_table_key_row(&answer->key, &answer->table->rows);
}

int table_add_names(struct answer *answer, const struct pfw_summary *summary)
{
	bool names = table_asks_names(answer->options);

	/* The summary had no room for all names. */
	if (summary->name[0].count)
		return table_lacks(answer, "a table of more names than fit in a summary");
	for (uint32_t i = 1; i < summary->names; i++) {
		const struct pfw_summary_name *name = &summary->name[i];
		struct pfw_entry entry = as_entry(name);
		struct pfw_table_line line;
		int64_t row;

		if (pfw_io_is_mapping(&entry) && table_answer_wants(answer, &entry))
			add_apart(answer->table, name);
		if (name->ph != 'X' && name->ph != 's')
			continue;
		/* Their lines know which of the steps have a name that is asked for. */
		if (is_steps(name) && names)
			return table_lacks(answer, "the name of a step");
		/* The index has "" for no name, too. */
		if (answer->options->wanted.where_count && (!name->name_bytes || !name->cat_bytes))
			return table_lacks(answer, "--where, where lines have no name,");
		if (!pfw_table_line_name(&line, &entry, answer->options->plain))
			continue;
		if (line.section != PFW_TABLE_IO) {
			answer->nests = true;
			continue;
		}
		row = table_answer_row(answer, &line, &entry);
		if (row == -ENOENT)
			continue;
		add_apart(answer->table, name);
		if (row < 0 || add_name(answer, &answer->table->rows.row[row], name))
			return -ENOMEM;
	}
	return 1;
}

/* Add only what is told apart.  Returns as table_add_names(). */
static int add_all_apart(struct answer *answer, const struct pfw_summary *summary)
{
	for (uint32_t i = 1; i < summary->names; i++) {
		struct pfw_entry entry = as_entry(&summary->name[i]);

		if (pfw_is_io(&entry.cat) || pfw_io_is_mapping(&entry))
			add_apart(answer->table, &summary->name[i]);
	}
	return !summary->name[0].count;
}

static int add_row(void *user, const struct pfw_table_row *row)
{
	struct answer *answer = user;
	const struct pfw_table_line line = { .section = PFW_TABLE_COMPUTE,
					     .device = row->device,
					     .annotation = row->annotation,
					     .name = row->name,
					     .cat = row->cat,
					     .shapes = row->shape,
					     .shapes_text = true,
					     .step = -1 };
	const struct pfw_entry entry = table_event_named(row->name, row->cat);
	int64_t number = table_answer_row(answer, &line, &entry);

	if (number >= 0)
		pfw_tally_merge(&answer->table->rows.row[number].sums, &row->sums);
	return number == -ENOMEM ? -ENOMEM : 0;
}

/* Add the rows of spans and GPU work of a file.  Returns as table_add_names(). */
static int add_nested(struct answer *answer, struct pfw_index *index)
{
	struct pfw_table_rows rows = { .user = answer, .row = add_row };
	int error = pfw_table_from_index(index, &rows);

	answer->table->says |= rows.says;
	return error == -ENOMEM ? error
	       : !error		? 1
				: table_lacks(answer, "a table of so many names and shapes");
}

/* The number of a process, or -ENOMEM.  Of 100,000 hosts with a container each, several have a process of
 * the same pid and the same start. */
static int64_t process_of(struct answer *answer, const struct pfw_summary_process *process)
{
	int64_t number =
		pfw_pair_ids_of(&answer->processes, process->pid, (uint64_t)process->start_ns);
	int64_t host = pfw_text_ids_of(&answer->hosts, 0, process->host, strlen(process->host));

	if (number < 0 || host < 0)
		return -ENOMEM;
	return pfw_pair_ids_of(&answer->hosted, (uint64_t)number, (uint64_t)host);
}

/* Whether no process of a file is in a file before: spans of one may lie in spans of the other. */
static int add_processes(struct answer *answer, const struct pfw_summary *summary)
{
	for (uint32_t i = 0; i < summary->processes; i++) {
		const struct pfw_summary_process *process = &summary->process[i];
		uint32_t known = answer->hosted.count;
		int64_t number = process_of(answer, process);

		if (number < known)
			return number < 0
				       ? -ENOMEM
				       : table_lacks(
						 answer,
						 "the nesting of a process whose files were reduced apart");
	}
	return 1;
}

/* Whether an index, whose times are noted, has all.  Nested calls, whose self time is not their duration,
 * need the lines. */
static bool is_enough(struct answer *answer, const struct pfw_trace_file *file,
		      struct pfw_index *index)
{
	const struct pfw_index_meta *meta = pfw_index_meta(index);

	if (!table_limits_threads(answer->options))
		table_extent_add(&answer->table->extent, meta->least_ns, meta->greatest_ns);
	if (survey_keep_problems(answer->options->survey, file->path, index))
		return table_lacks(answer, "what its damaged lines say");
	return answer->options->plain || !meta->nested ||
	       table_lacks(answer, "self times of calls inside calls");
}

static bool is_place(const struct step_place *a, const struct step_place *b)
{
	return a->known && a->step == b->step && a->section == b->section &&
	       a->device == b->device && a->rank == b->rank;
}

/* The number of a row of a step of the file; with `add` it is added if there is none.  Negative: none, or
 * -ENOMEM. */
static int64_t find_step(struct answer *answer, enum pfw_table_section section, int device,
			 int64_t step, bool add)
{
	static const struct pfw_entry entry = { .kind = PFW_ENTRY_EVENT };
	const struct step_place place = {
		.known = true,
		.section = (signed char)section,
		.device = (signed char)device,
		.step = step,
		.rank = table_bits(answer->options) & TABLE_BIT(TABLE_RANK) ? answer->rank : 0
	};
	struct pfw_averages *rows = &answer->table->rows;
	struct pfw_table_key *key = &answer->key;
	int64_t number = (int64_t)answer->next_place;

	if (answer->next_place >= answer->place_room ||
	    !is_place(&answer->place[answer->next_place], &place)) {
		answer->step.section = section;
		answer->step.device = device;
		answer->step.name.at = "";
		answer->step.step = step;
		table_key_fields(key, answer->options, &answer->step, &entry, answer->rank);
		number = key->failed ? -ENOMEM
			 : add	     ? pfw_table_key_row(key, rows)
				     : pfw_averages_find(rows, key->text, key->bytes);
		if (number < 0)
			return number;
		if (PFW_REACH(answer->place, (size_t)number, answer->place_room))
			return -ENOMEM;
		answer->place[number] = place;
	}
	answer->next_place = (size_t)number + 1;
	return number;
}

static int add_step(void *user, const struct pfw_table_step_row *row)
{
	struct answer *answer = user;
	int64_t number;

	if (row->section != PFW_TABLE_IO && table_asks_step_kinds(answer->options))
		return 0; /* table_add_kind() adds them */
	number = find_step(answer, row->section, row->device, row->step, true);
	if (number < 0)
		return -ENOMEM;
	pfw_tally_merge(&answer->table->rows.row[number].sums, &row->sums);
	return 0;
}

/* The durations of a step's calls, if they are needed. */
static int add_durations(void *user, int64_t step, struct pfw_varints durations)
{
	struct answer *answer = user;
	uint64_t bit = (uint64_t)step % STEP_BITS;
	int64_t number;

	/* Most steps have no row that is shown. */
	if (answer->steps && !(answer->steps[bit / 8] >> bit % 8 & 1))
		return 0;
	number = find_step(answer, PFW_TABLE_IO, 0, step, false);
	if (number < 0)
		return number == -ENOMEM ? -ENOMEM : answer->needs ? 0 : -EBADMSG;
	return !answer->needs || answer->needs[number]
		       ? pfw_table_add_durations(&answer->table->rows.row[number].durations,
						 durations)
		       : 0;
}

/* Note whose steps the events of a file may be in.  Returns as table_add_names(). */
static int add_leaders(struct answer *answer, const struct pfw_trace_file *file,
		       const struct pfw_table_step_rows *rows)
{
	int64_t rank = pfw_text_ids_of(&answer->ranks, file->head.rank, file->head.run,
				       strlen(file->head.run));

	if (rank < 0 || PFW_REACH(answer->leaders, (size_t)rank, answer->leaders_room))
		return -ENOMEM;
	/* Events of processes without steps are in those of the one process of their rank that has
	 * some: their file alone tells which, unless another file of the rank has such a process. */
	answer->strays |= rows->followers && answer->leaders[rank].steps;
	answer->strays |= rows->leaders && answer->leaders[rank].followers;
	answer->leaders[rank].steps += rows->leaders;
	answer->leaders[rank].followers |= rows->followers;
	return !answer->strays || table_lacks(answer, "steps of a process in another file");
}

/* Add the rows of the steps of a file.  Returns as table_add_names(). */
static int add_steps(struct answer *answer, struct pfw_index *index,
		     const struct pfw_trace_file *file)
{
	bool kinds = table_asks_step_kinds(answer->options);
	struct pfw_table_step_rows rows = { .user = answer,
					    .row = add_step,
					    .kind = kinds ? table_add_kind : NULL };
	struct pfw_table_step_durations durations = { answer, add_durations };
	int error = pfw_table_steps_from_index(index, &rows);

	if (!error && !answer->table->late && !answer->table->too_many)
		error = pfw_table_durations_from_index(index, &durations);
	answer->table->says |= rows.says;
	if (error)
		return error == -ENOMEM ? error
					: table_lacks(answer, "a table of no step, or of so many");
	if (kinds && rows.says & PFW_TABLE_SAYS_ARGS)
		return table_lacks(answer, "args.kind of calls");
	/* Without FLOPs nobody asks how long the steps took. */
	if (rows.says & PFW_TABLE_SAYS_FLOPS && table_columns_ask_steps(answer->options))
		return table_lacks(answer, "--group-by step with FLOP/s");
	return add_leaders(answer, file, &rows);
}

static int add_totals(struct answer *answer, struct pfw_index *index)
{
	struct pfw_summary summary;
	unsigned parts = PFW_INDEX_PROCESSES |
			 (answer->by_thread ? PFW_INDEX_THREADS : PFW_INDEX_NAMES);
	int answered = -ENOMEM;

	if (pfw_summary_init(&summary))
		return answered;
	answered = !pfw_index_totals(index, parts, &summary);
	if (answered > 0 && answer->by_thread)
		answered = table_add_extent(answer, &summary);
	else if (answered > 0)
		answered = answer->options->by_step ? add_all_apart(answer, &summary)
						    : table_add_names(answer, &summary);
	if (answered > 0)
		answered = add_processes(answer, &summary);
	pfw_summary_release(&summary);
	return answered;
}

static int add_file(struct answer *answer, struct pfw_indexes_ahead *ahead, size_t number)
{
	const struct pfw_trace_file *file = &answer->table->traces->file[number];
	struct pfw_index *index;
	int answered = 0, error;

	/* An index has sums of the whole file only, not of one rank. */
	if (file->ranks)
		return table_lacks(answer, "what one rank in a file of several does");
	error = pfw_index_ahead(ahead, number, &index);
	if (error)
		return table_lacks(answer, error == -EBADMSG ? "what its damaged index had" : NULL);
	answer->rank = file->head.rank;
	answer->nests = false;
	if (is_enough(answer, file, index))
		answered = add_totals(answer, index);
	if (answered > 0 && answer->by_thread)
		answered = table_add_threads(answer, index);
	else if (answered > 0 && answer->options->by_step)
		answered = add_steps(answer, index, file);
	else if (answered > 0 && answer->nests)
		answered = table_asks_args(answer->options) ? table_add_works(answer, index)
							    : add_nested(answer, index);
	pfw_index_close(index);
	return answered;
}

/* ---- files ---- */

/* Make a row of a file, and subtract it from the rest. */
static int add_top(struct answer *answer, const struct pfw_summary_file *file)
{
	const struct pfw_entry entry = { .kind = PFW_ENTRY_EVENT };
	const struct pfw_table_line line = { .section = PFW_TABLE_IO,
					     .step = -1,
					     .fname = { .at = file->name,
							.bytes = file->name_bytes } };
	int64_t ns = (int64_t)pfw_summary_file_ns(file);
	const struct pfw_tally sums = {
		.count = pfw_summary_file_calls(file),
		.total_ns = ns,
		.self_ns = ns,
		.transfers = file->transfers,
		.transfer_ns = (int64_t)file->transfer_ns,
		.bytes = (int64_t)pfw_summary_file_bytes(file),
	};
	struct pfw_tally *rest = &answer->table->rest;
	int64_t row;

	table_key_fields(&answer->key, answer->options, &line, &entry, -1);
	row = pfw_table_key_row(&answer->key, &answer->table->rows);
	if (row < 0)
		return -ENOMEM;
	answer->table->rows.row[row].sums = sums;
	rest->count -= sums.count;
	/* Less than nothing: the sum of all saturated, as it does again with this row. */
	rest->total_ns = rest->self_ns = sums.self_ns < rest->self_ns ? rest->self_ns - sums.self_ns
								      : 0;
	rest->bytes = sums.bytes < rest->bytes ? rest->bytes - sums.bytes : 0;
	return 0;
}

/* Add the first files by the order of the options.  1; 0: the indexes are not enough; -ENOMEM. */
static int add_tops(struct answer *answer, struct pfw_indexes *indexes)
{
	int64_t rows = answer->options->survey->row_limit;
	/* One more, which tells whether there are more. */
	struct pfw_index_top top = { .limit = rows < 0 ? SIZE_MAX : (size_t)rows + 1 };
	struct pfw_summary files;
	int error;

	table_columns_of_files(answer->options, &top.order);
	if (pfw_summary_init(&files))
		return -ENOMEM;
	error = pfw_index_top_files(indexes, &top, &files);
	if (error || files.file[0].lines) {
		pfw_summary_release(&files);
		return error == -ENOMEM ? error : 0;
	}
	answer->table->rest = (struct pfw_tally){ .count = top.calls,
						  .total_ns = (int64_t)top.ns,
						  .self_ns = (int64_t)top.ns,
						  .bytes = (int64_t)top.bytes };
	for (uint32_t i = 0; i < files.files && !error; i++)
		error = add_top(answer, &files.file[i]);
	pfw_summary_release(&files);
	return error ?: 1;
}

static int add_apart_of(struct answer *answer, struct pfw_index *index)
{
	struct pfw_summary summary;
	int answered = -ENOMEM;

	if (pfw_summary_init(&summary))
		return answered;
	answered = !pfw_index_totals(index, PFW_INDEX_NAMES, &summary);
	if (answered)
		answered = add_all_apart(answer, &summary);
	pfw_summary_release(&summary);
	return answered;
}

/* Add the files of all indexes.  Returns as add_tops(). */
static int add_files(struct answer *answer, struct pfw_indexes *indexes)
{
	int answered = 1;

	table_lacks(answer, "what its damaged index had, or a table of so many files");
	for (size_t i = 0; answered > 0 && i < indexes->count; i++) {
		struct pfw_index *index;
		int error;

		if (indexes->file[i].ranks)
			return table_lacks(answer, "what one rank in a file of several does");
		error = pfw_indexes_get(indexes, i, &index);
		if (error)
			return table_lacks(answer, error == -EBADMSG ? answer->table->lacks : NULL);
		answered = is_enough(answer, &indexes->file[i], index);
		if (answered > 0)
			answered = add_apart_of(answer, index);
	}
	return answered > 0 ? add_tops(answer, indexes) : answered;
}

static int answer_files(struct answer *answer, const struct pfw_traces *traces)
{
	struct pfw_trace_file *file = calloc(traces->count + 1, sizeof(*file));
	struct pfw_indexes indexes = { .file = file };
	int answered;

	if (!file)
		return -ENOMEM;
	for (size_t i = 0; i < traces->count; i++) {
		if (takes_part(answer->options, &traces->file[i]))
			file[indexes.count++] = traces->file[i];
	}
	answered = add_files(answer, &indexes);
	pfw_indexes_close(&indexes);
	free(file);
	return answered;
}

/* ---- the answer ---- */

/* Whether rows need no durations until it is known which are shown. */
static bool is_late(const struct table_options *options)
{
	return options->by_step && options->percentiles && options->survey->row_limit >= 0 &&
	       !table_columns_sort_by_percentile(options);
}

static int read_durations(struct answer *answer)
{
	const struct pfw_traces *traces = answer->table->traces;
	int error = 0;

	for (size_t i = 0; i < traces->count && !error; i++) {
		struct pfw_table_step_durations durations = { answer, add_durations };
		struct pfw_index *index;

		if (!takes_part(answer->options, &traces->file[i]))
			continue;
		error = pfw_index_of(&index, &traces->file[i]);
		if (error)
			break;
		answer->rank = traces->file[i].head.rank;
		error = pfw_table_durations_from_index(index, &durations);
		pfw_index_close(index);
	}
	return error;
}

/* Note the steps of rows whose durations are read. */
static void note_steps(struct answer *answer, const struct pfw_average *const *row, size_t rows)
{
	unsigned field = 0;

	while (answer->options->field[field] != TABLE_STEP)
		field++;
	for (size_t i = 0; i < rows; i++) {
		size_t bytes;
		const char *text = table_text(row[i], field, &bytes);
		uint64_t step = bytes ? 0 : UINT64_MAX; /* none is -1 */

		for (size_t at = 0; at < bytes; at++)
			step = step * 10 + (uint64_t)(text[at] - '0');
		answer->steps[step % STEP_BITS / 8] |= (uint8_t)(1u << step % 8);
	}
}

int table_read_durations(struct table *table, const struct table_options *options,
			 const struct pfw_average *const *row, size_t rows)
{
	uint8_t *needs = calloc(1, (size_t)table->rows.count + 1), steps[STEP_BITS / 8] = { 0 };
	struct answer answer = {
		.options = options, .table = table, .needs = needs, .steps = steps
	};
	int error = -ENOMEM;

	for (size_t i = 0; i < rows && needs; i++)
		needs[row[i] - table->rows.row] = 1;
	if (needs) {
		note_steps(&answer, row, rows);
		error = read_durations(&answer);
	}
	pfw_table_key_release(&answer.key);
	free(answer.place);
	free(needs);
	return error;
}

static bool wants_file(void *user, size_t file)
{
	const struct answer *answer = user;

	return takes_part(answer->options, &answer->table->traces->file[file]);
}

/* Add all files.  Returns as table_add_names(). */
static int add_all(struct answer *answer)
{
	const struct table_options *options = answer->options;
	struct table *table = answer->table;
	struct pfw_indexes_ahead *ahead;
	int answered = 1;

	if (pfw_indexes_ahead_open(&ahead, table->traces, survey_jobs(options->survey), answer,
				   wants_file, NULL))
		return -ENOMEM;
	for (size_t i = 0; i < table->traces->count && answered > 0; i++) {
		if (wants_file(answer, i))
			answered = add_file(answer, ahead, i);
		if (table->rows.count > answer->rows_most) {
			table_limit_sketches(table, options);
			answer->rows_most = 2 * table->rows.count;
		}
	}
	pfw_indexes_ahead_close(ahead);
	return answered;
}

int table_from_index(struct table *table, const struct table_options *options,
		     const struct pfw_traces *traces)
{
	struct answer answer = { .options = options,
				 .table = table,
				 .by_thread = table_asks_threads(options),
				 .rows_most = TABLE_SKETCHES_MAX };
	int answered;

	table->late = is_late(options);
	answer.wanted = pfw_select_state_create(&options->wanted);
	if (!answer.wanted)
		return -ENOMEM;
	answered = options->by_file ? answer_files(&answer, traces) : add_all(&answer);
	if (answered > 0)
		table_limit_sketches(table, options);
	pfw_table_key_release(&answer.key);
	pfw_select_state_free(answer.wanted);
	pfw_pair_ids_release(&answer.processes);
	pfw_pair_ids_release(&answer.hosted);
	pfw_text_ids_release(&answer.hosts);
	pfw_text_ids_release(&answer.ranks);
	free(answer.leaders);
	free(answer.place);
	if (answered > 0)
		survey_tell_problems(options->survey);
	if (answered <= 0) {
		survey_forget_problems(options->survey);
		table->says = 0;
		table->late = table->too_many = false;
		table->rest = (struct pfw_tally){ 0 };
		memset(table->memory, 0, sizeof(table->memory));
		memset(table->apart_ns, 0, sizeof(table->apart_ns));
		table->extent = TABLE_EXTENT_NONE;
		pfw_averages_release(&table->rows);
	}
	return answered;
}
