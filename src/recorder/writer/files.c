/* recorder/writer/files.c - spool and trace, open in the descriptor table of the working thread. */
#include <string.h>

#include "common/base/os.h"
#include "recorder/guest/own_fds.h"
#include "recorder/writer/internal.h"

/* ---- an own descriptor table ---- */

_Atomic int32_t pfw_os_own_table, pfw_os_own_table_guest;

static int table_size(void)
{
	char status[4096];
	const char *at;
	int size = 0;

	if (pfw_os_read_file("/proc/thread-self/status", status, sizeof(status)) <= 0)
		return 65536;
	at = strstr(status, "\nFDSize:\t");
	for (at += at ? strlen("\nFDSize:\t") : 0; at && *at >= '0' && *at <= '9'; at++)
		size = size * 10 + (*at - '0');
	return size ? size : 65536;
}

bool pfw_writer_take_table(void)
{
	int size;

	if (pfw_syscall6(SYS_close_range, 0, ~0u, 2 /* CLOSE_RANGE_UNSHARE */, 0, 0, 0)) {
		if (pfw_syscall6(SYS_unshare, 0x400 /* CLONE_FILES */, 0, 0, 0, 0, 0))
			return false;
		size = pfw_syscall6(SYS_close_range, 0, ~0u, 0, 0, 0, 0) ? table_size() : 0;
		for (int fd = 0; fd < size; fd++)
			pfw_os_close(fd);
	}
	atomic_store(&pfw_os_own_table, pfw_os_gettid());
	return true;
}

void pfw_writer_leave_table(void)
{
	int32_t tid = pfw_os_gettid();

	atomic_compare_exchange_strong(&pfw_os_own_table, &tid, 0);
}

bool pfw_writer_table_refused(void)
{
	/* Neither call has an effect; -EINVAL: close_range() exists and rejects an empty range. */
	return pfw_syscall6(SYS_close_range, 1, 0, 0, 0, 0, 0) != -EINVAL &&
	       pfw_syscall6(SYS_unshare, 0, 0, 0, 0, 0, 0) != 0;
}

/* ---- a table shared with the program ---- */

#define ROOM_LOOK_NS 1000000ull
#define ROOM_LOOKS 200

/* A program that takes every number (dup2 in a loop) soon closes most of them.  Until then ours
 * would only get a low number, which programs rely on. */
static void wait_for_room(const struct pfw_writer_files *files)
{
	for (int i = 0; files->waits && i < ROOM_LOOKS && !pfw_own_fds_room(); i++)
		pfw_os_sleep_ns(ROOM_LOOK_NS);
}

static void open_begin(const struct pfw_writer_files *files)
{
	if (!files->own && atomic_load(&pfw_own_fds_shared))
		pfw_own_fds_begin();
}

static void open_end(const struct pfw_writer_files *files)
{
	if (!files->own)
		pfw_own_fds_end();
}

/* Take fd, hidden from the program's close(). */
static void keep(const struct pfw_writer_files *files, struct pfw_open_file *file, int fd)
{
	file->fd = !files->own && files->high ? pfw_own_fds_high(fd) : fd;
	if (!files->own)
		file->entry = pfw_own_fds_add(file->fd);
}

static int put_away(struct pfw_open_file *file)
{
	int error = 0;

	/* In this order: once closed, the number may be the program's, which may close it. */
	pfw_own_fds_remove(file->entry);
	if (file->fd >= 0)
		error = pfw_os_close(file->fd);
	file->fd = file->entry = -1;
	return error;
}

/* The current number of our file; -1 if the program has closed it by a raw system call.  If fstat()
 * fails, assume that it is ours: else it would never be closed. */
static int still_ours(const struct pfw_open_file *file, const struct pfw_file_id *id)
{
	int fd = file->entry >= 0 ? pfw_own_fds_at(file->entry) : file->fd;
	struct pfw_file_id now;
	int error = fd < 0 ? -EBADF : pfw_file_id_get(fd, &now);

	if (error)
		return error == -EBADF ? -1 : fd;
	return pfw_file_id_is(&now, id) ? fd : -1;
}

static void check_file(struct pfw_open_file *file, const struct pfw_file_id *id)
{
	if (file->fd >= 0)
		file->fd = still_ours(file, id);
	if (file->fd < 0)
		put_away(file);
}

/* Drop descriptors that the program has closed or replaced meanwhile. */
static void check_files(struct pfw_writer *writer)
{
	if (writer->files->own)
		return;
	check_file(&writer->files->trace, &writer->trace_id);
	check_file(&writer->files->spool, &writer->spool_id);
}

/* ---- opening and closing ---- */

int pfw_writer_open_spool(struct pfw_writer *writer)
{
	struct pfw_writer_files *files = writer->files;
	int fd;

	check_files(writer);
	if (files->spool.fd >= 0 || !files->grows || writer->spool->heap)
		return 0;
	wait_for_room(files);
	open_begin(files);
	fd = pfw_spool_open(writer->spool);
	if (fd >= 0 && !pfw_file_id_get(fd, &writer->spool_id))
		keep(files, &files->spool, fd);
	else if (fd >= 0)
		pfw_os_close(fd);
	open_end(files);
	return fd < 0 ? fd : 0;
}

void *pfw_writer_append(struct pfw_writer *writer, enum pfw_chunk_kind kind, uint32_t index,
			uint64_t bytes)
{
	if (pfw_spool_needs_file(writer->spool, kind, bytes))
		pfw_writer_open_spool(writer);
	return pfw_spool_append(writer->spool, writer->files->spool.fd, kind, index, bytes);
}

static int open_trace(struct pfw_writer *writer)
{
	struct pfw_spool_header *header = writer->spool->header;
	char *path = pfw_spool_trace_path(header);
	int fd;

	/* A thread of ours that is about to end may hold the flock(). */
	if (atomic_load(&header->file_made))
		return pfw_output_reopen(path, &writer->trace_id,
					 atomic_load(&writer->threads) > 0);
	fd = pfw_output_create(path, &writer->trace_id);
	if (fd >= 0)
		atomic_store(&header->file_made, 1);
	return fd;
}

int pfw_writer_trace(struct pfw_writer *writer)
{
	struct pfw_writer_files *files = writer->files;
	int fd;

	check_files(writer);
	if (files->trace.fd >= 0)
		return files->trace.fd;
	wait_for_room(files);
	open_begin(files);
	fd = open_trace(writer);
	if (fd == -EMFILE && files->spool.fd >= 0) { /* RLIMIT_NOFILE leaves room for one */
		put_away(&files->spool);
		fd = open_trace(writer);
	}
	if (fd >= 0)
		keep(files, &files->trace, fd);
	open_end(files);
	return fd < 0 ? fd : files->trace.fd;
}

/* NFS may write only now, when the records are freed; errors of a file that is gone were said by the write. */
void pfw_writer_close_trace(struct pfw_writer *writer)
{
	int error;

	check_files(writer);
	error = put_away(&writer->files->trace);
	if (writer->reported.unclosed || (error != -EIO && !pfw_output_lacks_room(error)))
		return;
	writer->reported.unclosed = true;
	pfw_output_say_unclosed(writer->say, pfw_spool_trace_path(writer->spool->header), error);
}

void pfw_writer_close_files(struct pfw_writer *writer)
{
	pfw_writer_close_trace(writer);
	put_away(&writer->files->spool);
}
