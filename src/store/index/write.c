/* store/index/write.c - makes an index: a database in a temporary file, which is renamed. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

#include "store/index/internal.h"
#include "store/index/place.h"
#include "store/sys/open.h"

#define SMALL_TRACE (1 << 20)
#define LARGE_TRACE (32 << 20)

/* ---- the file ---- */

/* Create the file; remove the leftover of a dead process.  The descriptor or -errno. */
static int make_file(const char *path)
{
	for (int tries = 0; tries < 3; tries++) {
		int fd = pfw_open_new(path, 0600);

		if (fd >= 0) {
			if (flock(fd, LOCK_EX | LOCK_NB) == 0)
				return fd;
			close(fd); /* removed in between: try again */
			continue;
		}
		if (fd != -EEXIST)
			return fd;
		fd = pfw_open_file(path, PFW_OPEN_WRITE | PFW_OPEN_MINE, NULL);
		if (fd >= 0 && flock(fd, LOCK_EX | LOCK_NB) < 0) {
			close(fd);
			return -EBUSY;
		}
		if (unlink(path) < 0 && errno != ENOENT)
			tries = 3;
		if (fd >= 0)
			close(fd);
	}
	return -EEXIST;
}

void pfw_index_maker_begin(struct pfw_index_maker *maker, int fd, uint32_t page_bytes)
{
	*maker = (struct pfw_index_maker){ .db = { .fd = fd, .page_bytes = page_bytes } };
	for (size_t i = 0; i < PFW_TABLES; i++)
		maker->table[i].maker = &maker->db;
}

int pfw_index_maker_finish(struct pfw_index_maker *maker)
{
	return pfw_sqlite_finish(&maker->db, maker->table, pfw_index_tables, PFW_TABLES,
				 PFW_INDEX_APPLICATION, PFW_INDEX_FORMAT);
}

void pfw_index_maker_release(struct pfw_index_maker *maker)
{
	for (size_t i = 0; i < PFW_TABLES; i++)
		pfw_sqlite_release_table(&maker->table[i]);
	pfw_sqlite_release_maker(&maker->db);
	free(maker->db.image);
}

/* Each table takes at least a page, and there may be thousands of small traces.  Reading takes a system
 * call a page. */
static uint32_t page_bytes_of(uint64_t trace_bytes)
{
	return trace_bytes < SMALL_TRACE ? 1024 : trace_bytes < LARGE_TRACE ? 4096 : 16384;
}

/* Make the database that will be STEM.idx. */
static int open_database(struct pfw_index_writer *writer, const char *stem, uint64_t trace_bytes,
			 bool in_memory)
{
	free(writer->path);
	free(writer->final_path);
	writer->path = pfw_index_path(stem, PFW_INDEX_UNFINISHED);
	writer->final_path = pfw_index_path(stem, PFW_INDEX_SUFFIX);
	if (!writer->path || !writer->final_path)
		return -ENOMEM;
	if (!in_memory)
		writer->fd = make_file(writer->path);
	if (!in_memory && writer->fd < 0)
		return writer->fd;
	pfw_index_maker_begin(&writer->maker, writer->fd, page_bytes_of(trace_bytes));
	return 0;
}

/* Whether nothing can be made in a directory: not that there is no room for it. */
static bool is_unwritable(int error)
{
	return error == -EACCES || error == -EPERM || error == -EROFS || error == -EEXIST;
}

static int open_place(struct pfw_index_writer *writer, uint64_t bytes, enum pfw_index_place place)
{
	int error = -EACCES;

	if (place != PFW_INDEX_UNASKED || pfw_index_may_be_beside(writer->trace))
		error = open_database(writer, writer->trace, bytes, place == PFW_INDEX_IN_MEMORY);
	if (place > PFW_INDEX_UNASKED || !is_unwritable(error))
		return error;
	writer->stem = pfw_index_in_cache(writer->trace, true);
	return writer->stem ? open_database(writer, writer->stem, bytes, false) : error;
}

int pfw_index_begin(struct pfw_index_writer **out, const char *trace, uint64_t bytes,
		    enum pfw_index_place place)
{
	struct pfw_index_writer *writer = calloc(1, sizeof(*writer));
	int error = -ENOMEM;

	if (!writer)
		return error;
	writer->fd = -1;
	writer->trace = strdup(trace);
	if (writer->trace)
		error = pfw_summary_init(&writer->total);
	error = error ? error : open_place(writer, bytes, place);
	if (error)
		pfw_index_end(writer);
	else
		*out = writer;
	return error;
}

const char *pfw_index_cached_at(const struct pfw_index_writer *writer)
{
	return writer->stem ? writer->final_path : NULL;
}

