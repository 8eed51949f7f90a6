/* store/index/load.c - reads the tables of an index into blocks and summaries; see index.h. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "store/index/index.h"
#include "store/index/internal.h"
#include "store/kit/grow.h"
#include "store/summary/rows.h"

/* ---- blocks ---- */

struct blocks {
	struct pfw_block *block;
	size_t count, room;
	uint64_t end; /* of the last block */
};

static int take_block(void *user, struct pfw_index_row *row)
{
	struct blocks *blocks = user;
	struct pfw_block block = { .summed = true };
	uint64_t lines;

	block.at = pfw_index_u64(row);
	block.bytes = pfw_index_u64(row);
	lines = pfw_index_u64(row);
	pfw_index_skip(row, 1); /* events */
	block.least_ns = pfw_index_time(row, INT64_MAX);
	block.greatest_ns = pfw_index_time(row, INT64_MIN);
	block.lines = (uint32_t)lines;
	/* Blocks are contiguous, so none can be missing. */
	if (row->bad || lines > UINT32_MAX || block.at != blocks->end ||
	    __builtin_add_overflow(block.at, block.bytes, &blocks->end))
		return -EBADMSG;
	return PFW_PUSH(blocks->block, blocks->count, blocks->room, block);
}

static int take_point(void *user, struct pfw_index_row *row)
{
	struct pfw_points *points = user;
	struct pfw_point point = { 0 };
	const uint8_t *window;
	uint64_t bits;
	size_t bytes;
	int error;

	point.text_at = pfw_index_u64(row);
	point.file_at = pfw_index_u64(row);
	bits = pfw_index_u64(row);
	window = pfw_index_blob(row, &bytes);
	if (row->bad || bits > 7 || bytes > UINT32_MAX || point.file_at > INT64_MAX)
		return -EBADMSG;
	point.bits = (uint8_t)bits;
	point.window_bytes = (uint32_t)bytes;
	point.window = malloc(bytes + 1);
	if (!point.window)
		return -ENOMEM;
	memcpy(point.window, window, bytes);
	error = pfw_points_add(points, &point);
	if (error)
		free(point.window);
	return error == -EINVAL ? -EBADMSG : error;
}

int pfw_index_blocks(struct pfw_index *index, struct pfw_blocks *out)
{
	struct blocks blocks = { 0 };
	struct pfw_points points = { 0 };
	int error;

	error = pfw_index_rows(index, PFW_TABLE_BLOCK, &blocks, take_block);
	if (!error &&
	    (blocks.count != index->meta.blocks ||
	     (index->meta.layout != PFW_LAYOUT_STREAM && blocks.end != index->meta.trace_bytes)))
		error = -EBADMSG;
	if (!error)
		error = pfw_index_rows(index, PFW_TABLE_POINT, &points, take_point);
	if (error) {
		free(blocks.block);
		pfw_points_free(&points);
		return error;
	}
	pfw_blocks_free(out);
	*out = (struct pfw_blocks){ .layout = index->meta.layout,
				    .file_bytes = index->meta.trace_bytes,
				    .block = blocks.block,
				    .count = blocks.count,
				    .points = points };
	return 0;
}

bool pfw_index_has_blocks(struct pfw_index *index, const struct pfw_blocks *blocks)
{
	struct pfw_blocks own = { .layout = PFW_LAYOUT_STREAM };
	bool same = !index->meta.problems && !index->meta.untimed &&
		    index->meta.blocks == blocks->count && pfw_index_blocks(index, &own) == 0;

	for (size_t i = 0; i < blocks->count && same; i++)
		same = blocks->block[i].summed && blocks->block[i].at == own.block[i].at &&
		       blocks->block[i].bytes == own.block[i].bytes;
	pfw_blocks_free(&own);
	return same;
}

/* ---- problems ---- */

struct problems {
	void *user;
	int (*take)(void *user, const struct pfw_scan_problem *problem);
	uint64_t count;
};

