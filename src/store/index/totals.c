/* store/index/totals.c - writes the tables of an index except those of blocks; see internal.h. */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "store/index/internal.h"
#include "store/sys/open.h"

/* A statement of its own for each row of a table takes twice the time. */
#define ROWS_AT_ONCE 16

/* ---- statements ---- */

void pfw_put_i64(struct pfw_put *put, int64_t value)
{
	sqlite3_bind_int64(put->statement, ++put->at, value);
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
		sqlite3_bind_null(put->statement, ++put->at);
	else
		pfw_put_i64(put, ns);
}

void pfw_put_text(struct pfw_put *put, const char *text, size_t bytes)
{
	sqlite3_bind_text(put->statement, ++put->at, text, (int)bytes, SQLITE_STATIC);
}

void pfw_put_string(struct pfw_put *put, const char *text)
{
	if (text)
		pfw_put_text(put, text, strlen(text));
	else
		sqlite3_bind_null(put->statement, ++put->at);
}

void pfw_put_blob(struct pfw_put *put, const void *data, size_t bytes)
{
	sqlite3_bind_blob(put->statement, ++put->at, bytes ? data : "", (int)bytes, SQLITE_STATIC);
}

/* A sum beyond 64 bits becomes decimal text. */
void pfw_put_i128(struct pfw_put *put, __int128 value)
{
	char text[48], *at = text + sizeof(text);
	unsigned __int128 left = value < 0 ? -(unsigned __int128)value : (unsigned __int128)value;

	if (value >= INT64_MIN && value <= INT64_MAX) {
		pfw_put_i64(put, (int64_t)value);
		return;
	}
	for (; left; left /= 10)
		*--at = (char)('0' + (int)(left % 10));
	if (value < 0)
		*--at = '-';
	sqlite3_bind_text(put->statement, ++put->at, at, (int)(text + sizeof(text) - at),
			  SQLITE_TRANSIENT);
}

int pfw_put_row(struct pfw_put *put)
{
	int result = sqlite3_step(put->statement);

	sqlite3_reset(put->statement);
	put->at = 0;
	return result == SQLITE_DONE ? 0 : pfw_index_error(result);
}

/* An INSERT of so many rows at once. */
static int put_begin(struct pfw_put *put, sqlite3 *db, const char *table, int columns, int rows)
{
	char sql[64 + ROWS_AT_ONCE * (2 * PFW_INDEX_COLUMNS + 2)];
	int used = snprintf(sql, sizeof(sql), "INSERT INTO %s VALUES", table);

	for (int i = 0; i < rows * columns; i++)
		used += snprintf(sql + used, sizeof(sql) - (size_t)used, "%s?%s",
				 i % columns ? ","
				 : i	     ? ",("
					     : "(",
				 i % columns == columns - 1 ? ")" : "");
	put->at = 0;
	return pfw_index_error(sqlite3_prepare_v2(db, sql, used, &put->statement, NULL));
}

int pfw_put_begin(struct pfw_put *put, sqlite3 *db, const char *table, int columns)
{
	return put_begin(put, db, table, columns, 1);
}

/* Write `count` rows of a table. */
static int put_table(struct pfw_index_writer *writer, const char *table, int columns,
		     uint32_t count,
		     void (*row)(struct pfw_put *, const struct pfw_summary *, uint32_t))
{
	struct pfw_put one, many;
	uint32_t i = 0;
	int error = put_begin(&one, writer->db, table, columns, 1);

	if (!error && count >= ROWS_AT_ONCE)
		error = put_begin(&many, writer->db, table, columns, ROWS_AT_ONCE);
	while (!error && i < count) {
		struct pfw_put *put = count - i < ROWS_AT_ONCE ? &one : &many;
		uint32_t end = i + (put == &one ? 1 : ROWS_AT_ONCE);

		for (; i < end; i++) {
			pfw_put_i64(put, i);
			row(put, &writer->total, i);
		}
		error = pfw_put_row(put);
	}
	return error;
}

/* ---- totals ---- */

static void put_name(struct pfw_put *put, const struct pfw_summary *total, uint32_t i)
{
	uint8_t sketch[PFW_SKETCH_BYTES_MAX];
	size_t bytes;
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
	bytes = pfw_sketch_encode(&name->durations, sketch);
	/* The row is written after this function has returned. */
	sqlite3_bind_blob(put->statement, ++put->at, sketch, (int)bytes, SQLITE_TRANSIENT);
}

