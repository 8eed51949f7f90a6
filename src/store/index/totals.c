/* store/index/totals.c - writes the tables of an index except those of blocks; see internal.h. */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "store/index/internal.h"
#include "store/sys/open.h"

/* ---- rows ---- */

struct pfw_put *pfw_put_begin(struct pfw_index_maker *maker, enum pfw_index_tables table)
{
	maker->put.table = &maker->table[table];
	maker->put.keyed = table != PFW_TABLE_META;
	maker->put.at = 0;
	return &maker->put;
}

static struct pfw_sqlite_value *next(struct pfw_put *put)
{
	return &put->value[put->at++];
}

static void put_null(struct pfw_put *put)
{
	*next(put) = (struct pfw_sqlite_value){ .type = PFW_SQLITE_NULL };
}

void pfw_put_i64(struct pfw_put *put, int64_t value)
{
	*next(put) = (struct pfw_sqlite_value){ .type = PFW_SQLITE_INTEGER, .integer = value };
}

/* SQLite has no unsigned numbers.  Those beyond INT64_MAX, which only hostile traces have, become
 * negative, and are converted back on reading. */
void pfw_put_u64(struct pfw_put *put, uint64_t value)
{
	pfw_put_i64(put, (int64_t)value);
}

void pfw_put_time(struct pfw_put *put, int64_t ns)
{
	if (ns == INT64_MAX || ns == INT64_MIN)
		put_null(put);
	else
		pfw_put_i64(put, ns);
}

void pfw_put_text(struct pfw_put *put, const char *text, size_t bytes)
{
	*next(put) = (struct pfw_sqlite_value){ .type = PFW_SQLITE_TEXT,
						.data = (const uint8_t *)text,
						.bytes = bytes };
}

void pfw_put_string(struct pfw_put *put, const char *text)
{
	if (text)
		pfw_put_text(put, text, strlen(text));
	else
		put_null(put);
}

void pfw_put_blob(struct pfw_put *put, const void *data, size_t bytes)
{
	*next(put) =
		(struct pfw_sqlite_value){ .type = PFW_SQLITE_BLOB, .data = data, .bytes = bytes };
}

/* A sum beyond 64 bits becomes decimal text. */
void pfw_put_i128(struct pfw_put *put, __int128 value)
{
	char *end = put->decimal + sizeof(put->decimal), *at = end;
	unsigned __int128 left = value < 0 ? -(unsigned __int128)value : (unsigned __int128)value;

	if (value >= INT64_MIN && value <= INT64_MAX) {
		pfw_put_i64(put, (int64_t)value);
		return;
	}
	for (; left; left /= 10)
		*--at = (char)('0' + (int)(left % 10));
	if (value < 0)
		*--at = '-';
	pfw_put_text(put, at, (size_t)(end - at));
}

int pfw_put_copy(struct pfw_put *put, struct pfw_index_row *row, unsigned columns)
{
	while (columns--) {
		struct pfw_sqlite_value *value = next(put);

		pfw_index_value(row, value);
		row->bad |= value->type == PFW_SQLITE_REAL;
	}
	return row->bad ? -EBADMSG : 0;
}

int pfw_put_row(struct pfw_put *put)
{
	int64_t id = put->keyed ? put->value[0].integer : 1;

	/* The id is the row's own number, and its column is NULL. */
	if (put->keyed)
		put->value[0] = (struct pfw_sqlite_value){ .type = PFW_SQLITE_NULL };
	return pfw_sqlite_add(put->table, id, put->value, put->at);
}

/* Write `count` rows of a table; row() writes all columns but the first. */
static int put_table(struct pfw_index_writer *writer, enum pfw_index_tables table, uint32_t count,
		     int (*row)(struct pfw_put *, const struct pfw_summary *, uint32_t))
{
	int error = 0;

	for (uint32_t i = 0; i < count && !error; i++) {
		struct pfw_put *put = pfw_put_begin(&writer->maker, table);

		pfw_put_i64(put, i);
		error = row(put, &writer->total, i);
	}
	return error;
}

/* ---- totals ---- */