static int take_problem(void *user, struct pfw_index_row *row)
{
	struct problems *problems = user;
	struct pfw_scan_problem problem;

	problem.line = pfw_index_u64(row);
	problem.at = pfw_index_u64(row);
	problem.more = pfw_index_u64(row);
	snprintf(problem.text, sizeof(problem.text), "%s", pfw_index_string(row, ""));
	problems->count += 1 + problem.more;
	return row->bad ? -EBADMSG : problems->take(problems->user, &problem);
}

int pfw_index_problems(struct pfw_index *index, void *user,
		       int (*take)(void *user, const struct pfw_scan_problem *problem))
{
	struct problems problems = { .user = user, .take = take };
	int error = 0;

	if (index->meta.problems)
		error = pfw_index_rows(index, PFW_TABLE_PROBLEM, &problems, take_problem);
	return error ? error : problems.count == index->meta.problems ? 0 : -ENOENT;
}

/* ---- totals ---- */

/* Add the figures of a name, from a row of `name` or a block's blob. */
static int add_figures(struct pfw_summary *into, int64_t row, const struct pfw_blob_name *figures)
{
	struct pfw_summary_name *name = &into->name[row];
	uint64_t timed = name->durations.total + figures->timed;
	int error;

	name->count += figures->count;
	if (name->ph != 's')
		into->lines += figures->count;
	pfw_summary_add_transfers(name, figures->transfers, figures->transfer_ns, figures->bytes);
	/* Unsigned, because sums of a hostile index may overflow. */
	name->sum_ns =
		(__int128)((unsigned __int128)name->sum_ns + (unsigned __int128)figures->sum_ns);
	if (figures->min_ns < name->min_ns)
		name->min_ns = figures->min_ns;
	if (figures->max_ns > name->max_ns)
		name->max_ns = figures->max_ns;
	error = pfw_sketch_decode(&name->durations, figures->sketch, figures->sketch_bytes);
	return !error && name->durations.total != timed ? -EBADMSG : error;
}

static int take_name(void *user, struct pfw_index_row *row)
{
	struct pfw_summary *into = user;
	size_t cat_bytes, name_bytes, ph_bytes;
	const char *cat = pfw_index_text(row, &cat_bytes);
	const char *name = pfw_index_text(row, &name_bytes);
	const char *ph = pfw_index_text(row, &ph_bytes);
	struct pfw_blob_name figures;
	int64_t to;

	figures.count = pfw_index_u64(row);
	figures.timed = pfw_index_u64(row);
	figures.sum_ns = pfw_index_i128(row);
	figures.min_ns = pfw_index_time(row, INT64_MAX);
	figures.max_ns = pfw_index_time(row, INT64_MIN);
	figures.bytes = pfw_index_u64(row);
	figures.transfers = pfw_index_u64(row);
	figures.transfer_ns = pfw_index_u64(row);
	figures.sketch = pfw_index_blob(row, &figures.sketch_bytes);
	if (row->bad || ph_bytes != 1)
		return -EBADMSG;
	to = row->number == 0 ? 0
			      : pfw_summary_name_row(into, cat, cat_bytes, name, name_bytes, *ph);
	return to < 0 ? (int)to : add_figures(into, to, &figures);
}

int pfw_index_take_file(struct pfw_summary_file *file, struct pfw_index_row *row)
{
	for (unsigned i = 0; i < PFW_SUMMARY_FILE_SUMS; i++)
		pfw_saturate_u64(&file->sum[i], pfw_index_u64(row));
	return row->bad ? -EBADMSG : 0;
}

static int take_file(void *user, struct pfw_index_row *row)
{
	struct pfw_summary *into = user;
	size_t bytes;
	const char *fname = pfw_index_text(row, &bytes);
	int64_t to = row->number == 0 ? 0 : pfw_summary_file_row(into, fname, bytes);

	return to < 0 ? (int)to : pfw_index_take_file(&into->file[to], row);
}

