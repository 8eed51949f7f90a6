/* store/table/calls.c - stores the I/O calls of each thread by name in an index: docs/index_format.rst.
 *
 * The rows by name have percentiles of all threads together; these serve --pid and rows by thread.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "store/kit/grow.h"
#include "store/kit/saturate.h"
#include "store/line/io.h"
#include "store/summary/summary.h"
#include "store/table/by_thread.h"
#include "store/table/code.h"
#include "store/table/in_index.h"
#include "store/table/key.h"

/* The fields of a key. */
enum { CAT, NAME, THREAD };

/* A cached row, by its name in the block's summary and its thread. */
struct cached {
	uint64_t pid, tid;
	uint32_t name, row; /* plus 1; 0: none */
};

#define CELLS 256u

/* A call's duration, which is added to the sketch of its row in the file: a block has too few to fill
 * sketches of its own. */
struct timed {
	int64_t ns;
	uint32_t row;
};

struct calls {
	struct pfw_averages rows;
	struct timed *timed; /* of a block */
	size_t timeds, timed_room;
	struct pfw_table_key key;
	bool none;		     /* of a file: too many rows */
	struct cached cached[CELLS]; /* of a block */
};

int pfw_table_add_call(struct pfw_average *row, const struct pfw_table_call *call, bool self,
		       bool sketch)
{
	struct pfw_tally *sums = &row->sums;

	if (call->summed) {
		pfw_saturate_u64(&sums->count, call->calls);
		pfw_saturate_sum(&sums->total_ns, call->dur_ns);
	} else if (call->untimed) {
		pfw_tally_untimed(sums, call->start_ns);
	} else {
		pfw_tally_call(sums, call->start_ns, call->dur_ns);
		if (sketch && pfw_sketch_add(&row->durations, call->dur_ns))
			return -ENOMEM;
	}
	if (self || call->summed)
		pfw_saturate_sum(&sums->self_ns, call->dur_ns);
	if (call->transfers)
		pfw_tally_transfers(sums, call->transfers, call->bytes, call->dur_ns);
	return 0;
}

static void clear_block(void *user)
{
	struct calls *calls = user;

	pfw_averages_release(&calls->rows);
	memset(calls->cached, 0, sizeof(calls->cached));
	calls->timeds = 0;
}

static void release(void *user)
{
	struct calls *calls = user;

	pfw_averages_release(&calls->rows);
	free(calls->timed);
	pfw_table_key_release(&calls->key);
}

/* ---- lines of a block ---- */

static int64_t row_of(struct calls *calls, const struct pfw_slice *cat,
		      const struct pfw_slice *name, uint64_t pid, uint64_t tid)
{
	const uint64_t thread[] = { pid, tid };

	pfw_table_key_begin(&calls->key, &(struct pfw_table_line){ .section = PFW_TABLE_IO });
	pfw_table_key_slice(&calls->key, cat);
	pfw_table_key_slice(&calls->key, name);
	pfw_table_key_text(&calls->key, (const char *)thread, sizeof(thread));
	return pfw_table_key_row(&calls->key, &calls->rows);
}

/* The same of a line, by its name in the summary, which has 0 for several names. */
static int64_t row_of_line(struct calls *calls, const struct pfw_entry *entry, uint32_t name)
{
	struct cached *cached = &calls->cached[(name * 17 + entry->tid) % CELLS];
	int64_t row;

	if (cached->row && cached->name == name && cached->pid == entry->pid &&
	    cached->tid == entry->tid)
		return cached->row - 1;
	row = row_of(calls, &entry->cat, &entry->name, entry->pid, entry->tid);
	if (row >= 0 && name)
		*cached = (struct cached){
			.pid = entry->pid, .tid = entry->tid, .name = name, .row = (uint32_t)row + 1
		};
	return row;
}

static int add_summed(struct calls *calls, const struct pfw_entry *entry)
{
	struct pfw_table_call call;
	struct pfw_table_line line;
	int64_t row;

	if (!pfw_table_line_read(&line, entry, NULL, (struct pfw_table_how){ 0 }))
		return 0;
	call = pfw_table_call_of(&line);
	row = row_of(calls, &line.cat, &line.name, entry->pid, entry->tid);
	return row < 0 ? (int)row : pfw_table_add_call(&calls->rows.row[row], &call, true, true);
}

/* Its row has no calls. */
static int add_mapping(struct calls *calls, const struct pfw_entry *entry)
{
	int64_t row = row_of(calls, &entry->cat, &entry->name, entry->pid, entry->tid);

	if (row < 0)
		return (int)row;
	pfw_saturate_sum(&calls->rows.row[row].sums.bytes, (int64_t)pfw_io_unmoved(entry));
	return 0;
}