static int put_name(struct pfw_put *put, const struct pfw_summary *total, uint32_t i)
{
	uint8_t sketch[PFW_SKETCH_BYTES_MAX];
	const struct pfw_summary_name *name = &total->name[i];

	pfw_put_text(put, name->cat, name->cat_bytes);
	pfw_put_text(put, name->name, name->name_bytes);
	pfw_put_text(put, &name->ph, 1);
	pfw_put_u64(put, name->count);
	pfw_put_u64(put, name->durations.total);
	pfw_put_i128(put, name->sum_ns);
	pfw_put_time(put, name->min_ns);
	pfw_put_time(put, name->max_ns);
	pfw_put_u64(put, name->bytes);
	pfw_put_u64(put, name->transfers);
	pfw_put_u64(put, name->transfer_ns);
	pfw_put_blob(put, sketch, pfw_sketch_encode(&name->durations, sketch));
	return pfw_put_row(put);
}

static int put_file(struct pfw_put *put, const struct pfw_summary_file *file, uint32_t i)
{
	pfw_put_i64(put, i);
	pfw_put_text(put, file->name, file->name_bytes);
	for (unsigned j = 0; j < PFW_SUMMARY_FILE_SUMS; j++)
		pfw_put_u64(put, file->sum[j]);
	return pfw_put_row(put);
}

static int put_thread(struct pfw_put *put, const struct pfw_summary *total, uint32_t i)
{
	const struct pfw_summary_thread *thread = &total->thread[i];

	pfw_put_u64(put, thread->pid);
	pfw_put_u64(put, thread->tid);
	pfw_put_text(put, thread->name, thread->name_bytes);
	pfw_put_u64(put, thread->lines);
	pfw_put_time(put, thread->first_ns);
	pfw_put_time(put, thread->last_ns);
	return pfw_put_row(put);
}

static int put_process(struct pfw_put *put, const struct pfw_summary *total, uint32_t i)
{
	const struct pfw_summary_process *process = &total->process[i];

	pfw_put_u64(put, process->pid);
	pfw_put_u64(put, process->ppid);
	pfw_put_time(put, process->start_ns);
	pfw_put_time(put, process->rank);
	pfw_put_i64(put, process->local_rank);
	pfw_put_u64(put, process->world_size);
	pfw_put_string(put, process->run);
	pfw_put_string(put, process->host);
	pfw_put_string(put, process->command);
	pfw_put_string(put, process->reason);
	pfw_put_i64(put, process->end_ns);
	pfw_put_u64(put, process->events);
	pfw_put_u64(put, process->lost);
	return pfw_put_row(put);
}

static int put_step(struct pfw_put *put, const struct pfw_summary *total, uint32_t i)
{
	const struct pfw_summary_step *step = &total->step[i];

	pfw_put_u64(put, step->pid);
	pfw_put_u64(put, step->tid);
	pfw_put_u64(put, step->number);
	pfw_put_i64(put, step->begin_ns);
	pfw_put_i64(put, step->end_ns);
	return pfw_put_row(put);
}

static int put_loss(struct pfw_put *put, const struct pfw_summary *total, uint32_t i)
{
	const struct pfw_summary_loss *loss = &total->loss[i];

	pfw_put_u64(put, loss->pid);
	pfw_put_string(put, loss->kind);
	pfw_put_string(put, loss->reason);
	pfw_put_u64(put, loss->count);
	pfw_put_i64(put, loss->total_ns);
	pfw_put_i64(put, loss->last_ns);
	return pfw_put_row(put);
}

/* Files and their sums: in one walk, since both read all of a file's row and its name. */
static int put_files(struct pfw_index_writer *writer)
{
	const struct pfw_summary *total = &writer->total;
	struct pfw_blob *sums = &writer->files;
	int error = 0;

	sums->bytes = 0;
	for (uint32_t i = 0; i < total->files && !error; i++) {
		struct pfw_put *put = pfw_put_begin(&writer->maker, PFW_TABLE_FILE);

		error = put_file(put, &total->file[i], i);
		error = error ? error : pfw_blob_sums(sums, &total->file[i]);
		if (error || ((i + 1) % PFW_BLOB_FILES && i + 1 < total->files))
			continue;
		put = pfw_put_begin(&writer->maker, PFW_TABLE_FILE_SUMS);
		pfw_put_i64(put, i / PFW_BLOB_FILES * PFW_BLOB_FILES);
		pfw_put_blob(put, sums->data, sums->bytes);
		error = pfw_put_row(put);
		sums->bytes = 0;
	}
	return error;
}