static int take_thread(void *user, struct pfw_index_row *row)
{
	struct pfw_summary *into = user;
	uint64_t pid = pfw_index_u64(row), tid = pfw_index_u64(row);
	size_t bytes;
	const char *name = pfw_index_text(row, &bytes);
	uint64_t lines = pfw_index_u64(row);
	int64_t first_ns = pfw_index_time(row, INT64_MAX);
	int64_t last_ns = pfw_index_time(row, INT64_MIN);
	struct pfw_summary_thread *thread;
	int64_t to = row->number == 0 ? 0 : pfw_summary_thread_row(into, pid, tid);

	if (to < 0 || row->bad)
		return to < 0 ? (int)to : -EBADMSG;
	thread = &into->thread[to];
	thread->lines += lines;
	if (first_ns < thread->first_ns)
		thread->first_ns = first_ns;
	if (last_ns > thread->last_ns)
		thread->last_ns = last_ns;
	return bytes ? pfw_summary_name_thread(into, (uint32_t)to, name, bytes) : 0;
}

static int take_process(void *user, struct pfw_index_row *row)
{
	struct pfw_summary_process process;

	process.pid = pfw_index_u64(row);
	process.ppid = pfw_index_u64(row);
	process.start_ns = pfw_index_time(row, PFW_SUMMARY_NO_START);
	process.rank = pfw_index_time(row, PFW_SUMMARY_NO_RANK);
	process.local_rank = pfw_index_i64(row);
	process.world_size = pfw_index_u64(row);
	process.run = pfw_index_string(row, "");
	process.host = pfw_index_string(row, "");
	process.command = pfw_index_string(row, "");
	process.reason = pfw_index_string(row, NULL);
	process.end_ns = pfw_index_i64(row);
	process.events = pfw_index_u64(row);
	process.lost = pfw_index_u64(row);
	return row->bad ? -EBADMSG : pfw_summary_add_process(user, &process);
}

static int take_step(void *user, struct pfw_index_row *row)
{
	struct pfw_summary_step step;

	step.pid = pfw_index_u64(row);
	step.tid = pfw_index_u64(row);
	step.number = pfw_index_u64(row);
	step.begin_ns = pfw_index_i64(row);
	step.end_ns = pfw_index_i64(row);
	return row->bad ? -EBADMSG : pfw_summary_add_step(user, &step);
}

static int take_loss(void *user, struct pfw_index_row *row)
{
	struct pfw_summary_loss loss;

	loss.pid = pfw_index_u64(row);
	loss.kind = pfw_index_string(row, "");
	loss.reason = pfw_index_string(row, "");
	loss.count = pfw_index_u64(row);
	loss.total_ns = pfw_index_i64(row);
	loss.last_ns = pfw_index_i64(row);
	return row->bad ? -EBADMSG : pfw_summary_add_loss(user, &loss);
}

static void add_meta(const struct pfw_index *index, struct pfw_summary *into)
{
	const struct pfw_index_meta *meta = &index->meta;
	struct pfw_summary all = {
		.events = meta->events,
		.least_ns = meta->least_ns,
		.greatest_ns = meta->greatest_ns,
		.sorted = meta->sorted,
		.nested = meta->nested,
		.untimed = meta->untimed,
		.first_ns = meta->first_ns,
		.last_ns = meta->last_ns,
	};

	pfw_summary_merge_times(into, &all);
	into->left_out += index->left_out;
}