void pfw_index_end(struct pfw_index_writer *writer)
{
	if (writer->fd >= 0 && !writer->published)
		unlink(writer->path);
	pfw_index_free_parts(writer);
	pfw_index_maker_release(&writer->maker);
	if (writer->fd >= 0)
		close(writer->fd);
	pfw_blob_free(&writer->threads);
	pfw_blob_free(&writer->files);
	pfw_blob_free(&writer->names);
	pfw_summary_release(&writer->total);
	free(writer->trace);
	free(writer->stem);
	free(writer->path);
	free(writer->final_path);
	free(writer);
}

/* ---- blocks ---- */

static int put_block(struct pfw_index_writer *writer, const struct pfw_block *block,
		     const struct pfw_summary *summary)
{
	struct pfw_put *put = pfw_put_begin(&writer->maker, PFW_TABLE_BLOCK);
	int error;

	pfw_put_i64(put, writer->blocks);
	pfw_put_u64(put, block->at);
	pfw_put_u64(put, block->bytes);
	pfw_put_u64(put, block->lines);
	pfw_put_u64(put, summary->events);
	pfw_put_time(put, summary->least_ns);
	pfw_put_time(put, summary->greatest_ns);
	error = pfw_put_row(put);
	put = pfw_put_begin(&writer->maker, PFW_TABLE_BLOCK_HOLDS);
	pfw_put_i64(put, writer->blocks);
	pfw_put_blob(put, writer->threads.data, writer->threads.bytes);
	pfw_put_blob(put, writer->files.data, writer->files.bytes);
	pfw_put_blob(put, writer->names.data, writer->names.bytes);
	return error ? error : pfw_put_row(put);
}

int pfw_index_add(struct pfw_index_writer *writer, const struct pfw_block *block,
		  struct pfw_summary *summary, struct pfw_gather *gather)
{
	int error = pfw_summary_merge(&writer->total, summary);

	error = error ? error : pfw_blob_threads(&writer->threads, summary);
	error = error ? error : pfw_blob_files(&writer->files, summary);
	error = error ? error : pfw_blob_names(&writer->names, summary);
	error = error ? error : put_block(writer, block, summary);
	error = error ? error : pfw_index_take_parts(writer, gather);
	if (!writer->blocks)
		writer->first = *block;
	writer->last = *block;
	writer->blocks++;
	writer->lines += block->lines;
	return error;
}

int pfw_index_add_point(struct pfw_index_writer *writer, const struct pfw_point *point)
{
	struct pfw_put *put = pfw_put_begin(&writer->maker, PFW_TABLE_POINT);

	pfw_put_i64(put, writer->points++);
	pfw_put_u64(put, point->text_at);
	pfw_put_u64(put, point->file_at);
	pfw_put_u64(put, point->bits);
	pfw_put_blob(put, point->window, point->window_bytes);
	return pfw_put_row(put);
}

int pfw_index_add_problem(struct pfw_index_writer *writer, const struct pfw_scan_problem *problem)
{
	struct pfw_put *put = pfw_put_begin(&writer->maker, PFW_TABLE_PROBLEM);

	/* Another time the file may be read to its end. */
	if (writer->problems == PFW_PROBLEMS_MAX ||
	    strncmp(problem->text, PFW_PROBLEM_CANNOT, strlen(PFW_PROBLEM_CANNOT)) == 0)
		return 0;
	pfw_put_i64(put, writer->problems++);
	pfw_put_u64(put, problem->line);
	pfw_put_u64(put, problem->at);
	pfw_put_u64(put, problem->more);
	pfw_put_string(put, problem->text);
	return pfw_put_row(put);
}

const struct pfw_summary *pfw_index_so_far(const struct pfw_index_writer *writer)
{
	return &writer->total;
}

/* ---- the end ---- */

int pfw_index_commit(struct pfw_index_writer *writer, const struct pfw_index_trace *trace)
{
	int error;

	/* A call of the new part may have begun before the last one of the old part ended. */
	if (writer->grows && writer->total.nested && !writer->was_nested)
		return -EAGAIN;
	error = pfw_index_put_totals(writer, trace);
	if (!error && writer->stem)
		error = pfw_index_cache_link(writer->stem, writer->trace);
	if (error)
		return error;
	/* Sync before the rename.  If a crash undoes the rename, there is no index, or the old one,
	 * which is stale. */
	if (fsync(writer->fd) < 0 || rename(writer->path, writer->final_path) < 0)
		return -errno;
	writer->published = true;
	if (writer->stem)
		pfw_index_cache_trim(writer->stem);
	return 0;
}
