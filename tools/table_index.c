/* table_index.c - the rows of `pfw table` from indexes alone, where those can answer. */
#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "store/call.h"
#include "store/index.h"
#include "store/saturate.h"
#include "table_columns.h"
#include "table_line.h"

/* One answer in the making. */
struct answer {
	const struct table_options *options;
	struct table *table;
	struct pfw_select_state *wanted;
	struct table_key key;
};

bool table_asks_indexes(const struct table_options *options)
{
	const struct pfw_select *reach = &options->reach, *wanted = &options->wanted;
	enum pfw_index_order order;

	if (options->by_file)
		return !options->limited && !options->filtered && options->row_limit > 0 &&
		       table_columns_of_files(options, &order);
	for (unsigned i = 0; i < options->fields; i++) {
		if (options->field[i] != TABLE_NAME && options->field[i] != TABLE_CAT &&
		    options->field[i] != TABLE_RANK)
			return false;
	}
	return !reach->since.kind && !reach->until.kind && !reach->pid.count && !reach->tid.count &&
	       !wanted->fname.count && !wanted->step.count && !wanted->has_min_dur &&
	       !wanted->where_count;
}

static int64_t narrowed(__int128 sum)
{
	return sum > INT64_MAX ? INT64_MAX : sum < INT64_MIN ? INT64_MIN : (int64_t)sum;
}

/* A name as the line of one of its events. */
static struct pfw_entry as_entry(const struct pfw_summary_name *name)
{
	return (struct pfw_entry){ .kind = PFW_ENTRY_EVENT,
				   .has = PFW_ENTRY_NAME | PFW_ENTRY_CAT | PFW_ENTRY_PH,
				   .ph = 'X',
				   .name = { .at = name->name, .bytes = name->name_bytes },
				   .cat = { .at = name->cat, .bytes = name->cat_bytes },
				   .args = { .at = "{}", .bytes = 2 } };
}

static int add_name(struct pfw_average *row, const struct pfw_summary_name *name)
{
	struct pfw_sums *sums = &row->sums;
	const struct pfw_sums more = { .count = name->count,
				       .total_ns = narrowed(name->sum_ns),
				       .self_ns = narrowed(name->sum_ns),
				       .timed = name->durations.total,
				       .min_ns = name->min_ns,
				       .max_ns = name->max_ns };

	/* Its calls took no row of their own: when they began is in no index, and not asked for. */
	pfw_sums_merge(sums, &more);
	if (name->moves != PFW_MOVES_NOTHING && (name->moves != PFW_MOVES_BYTES || name->bytes)) {
		sums->transfers += name->count;
		sums->bytes = pfw_saturate_add(
			sums->bytes, name->bytes > INT64_MAX ? INT64_MAX : (int64_t)name->bytes);
		sums->transfer_ns = pfw_saturate_add(sums->transfer_ns, narrowed(name->sum_ns));
	}
	return pfw_sketch_merge(&row->durations, &name->durations, true);
}

/* Add what a file holds.  1; 0 where its index is not enough; -ENOMEM. */
static int add_names(struct answer *answer, const struct pfw_summary *summary, int64_t rank)
{
	/* Beyond so many names some have no row. */
	if (summary->name[0].count)
		return 0;
	for (uint32_t i = 1; i < summary->names; i++) {
		const struct pfw_summary_name *name = &summary->name[i];
		struct pfw_entry entry = as_entry(name);
		struct table_line line;
		int64_t row;

		if (name->ph != 'X' && name->ph != 's')
			continue;
		if (!table_line_name(&line, &entry, answer->options->plain))
			continue;
		if (answer->options->filtered &&
		    !pfw_select_entry(&answer->options->wanted, answer->wanted, 0, &entry))
			continue;
		/* What lies in what only the lines can tell. */
		if (line.section != TABLE_IO)
			return 0;
		if (table_key_make(&answer->key, answer->options, &line, &entry, rank))
			return -ENOMEM;
		row = pfw_averages_row(&answer->table->rows, answer->key.text, answer->key.bytes);
		if (row < 0 || add_name(&answer->table->rows.row[row], name))
			return -ENOMEM;
	}
	return 1;
}

/* Problems are to be told, and time in other calls taken off theirs, which takes the lines. */
static bool is_enough(const struct table_options *options, const struct pfw_index *index)
{
	const struct pfw_index_meta *meta = pfw_index_meta(index);

	return !meta->problems && (options->plain || !meta->nested);
}