int pfw_index_totals(struct pfw_index *index, unsigned parts, struct pfw_summary *into)
{
	static const struct {
		unsigned part;
		enum pfw_index_tables table;
		int (*take)(void *, struct pfw_index_row *);
	} tables[] = {
		{ PFW_INDEX_NAMES, PFW_TABLE_NAME, take_name },
		{ PFW_INDEX_FILES, PFW_TABLE_FILE, take_file },
		{ PFW_INDEX_THREADS, PFW_TABLE_THREAD, take_thread },
		{ PFW_INDEX_PROCESSES, PFW_TABLE_PROCESS, take_process },
		{ PFW_INDEX_STEPS, PFW_TABLE_STEP, take_step },
		{ PFW_INDEX_LOSSES, PFW_TABLE_LOSS, take_loss },
	};
	int error = 0;

	for (size_t i = 0; !error && i < sizeof(tables) / sizeof(tables[0]); i++) {
		if (parts & tables[i].part)
			error = pfw_index_rows(index, tables[i].table, into, tables[i].take);
	}
	add_meta(index, into);
	return error;
}

/* ---- totals of blocks ---- */

struct block_totals {
	struct pfw_summary *into;
	int64_t *row; /* of `into`, by the row in the index */
	uint32_t rows;
};

/* Map the next name of the index to its row in `into`. */
static int take_name_row(void *user, struct pfw_index_row *row)
{
	struct block_totals *totals = user;
	size_t cat_bytes, name_bytes, ph_bytes;
	const char *cat = pfw_index_text(row, &cat_bytes);
	const char *name = pfw_index_text(row, &name_bytes);
	const char *ph = pfw_index_text(row, &ph_bytes);
	int64_t to = 0;

	if (row->bad || ph_bytes != 1 || totals->rows > PFW_SUMMARY_NAMES_MAX)
		return -EBADMSG;
	if (totals->rows)
		to = pfw_summary_name_row(totals->into, cat, cat_bytes, name, name_bytes, *ph);
	return to < 0 ? (int)to : PFW_APPEND(totals->row, totals->rows, to);
}

static int take_block_names(struct block_totals *totals, const uint8_t *data, size_t bytes)
{
	struct pfw_blob_reader reader = { .at = data, .end = data + bytes };
	struct pfw_blob_name name;
	int result, error = 0;

	while (!error && (result = pfw_blob_next_name(&reader, totals->rows, &name)) != 0)
		error = result < 0 ? result
				   : add_figures(totals->into, totals->row[name.row], &name);
	return error;
}

/* Add a block, from its rows of both tables of blocks. */
static int take_block_totals(struct block_totals *totals, struct pfw_index_row *block,
			     struct pfw_index_row *holds)
{
	struct pfw_summary times = { .sorted = true, .first_ns = INT64_MAX };
	const uint8_t *names;
	size_t bytes;

	pfw_index_skip(block, 4); /* id, at, bytes, lines */
	times.events = pfw_index_u64(block);
	times.least_ns = pfw_index_time(block, INT64_MAX);
	times.greatest_ns = pfw_index_time(block, INT64_MIN);
	pfw_index_skip(holds, 3); /* block, threads, files */
	names = pfw_index_blob(holds, &bytes);
	if (block->bad || holds->bad)
		return -EBADMSG;
	pfw_summary_merge_times(totals->into, &times);
	return take_block_names(totals, names, bytes);
}

int pfw_index_block_totals(struct pfw_index *index, const uint8_t *wanted, struct pfw_summary *into)
{
	struct block_totals totals = { .into = into };
	struct pfw_index_row block, holds;
	int error = pfw_index_query(index, &block, PFW_TABLE_BLOCK, 0);
	int error_of_holds = pfw_index_query(index, &holds, PFW_TABLE_BLOCK_HOLDS, 0);

	error = error ? error : error_of_holds;
	if (!error)
		error = pfw_index_rows(index, PFW_TABLE_NAME, &totals, take_name_row);
	for (uint64_t i = 0; !error && i < index->meta.blocks; i++) {
		if (wanted[i])
			error = pfw_index_find(&block, (int64_t)i) == 1 &&
						pfw_index_find(&holds, (int64_t)i) == 1
					? take_block_totals(&totals, &block, &holds)
					: -EBADMSG;
	}
	pfw_index_done(&block);
	pfw_index_done(&holds);
	free(totals.row);
	return error;
}
