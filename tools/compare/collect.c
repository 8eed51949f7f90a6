/* tools/compare/collect.c - reads the traces of one side into the rows of a comparison. */
#include <errno.h>
#include <math.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "compare/compare.h"
#include "store/kit/grow.h"
#include "store/kit/saturate.h"
#include "store/line/io.h"
#include "store/sys/sorter.h"
#include "store/table/line.h"

/* Rows that keep batches, of 16 KiB at most each. */
#define BATCHED_MAX 8192u
/* Memory for the durations of a side before the sorter uses a file. */
#define SERIES_BYTES (64u << 20)

struct sample {
	uint32_t row; /* in the block's keys */
	bool summed, io;
	uint8_t kind; /* enum unrecorded; UNRECORDED_KINDS: none of them */
	uint64_t calls;
	int64_t ts_ns, dur_ns;
	uint64_t process, id;
	double log;
};

/* A duration in the series of a row. */
struct in_series {
	int64_t ts_ns;
	uint64_t process, id;
	uint32_t row;
	double log;
};

struct block_result {
	struct pfw_averages keys;
	struct sample *sample;
	size_t samples, room;
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
	struct pfw_sorter series; /* if each side is one run */
	pthread_mutex_t mutex;	  /* protects the times of the side's runs */
};

/* ---- wall time ---- */

static void widen(struct collect *collect, size_t file, int64_t least_ns, int64_t greatest_ns)
{
	struct compare_side *side = collect->side;
	size_t run = side->run[file];

	pthread_mutex_lock(&collect->mutex);
	if (least_ns < side->least_ns[run])
		side->least_ns[run] = least_ns;
	if (greatest_ns > side->greatest_ns[run])
		side->greatest_ns[run] = greatest_ns;
	pthread_mutex_unlock(&collect->mutex);
}

/* A block that is not read has its times in its summary. */
static bool want(void *user, size_t file, const struct pfw_block *block)
{
	struct collect *collect = user;

	if (pfw_select_block(&collect->side->select, file, block))
		return true;
	if (block->summed && block->least_ns <= block->greatest_ns)
		widen(collect, file, block->least_ns, block->greatest_ns);
	return false;
}

static void note_line(struct block_result *result, const struct pfw_entry *entry)
{
	int64_t end = pfw_saturate_add(entry->ts_ns, entry->dur_ns > 0 ? entry->dur_ns : 0);

	if (!(entry->has & ~entry->wrong & PFW_ENTRY_TS))
		return;
	if (entry->ts_ns < result->least_ns)
		result->least_ns = entry->ts_ns;
	if (end > result->greatest_ns)
		result->greatest_ns = end;
}

/* ---- lines ---- */

/* Spans of the program's own are always recorded. */
static enum unrecorded kind_of(const struct pfw_entry *entry, const struct pfw_table_line *line)
{
	static const char *const gpu[] = { "kernel", "memcpy", "memset", "runtime",
					   "driver", "sync",   NULL };
	struct pfw_value kind;

	if (pfw_is_io(&line->cat))
		return UNRECORDED_IO;
	if (!pfw_slice_is(&line->cat, "PP") || !pfw_entry_arg(entry, "kind", &kind))
		return UNRECORDED_KINDS;
	for (const char *const *name = gpu; *name; name++) {
		if (pfw_slice_is(&kind.text, *name))
			return UNRECORDED_KERNELS;
	}
	return pfw_slice_is(&kind.text, "cpu_op") ? UNRECORDED_OPERATORS : UNRECORDED_KINDS;
}

static int add_line(const struct collect *collect, struct worker *worker,
		    struct pfw_pass_block *block, const struct pfw_entry *entry,
		    struct pfw_table_line *line)
{
	const struct table_options *options = &collect->compare->table;
	struct block_result *result = block->result;
	int64_t row;