static void put_file(struct pfw_put *put, const struct pfw_summary *total, uint32_t i)
{
	const struct pfw_summary_file *file = &total->file[i];

	pfw_put_text(put, file->name, file->name_bytes);
	for (unsigned j = 0; j < PFW_SUMMARY_FILE_SUMS; j++)
		pfw_put_u64(put, file->sum[j]);
}

static void put_thread(struct pfw_put *put, const struct pfw_summary *total, uint32_t i)
{
	const struct pfw_summary_thread *thread = &total->thread[i];

	pfw_put_u64(put, thread->pid);
	pfw_put_u64(put, thread->tid);
	pfw_put_text(put, thread->name, thread->name_bytes);
	pfw_put_u64(put, thread->lines);
	pfw_put_time(put, thread->first_ns);
	pfw_put_time(put, thread->last_ns);
}

static void put_process(struct pfw_put *put, const struct pfw_summary *total, uint32_t i)
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
}

static void put_step(struct pfw_put *put, const struct pfw_summary *total, uint32_t i)
{
	const struct pfw_summary_step *step = &total->step[i];

	pfw_put_u64(put, step->pid);
	pfw_put_u64(put, step->tid);
	pfw_put_u64(put, step->number);
	pfw_put_i64(put, step->begin_ns);
	pfw_put_i64(put, step->end_ns);
}

static void put_loss(struct pfw_put *put, const struct pfw_summary *total, uint32_t i)
{
	const struct pfw_summary_loss *loss = &total->loss[i];

	pfw_put_u64(put, loss->pid);
	pfw_put_string(put, loss->kind);
	pfw_put_string(put, loss->reason);
	pfw_put_u64(put, loss->count);
	pfw_put_i64(put, loss->total_ns);
	pfw_put_i64(put, loss->last_ns);
}

static int put_sums(struct pfw_index_writer *writer)
{
	struct pfw_put put = { 0 };
	int error = pfw_put_begin(&put, writer->db, "file_sums", 2);

	for (uint32_t first = 0; !error && first < writer->total.files; first += PFW_BLOB_FILES) {
		error = pfw_blob_sums(&writer->files, &writer->total, first);
		pfw_put_i64(&put, first);
		pfw_put_blob(&put, writer->files.data, writer->files.bytes);
		error = error ? error : pfw_put_row(&put);
	}
	return error;
}

static int put_totals(struct pfw_index_writer *writer)
{
	const struct pfw_summary *total = &writer->total;
	int error = put_table(writer, "name", 13, total->names, put_name);

	error = error ? error : put_table(writer, "file", 15, total->files, put_file);
	error = error ? error : put_table(writer, "thread", 7, total->threads, put_thread);
	error = error ? error : put_table(writer, "process", 14, total->processes, put_process);
	error = error ? error : put_table(writer, "step", 6, total->steps, put_step);
	error = error ? error : put_table(writer, "loss", 7, total->losses, put_loss);
	return error ? error : put_sums(writer);
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
	struct pfw_put put = { 0 };
	int error = prove(writer, trace, &proof);

	error = error ? error : pfw_put_begin(&put, writer->db, "meta", 18);
	if (error)
		return error;
	pfw_put_u64(&put, proof.trace_bytes);
	pfw_put_i64(&put, proof.first_bytes);
	pfw_put_i64(&put, proof.first_crc);
	pfw_put_i64(&put, proof.last_bytes);
	pfw_put_i64(&put, proof.last_crc);
	pfw_put_string(&put, pfw_index_layout_name(trace->layout));
	pfw_put_i64(&put, writer->blocks);
	pfw_put_u64(&put, writer->lines);
	pfw_put_u64(&put, total->events);
	pfw_put_u64(&put, trace->problems);
	pfw_put_time(&put, total->least_ns);
	pfw_put_time(&put, total->greatest_ns);
	pfw_put_time(&put, total->first_ns);
	pfw_put_time(&put, total->last_ns);
	pfw_put_i64(&put, total->sorted);
	pfw_put_u64(&put, total->left_out);
	pfw_put_i64(&put, total->nested);
	pfw_put_i64(&put, total->untimed);
	return pfw_put_row(&put);
}

int pfw_index_put_totals(struct pfw_index_writer *writer, const struct pfw_index_trace *trace)
{
	int error = pfw_index_end_parts(writer, trace);

	error = error ? error : put_totals(writer);
	error = error ? error : put_meta(writer, trace);
	error = error ? error : pfw_index_run(writer, "COMMIT");
	return error;
}