static int add_file(struct answer *answer, const struct pfw_trace_file *file)
{
	struct pfw_summary summary;
	struct pfw_index *index;
	char why[PATH_MAX];
	int answered = 0;

	/* An index adds up all of its file. */
	if (file->ranks)
		return 0;
	if (pfw_index_open(&index, file->path, why, sizeof(why)))
		return 0;
	if (pfw_summary_init(&summary)) {
		pfw_index_close(index);
		return -ENOMEM;
	}
	if (is_enough(answer->options, index) &&
	    pfw_index_totals(index, PFW_INDEX_NAMES, &summary) == 0)
		answered = add_names(answer, &summary, file->head.rank);
	pfw_summary_release(&summary);
	pfw_index_close(index);
	return answered;
}

/* ---- files ---- */

static int64_t at_most(uint64_t sum)
{
	return sum < INT64_MAX ? (int64_t)sum : INT64_MAX;
}

/* Make a row of a file, and take it from the rest. */
static int add_top(struct answer *answer, const struct pfw_summary_file *file)
{
	const struct pfw_entry entry = { .kind = PFW_ENTRY_EVENT };
	const struct table_line line = { .section = TABLE_IO,
					 .fname = { .at = file->name, .bytes = file->name_bytes } };
	int64_t ns = at_most(file->open_ns + file->read_ns + file->write_ns + file->other_ns);
	const struct pfw_sums sums = { .count = file->opens + file->reads + file->writes +
						file->others,
				       .total_ns = ns,
				       .self_ns = ns,
				       .transfers = file->transfers,
				       .transfer_ns = at_most(file->transfer_ns),
				       .bytes = at_most(file->read_bytes + file->written_bytes) };
	struct pfw_sums *rest = &answer->table->rest;
	int64_t row;

	if (table_key_make(&answer->key, answer->options, &line, &entry, -1))
		return -ENOMEM;
	row = pfw_averages_row(&answer->table->rows, answer->key.text, answer->key.bytes);
	if (row < 0)
		return -ENOMEM;
	answer->table->rows.row[row].sums = sums;
	rest->count -= sums.count;
	rest->total_ns = rest->self_ns -= sums.total_ns;
	rest->bytes -= sums.bytes;
	return 0;
}

/* The greatest of the files of these indexes.  1; 0 where they are not enough; -ENOMEM. */
static int add_tops(struct answer *answer, struct pfw_index *const *index, size_t count)
{
	struct pfw_index_top top = { .limit = (size_t)answer->options->row_limit };
	struct pfw_summary files;
	int error;

	table_columns_of_files(answer->options, &top.order);
	if (pfw_summary_init(&files))
		return -ENOMEM;
	error = pfw_index_top_files(index, count, &top, &files);
	if (error || files.file[0].lines || top.bytes > INT64_MAX || top.ns > INT64_MAX) {
		pfw_summary_release(&files);
		return error == -ENOMEM ? error : 0;
	}
	answer->table->rest = (struct pfw_sums){ .count = top.calls,
						 .total_ns = (int64_t)top.ns,
						 .self_ns = (int64_t)top.ns,
						 .bytes = (int64_t)top.bytes };
	for (uint32_t i = 0; i < files.files && !error; i++)
		error = add_top(answer, &files.file[i]);
	pfw_summary_release(&files);
	return error ? error : 1;
}

static int answer_files(struct answer *answer, const struct pfw_traces *traces)
{
	struct pfw_index **index = calloc(traces->count + 1, sizeof(struct pfw_index *));
	int answered = index ? 1 : -ENOMEM;
	char why[PATH_MAX];
	size_t opened = 0;

	for (; answered > 0 && opened < traces->count; opened++) {
		if (pfw_index_open(&index[opened], traces->file[opened].path, why, sizeof(why))) {
			answered = 0;
			break;
		}
		answered = is_enough(answer->options, index[opened]);
	}
	if (answered > 0)
		answered = add_tops(answer, index, opened);
	while (opened)
		pfw_index_close(index[--opened]);
	free(index);
	return answered;
}

/* ---- the answer ---- */

int table_from_index(struct table *table, const struct table_options *options,
		     const struct pfw_traces *traces)
{
	struct answer answer = { .options = options, .table = table };
	int answered = 1;

	answer.wanted = pfw_select_state_create(&options->wanted);
	if (!answer.wanted || table_key_init(&answer.key)) {
		pfw_select_state_free(answer.wanted);
		return -ENOMEM;
	}
	if (options->by_file)
		answered = answer_files(&answer, traces);
	for (size_t i = 0; !options->by_file && i < traces->count && answered > 0; i++) {
		if (pfw_select_file(&options->reach, i))
			answered = add_file(&answer, &traces->file[i]);
	}
	table_key_release(&answer.key);
	pfw_select_state_free(answer.wanted);
	if (answered <= 0) {
		table->rest = (struct pfw_sums){ 0 };
		pfw_averages_release(&table->rows);
		pfw_averages_init(&table->rows);
	}
	return answered;
}
