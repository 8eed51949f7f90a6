/* tools/compare/collect.c - reads the lines of one side into the rows of a comparison. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/order.h"
#include "compare/compare.h"
#include "store/kit/grow.h"
#include "store/kit/saturate.h"
#include "store/line/io.h"

struct block_result {
	struct pfw_compare_rows rows;
	int64_t least_ns, greatest_ns; /* of all lines */
};

struct worker {
	struct pfw_table_key key;
	struct pfw_io_calls calls;
};

struct collect {
	struct compare *compare;
	struct compare_side *side;
	unsigned number; /* of the side */
	struct worker *worker;
	struct pfw_table_how how;
};

/* ---- wall time ---- */

void compare_widen(struct compare_side *side, size_t file, int64_t least_ns, int64_t greatest_ns)
{
	size_t run = side->run[file];

	if (least_ns > greatest_ns)
		return;
	pthread_mutex_lock(&side->mutex);
	PFW_LOWER(side->least_ns[run], least_ns);
	PFW_RAISE(side->greatest_ns[run], greatest_ns);
	pthread_mutex_unlock(&side->mutex);
}

/* The wall time is that of all lines of the selected ranks.  A block that need not be read has its
 * times in its summary. */
static bool want(void *user, size_t file, const struct pfw_block *block)
{
	struct collect *collect = user;
	const struct pfw_select *select = &collect->side->select;

	if (!pfw_select_ranks_block(select, file, block))
		return false;
	if (!block->summed || pfw_select_block(select, file, block))
		return true;
	compare_widen(collect->side, file, block->least_ns, block->greatest_ns);
	return false;
}

static void note_line(struct block_result *result, const struct pfw_entry *entry)
{
	int64_t end = pfw_saturate_add(entry->ts_ns, entry->dur_ns > 0 ? entry->dur_ns : 0);

	if (!(entry->has & ~entry->wrong & PFW_ENTRY_TS))
		return;
	PFW_LOWER(result->least_ns, entry->ts_ns);
	PFW_RAISE(result->greatest_ns, end);
}

/* ---- lines ---- */

static int add_line(const struct collect *collect, struct worker *worker,
		    struct pfw_pass_block *block, const struct pfw_entry *entry,
		    struct pfw_table_line *line)
{
	struct block_result *result = block->result;
	struct pfw_compare_call call;
	int64_t row;

	/* Rows do not differ by section or device here. */
	line->section = PFW_TABLE_IO;
	line->device = 0;
	line->annotation = false;
	table_key_make(&worker->key, &collect->compare->table, line, entry,
		       collect->side->input.traces.file[block->file].head.rank);
	row = worker->key.failed
		      ? -ENOMEM
		      : pfw_compare_row_of(&result->rows, worker->key.text, worker->key.bytes);
	if (row < 0)
		return (int)row;
	call = pfw_compare_call_of(entry, line->dur_ns);
	if (!line->summed)
		return pfw_compare_add(&result->rows, row, pfw_compare_kind_of(entry, &line->cat),
				       &call, 1);
	pfw_compare_add_summed(&result->rows, row, line);
	return 0;
}

static int work(void *user, const struct survey_worker *reader, struct pfw_pass_block *block)
{
	const struct collect *collect = user;
	struct worker *worker = &collect->worker[reader->number];
	struct block_result *result = block->result;
	struct pfw_pass_lines lines;
	struct pfw_table_line line;

	result->least_ns = INT64_MAX;
	result->greatest_ns = INT64_MIN;
	pfw_pass_lines_init(&lines, block);
	while (pfw_pass_lines_next(&lines)) {
		int error;

		note_line(result, &lines.entry);
		if (!pfw_table_line_read(&line, &lines.entry, &worker->calls, collect->how) ||
		    !survey_wants(&collect->side->select, reader->state, block->file, &lines.entry,
				  line.summed, line.name, line.cat))
			continue;
		if (collect->compare->table.by_step)
			pfw_table_line_step(&line, collect->side->select.steps, block->file,
					    &lines.entry);
		error = add_line(collect, worker, block, &lines.entry, &line);
		if (error)
			return error;
	}
	return 0;
}

/* ---- rows ---- */

static void drop(void *result)
{
	struct block_result *dropped = result;

	pfw_compare_rows_release(&dropped->rows);
	free(dropped);
}

/* Memory is bounded: with many rows samples are small. */
static void limit_samples(struct compare *compare)
{
	uint32_t most = pfw_compare_most(compare->rows);

	for (size_t i = 0; i < compare->rows && most < pfw_compare_most(compare->rows - 1); i++) {
		pfw_sampled_limit(&compare->row[i].sampled[0], most);
		pfw_sampled_limit(&compare->row[i].sampled[1], most);
	}
}