static int add(void *user, const struct pfw_entry *entry, const struct pfw_summary *summary)
{
	struct calls *calls = user;
	struct pfw_table_line line;
	struct pfw_tally *sums;
	int64_t row;

	if (entry->ph == 'M')
		return pfw_io_is_mapping(entry) ? add_mapping(calls, entry)
						: add_summed(calls, entry);
	if (!pfw_table_line_times(&line, entry))
		return 0;
	row = row_of_line(calls, entry, summary->last.name);
	if (row < 0)
		return (int)row;
	sums = &calls->rows.row[row].sums;
	pfw_saturate_sum(&sums->self_ns, line.dur_ns);
	if (summary->last.moves)
		pfw_tally_transfers(sums, 1, (int64_t)summary->last.bytes, line.dur_ns);
	else
		pfw_saturate_sum(&sums->bytes, (int64_t)pfw_io_unmoved(entry));
	if (line.untimed) {
		pfw_tally_untimed(sums, line.start_ns);
		return 0;
	}
	pfw_tally_call(sums, line.start_ns, line.dur_ns);
	return PFW_PUSH(calls->timed, calls->timeds, calls->timed_room,
			(struct timed){ .ns = line.dur_ns, .row = (uint32_t)row });
}

/* ---- blocks of a file ---- */

static int limit(struct calls *file)
{
	file->none |= file->rows.count > PFW_TABLE_THREAD_ROWS;
	if (file->none)
		pfw_averages_release(&file->rows);
	return 0;
}

static int take(void *user, void *taken, struct pfw_blob *data)
{
	struct calls *file = user, *block = taken;
	int error = file->none ? 0 : pfw_averages_merge(&file->rows, &block->rows);

	(void)data;
	for (size_t i = 0; i < block->timeds && !error && !file->none; i++) {
		const struct timed *timed = &block->timed[i];
		uint32_t row = block->rows.row[timed->row].merged;

		error = pfw_sketch_add(&file->rows.row[row].durations, timed->ns);
	}
	return error ? error : limit(file);
}

static void put_row(struct pfw_blob *data, const struct pfw_average *row)
{
	size_t bytes;
	uint64_t thread[2];

	pfw_table_put_key(data, row->key, THREAD);
	memcpy(thread, pfw_table_key_field(row->key, THREAD, &bytes), sizeof(thread));
	pfw_blob_put(data, thread, 2);
	pfw_table_put_tally(data, &row->sums);
	pfw_table_put_sketch(data, &row->durations);
}

/* An empty row: no answer. */
static int end(void *user, struct pfw_blob *data)
{
	const struct calls *file = user;

	if (!file->none)
		PFW_BLOB_PUT(data, file->rows.count);
	for (uint32_t i = 0; i < file->rows.count; i++)
		put_row(data, &file->rows.row[i]);
	return 0;
}

/* ---- reading ---- */

static int read_calls(void *user, struct pfw_varints *reader, bool last)
{
	const struct pfw_table_thread_rows *rows = user;
	bool none = reader->at == reader->end;
	uint64_t count = none ? 0 : pfw_varints_next(reader);
	int error = none ? -ENOENT : 0;

	(void)last;
	while (!error && !reader->bad && count--) {
		struct pfw_table_thread_row row = { .row = { .cat = pfw_table_get_text(reader) },
						    .section = PFW_TABLE_IO };

		row.row.name = pfw_table_get_text(reader);
		row.pid = pfw_varints_next(reader);
		row.tid = pfw_varints_next(reader);
		pfw_table_get_tally(reader, &row.row.sums);
		row.durations = pfw_varints_part(reader);
		error = reader->bad ? -EBADMSG : rows->row(rows->user, &row);
	}
	return !error && reader->at < reader->end ? -EBADMSG : error;
}

int pfw_table_calls_from_index(struct pfw_index *index, struct pfw_table_thread_rows *rows)
{
	return pfw_index_parts(index, &pfw_calls_kind, PFW_INDEX_END, rows, read_calls);
}

static int resume_row(void *user, const struct pfw_table_thread_row *found)
{
	struct calls *file = user;
	int64_t row = row_of(file, &found->row.cat, &found->row.name, found->pid, found->tid);

	if (row < 0)
		return (int)row;
	pfw_tally_merge(&file->rows.row[row].sums, &found->row.sums);
	return pfw_table_add_durations(&file->rows.row[row].durations, found->durations);
}

static int resume(void *user, struct pfw_varints *row)
{
	struct calls *file = user;
	struct pfw_table_thread_rows rows = { .user = file, .row = resume_row };
	int error = read_calls(&rows, row, true);

	file->none |= error == -ENOENT;
	return error == -ENOENT ? 0 : error;
}

const struct pfw_index_kind pfw_calls_kind = {
	.name = "calls",
	.number = 5,
	.version = 1,
	.block_bytes = sizeof(struct calls),
	.block_clear = clear_block,
	.block_release = release,
	.wants = PFW_INDEX_CALLS | PFW_INDEX_OWN,
	.add = add,
	.file_bytes = sizeof(struct calls),
	.file_release = release,
	.take = take,
	.end = end,
	.resume = resume,
};