static int put_totals(struct pfw_index_writer *writer)
{
	const struct pfw_summary *total = &writer->total;
	int error = put_table(writer, PFW_TABLE_NAME, total->names, put_name);

	error = error ? error : put_files(writer);
	error = error ? error : put_table(writer, PFW_TABLE_THREAD, total->threads, put_thread);
	error = error ? error : put_table(writer, PFW_TABLE_PROCESS, total->processes, put_process);
	error = error ? error : put_table(writer, PFW_TABLE_STEP, total->steps, put_step);
	return error ? error : put_table(writer, PFW_TABLE_LOSS, total->losses, put_loss);
}

/* ---- the trace itself ---- */

static uint32_t least(uint64_t a, uint64_t b)
{
	return (uint32_t)(a < b ? a : b);
}

static int prove(struct pfw_index_writer *writer, const struct pfw_index_trace *trace,
		 struct pfw_index_proof *proof)
{
	struct stat st = { 0 };
	bool members = trace->layout == PFW_LAYOUT_MEMBERS && writer->blocks;
	int error, fd = pfw_open_file(writer->trace, PFW_OPEN_LINK, &st);

	if (fd < 0)
		return fd;
	*proof = (struct pfw_index_proof){ .trace_bytes = (uint64_t)st.st_size };
	proof->first_bytes = least(members ? writer->first.bytes : PFW_BLOCK_TEXT,
				   least(PFW_BLOCK_TEXT, proof->trace_bytes));
	proof->last_bytes = least(members ? writer->last.bytes : PFW_BLOCK_TEXT,
				  least(PFW_BLOCK_TEXT, proof->trace_bytes));
	error = pfw_index_prove(proof, fd);
	close(fd);
	if (writer->fd < 0 || writer->stem)
		return error;
	/* Readers of the trace may read its contents in the index, too. */
	if (!error && fchmod(writer->fd, st.st_mode & 0666) < 0)
		error = -errno;
	if (!error && geteuid() == 0 && fchown(writer->fd, st.st_uid, st.st_gid) < 0)
		error = -errno;
	return error;
}

static int put_meta(struct pfw_index_writer *writer, const struct pfw_index_trace *trace)
{
	const struct pfw_summary *total = &writer->total;
	struct pfw_index_proof proof;
	struct pfw_put *put = pfw_put_begin(&writer->maker, PFW_TABLE_META);
	int error = prove(writer, trace, &proof);

	if (error)
		return error;
	pfw_put_u64(put, proof.trace_bytes);
	pfw_put_i64(put, proof.first_bytes);
	pfw_put_i64(put, proof.first_crc);
	pfw_put_i64(put, proof.last_bytes);
	pfw_put_i64(put, proof.last_crc);
	pfw_put_string(put, pfw_index_layout_name(trace->layout));
	pfw_put_i64(put, writer->blocks);
	pfw_put_u64(put, writer->lines);
	pfw_put_u64(put, total->events);
	pfw_put_u64(put, trace->problems);
	pfw_put_time(put, total->least_ns);
	pfw_put_time(put, total->greatest_ns);
	pfw_put_time(put, total->first_ns);
	pfw_put_time(put, total->last_ns);
	pfw_put_i64(put, total->sorted);
	pfw_put_u64(put, total->left_out);
	pfw_put_i64(put, total->nested);
	pfw_put_i64(put, total->untimed);
	return pfw_put_row(put);
}

int pfw_index_put_totals(struct pfw_index_writer *writer, const struct pfw_index_trace *trace)
{
	int error = pfw_index_end_parts(writer, trace);

	error = error ? error : put_totals(writer);
	error = error ? error : put_meta(writer, trace);
	return error ? error : pfw_index_maker_finish(&writer->maker);
}