	/* Rows do not differ by section or device here. */
	line->section = PFW_TABLE_IO;
	line->device = 0;
	line->annotation = false;
	if (table_key_make(&worker->key, options, line, entry,
			   collect->side->input.traces.file[block->file].head.rank))
		return -ENOMEM;
	row = pfw_averages_row(&result->keys, worker->key.text, worker->key.bytes);
	if (row < 0)
		return -ENOMEM;
	return PFW_PUSH(result->sample, result->samples, result->room,
			(struct sample){ .row = (uint32_t)row,
					 .summed = line->summed,
					 .io = pfw_is_io(&line->cat),
					 .kind = kind_of(entry, line),
					 .calls = line->summed ? line->calls : 1,
					 .ts_ns = entry->ts_ns,
					 .process = pfw_process_order(entry),
					 .id = entry->id,
					 .dur_ns = line->dur_ns,
					 .log = line->dur_ns > 1 ? log((double)line->dur_ns) : 0 });
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

static void drop(void *user, void *result)
{
	struct block_result *dropped = result;

	(void)user;
	pfw_averages_release(&dropped->keys);
	free(dropped->sample);
	free(dropped);
}

static int make_row(struct compare *compare)
{
	size_t runs = compare->side[0].runs + compare->side[1].runs;
	struct compare_row row = { .cell = calloc(runs, sizeof(struct compare_cell)) };

	if (row.cell && !PFW_PUSH(compare->row, compare->rows, compare->room, row))
		return 0;
	free(row.cell);
	return -ENOMEM;
}

/* Map the rows of a block to those of the comparison. */
static int find_rows(struct compare *compare, struct pfw_averages *keys)
{
	for (uint32_t i = 0; i < keys->count; i++) {
		int64_t row =
			pfw_averages_row(&compare->keys, keys->row[i].key, keys->row[i].key_bytes);

		if (row < 0 || ((size_t)row == compare->rows && make_row(compare)))
			return -ENOMEM;
		keys->row[i].merged = (uint32_t)row;
	}
	return 0;
}

static void note_time(struct compare_row *row, unsigned side, int64_t ts_ns)
{
	bool first = !row->batch[side].count;

	if (first || ts_ns < row->first_ns[side])
		row->first_ns[side] = ts_ns;
	if (first || ts_ns > row->last_ns[side])
		row->last_ns[side] = ts_ns;
}

static int count_sample(struct collect *collect, size_t run, uint32_t row,
			const struct sample *sample)
{
	struct compare *compare = collect->compare;
	struct compare_cell *cell = &compare->row[row].cell[run];

	cell->count += sample->calls;
	cell->total_ns = pfw_saturate_add(cell->total_ns, sample->dur_ns);
	compare->row[row].io = sample->io;
	compare->row[row].kinds |= 1u << sample->kind;
	collect->side->kinds |= 1u << sample->kind;
	if (sample->summed)
		return 0;
	cell->samples++;
	cell->log_sum += (__int128)(sample->log * COMPARE_LOG_UNIT);
	if (compare->side[0].runs != 1 || compare->side[1].runs != 1 || row >= BATCHED_MAX)
		return 0;
	return pfw_sorter_add(&collect->series, &(struct in_series){ .ts_ns = sample->ts_ns,
								     .process = sample->process,
								     .id = sample->id,
								     .row = row,
								     .log = sample->log });
}

/* ---- the series of each row ---- */

static int by_time(const void *a, const void *b)
{
	const struct in_series *x = a, *y = b;

	if (x->ts_ns != y->ts_ns)
		return x->ts_ns < y->ts_ns ? -1 : 1;
	if (x->process != y->process)
		return x->process < y->process ? -1 : 1;
	if (x->id != y->id)
		return x->id < y->id ? -1 : 1;
	return (x->log > y->log) - (x->log < y->log);
}

/* Add the durations in order of time, not of the files, which are one a process or one a rank. */
static int make_series(struct collect *collect)
{
	struct compare *compare = collect->compare;
	const struct in_series *next;
	int error = pfw_sorter_begin(&collect->series);

	while (!error && (next = pfw_sorter_next(&collect->series))) {
		struct compare_row *row = &compare->row[next->row];

		note_time(row, collect->number, next->ts_ns);
		error = pfw_batches_add(&row->batch[collect->number], next->log);
	}
	return error ? error : collect->series.error;
}

static int done(void *user, struct pfw_pass_block *block)
{
	struct collect *collect = user;
	struct block_result *result = block->result;
	size_t run = collect->side->run[block->file];
	int error;

	if (result->least_ns <= result->greatest_ns)
		widen(collect, block->file, result->least_ns, result->greatest_ns);
	run += collect->number ? collect->compare->side[0].runs : 0;
	error = find_rows(collect->compare, &result->keys);
	for (size_t i = 0; i < result->samples && !error; i++)
		error = count_sample(collect, run, result->keys.row[result->sample[i].row].merged,
				     &result->sample[i]);
	return error;
}

/* ---- the pass ---- */

static int make_workers(struct collect *collect, unsigned jobs)
{
	int error = 0;

	collect->worker = calloc(jobs, sizeof(*collect->worker));
	for (unsigned i = 0; collect->worker && i < jobs && !error; i++)
		error = pfw_table_key_init(&collect->worker[i].key);
	return collect->worker ? error : -ENOMEM;
}

int compare_collect(struct compare *compare, unsigned number)
{
	struct compare_side *side = &compare->side[number];
	struct collect collect = { .compare = compare,
				   .side = side,
				   .number = number,
				   .how = { .plain = true, .fnames = side->select.fnames },
				   .series = { .size = sizeof(struct in_series),
					       .budget = SERIES_BYTES,
					       .compare = by_time,
					       .fd = -1 },
				   .mutex = PTHREAD_MUTEX_INITIALIZER };
	const struct survey_fold fold = { .user = &collect,
					  .select = &side->select,
					  .result_bytes = sizeof(struct block_result),
					  .want = want,
					  .work = work,
					  .done = done,
					  .drop = drop };
	unsigned jobs = survey_jobs(&compare->survey);
	int error = make_workers(&collect, jobs);

	for (unsigned i = 0; i < compare->table.fields; i++)
		collect.how.args |= compare->table.field[i] == TABLE_FNAME;
	if (!error)
		error = survey_read(&compare->survey, &side->input, &fold, SURVEY_ALL);
	if (!error)
		error = make_series(&collect);
	pfw_sorter_release(&collect.series);
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
	int order = memcmp(x->key, y->key, bytes);

	return order ? order : (x->key_bytes > y->key_bytes) - (x->key_bytes < y->key_bytes);
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