int64_t compare_row_of(struct compare *compare, const char *key, size_t bytes)
{
	size_t runs = compare->side[0].runs + compare->side[1].runs;
	int64_t number = pfw_averages_row(&compare->keys, key, bytes);
	struct compare_row row = { .cell = NULL };

	if (number < (int64_t)compare->rows)
		return number;
	row.cell = calloc(runs, sizeof(*row.cell));
	if (!row.cell || PFW_PUSH(compare->row, compare->rows, compare->room, row)) {
		free(row.cell);
		return -ENOMEM;
	}
	limit_samples(compare);
	return number;
}

struct pfw_compare_sums *compare_cell_of(struct compare *compare, int64_t row, unsigned side,
					 size_t file)
{
	size_t run = compare->side[side].run[file];

	return &compare->row[row].cell[run + (side ? compare->side[0].runs : 0)];
}

void compare_clear(struct compare *compare)
{
	for (size_t i = 0; i < compare->rows; i++) {
		free(compare->row[i].cell);
		pfw_sampled_release(&compare->row[i].sampled[0]);
		pfw_sampled_release(&compare->row[i].sampled[1]);
	}
	free(compare->row);
	compare->row = NULL;
	compare->rows = compare->room = 0;
	pfw_averages_release(&compare->keys);
	for (unsigned i = 0; i < 2; i++) {
		const struct compare_side *side = &compare->side[i];

		for (size_t j = 0; j < side->runs && side->least_ns && side->greatest_ns; j++) {
			side->least_ns[j] = INT64_MAX;
			side->greatest_ns[j] = INT64_MIN;
		}
	}
}

static int done(void *user, struct pfw_pass_block *block)
{
	struct collect *collect = user;
	struct compare *compare = collect->compare;
	struct block_result *result = block->result;

	compare_widen(collect->side, block->file, result->least_ns, result->greatest_ns);
	for (uint32_t i = 0; i < result->rows.keys.count; i++) {
		const struct pfw_text_id *key = &result->rows.keys.name[i];
		int64_t row = compare_row_of(compare, key->text, key->bytes);

		if (row < 0)
			return (int)row;
		pfw_compare_add_sums(compare_cell_of(compare, row, collect->number, block->file),
				     &result->rows.row[i].sums);
		if (!compare->several &&
		    pfw_sampled_merge(&compare->row[row].sampled[collect->number],
				      &result->rows.row[i].sampled,
				      pfw_compare_most(compare->rows)))
			return -ENOMEM;
	}
	return 0;
}

/* ---- the pass ---- */

int compare_collect(struct compare *compare, unsigned number)
{
	struct compare_side *side = &compare->side[number];
	struct collect collect = { .compare = compare,
				   .side = side,
				   .number = number,
				   .how = { .plain = true, .fnames = side->select.fnames } };
	const struct survey_fold fold = { .user = &collect,
					  .select = &side->select,
					  .result_bytes = sizeof(struct block_result),
					  .want = want,
					  .work = work,
					  .done = done,
					  .drop = drop };
	unsigned jobs = survey_jobs(&compare->survey);
	int error = -ENOMEM;

	collect.worker = calloc(jobs, sizeof(*collect.worker));
	collect.how.args = table_bits(&compare->table) & TABLE_BIT(TABLE_FNAME);
	if (collect.worker)
		error = survey_read(&compare->survey, &side->input, &fold, SURVEY_ALL);
	for (unsigned i = 0; collect.worker && i < jobs; i++)
		pfw_table_key_release(&collect.worker[i].key);
	free(collect.worker);
	return error;
}

/* ---- the order of rows ---- */

struct keyed {
	struct compare_row row;
	struct pfw_average key;
};

static int by_key(const void *a, const void *b)
{
	const struct pfw_average *x = &((const struct keyed *)a)->key;
	const struct pfw_average *y = &((const struct keyed *)b)->key;
	uint32_t bytes = x->key_bytes < y->key_bytes ? x->key_bytes : y->key_bytes;

	return memcmp(x->key, y->key, bytes) ?: PFW_ORDER(x->key_bytes, y->key_bytes);
}

int compare_sort_rows(struct compare *compare)
{
	struct keyed *keyed = calloc(compare->rows + 1, sizeof(*keyed));

	if (!keyed)
		return -ENOMEM;
	for (size_t i = 0; i < compare->rows; i++)
		keyed[i] = (struct keyed){ compare->row[i], compare->keys.row[i] };
	qsort(keyed, compare->rows, sizeof(*keyed), by_key);
	for (size_t i = 0; i < compare->rows; i++) {
		compare->row[i] = keyed[i].row;
		compare->keys.row[i] = keyed[i].key;
	}
	free(keyed);
	return 0;
}
