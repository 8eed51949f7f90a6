/* writer_files.c - the spool and the trace, open in the table of whoever does the writer's work. */
#include "writer_files.h"

#include <string.h>

#include "hidden.h"
#include "os.h"
#include "trace_file.h"
#include "writer.h"

/* ---- a table of our own ---- */

_Atomic int32_t pfw_os_own_table, pfw_os_own_table_guest;

/* How many numbers this thread's table has room for. */
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
	/* Both calls have nothing to do; -EINVAL is for a range that ends before it begins. */
	return pfw_syscall6(SYS_close_range, 1, 0, 0, 0, 0, 0) != -EINVAL &&
	       pfw_syscall6(SYS_unshare, 0, 0, 0, 0, 0, 0) != 0;
}

/* ---- a table that the program has too ---- */

#define ROOM_LOOK_NS 1000000ull
#define ROOM_LOOKS 200

/* A program that takes every number (dup2 in a loop) gives most of them back soon: until then ours
 * would only get one that it counts with. */
static void wait_for_room(const struct pfw_writer_files *files)
{
	for (int i = 0; files->waits && i < ROOM_LOOKS && !pfw_hidden_room(); i++)
		pfw_os_sleep_ns(ROOM_LOOK_NS);
}

static void open_begin(const struct pfw_writer_files *files)
{
	if (!files->own && atomic_load(&pfw_hidden_shared))
		pfw_hidden_begin();
}

static void open_end(const struct pfw_writer_files *files)
{
	if (!files->own)
		pfw_hidden_end();
}

/* Nobody but us may close it. */
static int keep(const struct pfw_writer_files *files, int fd, int *slot)
{
	if (fd < 0 || files->own)
		return fd;
	if (files->high)
		fd = pfw_hidden_high(fd);
	*slot = pfw_hidden_add(fd);
	return fd;
}

static void put_away(int *fd, int *slot)
{
	/* In this order: once it is closed the number may be the program's, who may close it. */
	pfw_hidden_remove(*slot);
	if (*fd >= 0)
		pfw_os_close(*fd);
	*fd = *slot = -1;
}

/* The number of a file of ours now; -1 where the program has closed it past us.  It is ours where
 * that cannot be asked: else it would stay open for good. */
static int still_ours(int fd, int slot, dev_t dev, ino_t ino)
{
	struct stat st;
	int error;

	if (slot >= 0)
		fd = pfw_hidden_at(slot);
	error = fd < 0 ? -EBADF : pfw_os_fstat(fd, &st);
	if (error)
		return error == -EBADF ? -1 : fd;
	return st.st_dev == dev && st.st_ino == ino ? fd : -1;
}

void pfw_writer_check_files(struct pfw_writer *writer)
{
	struct pfw_writer_files *files = writer->files;

	if (files->own)
		return;
	if (files->trace >= 0)
		files->trace = still_ours(files->trace, files->trace_slot, writer->trace_dev,
					  writer->trace_ino);
	if (files->trace < 0)
		put_away(&files->trace, &files->trace_slot);
	if (files->spool >= 0)
		files->spool = still_ours(files->spool, files->spool_slot, writer->spool_dev,
					  writer->spool_ino);
	if (files->spool < 0)
		put_away(&files->spool, &files->spool_slot);
}

/* ---- opening and closing ---- */

int pfw_writer_open_spool(struct pfw_writer *writer)
{
	struct pfw_writer_files *files = writer->files;
	struct stat st;
	int fd;

	pfw_writer_check_files(writer);
	if (files->spool >= 0 || !files->grows || writer->spool->heap)
		return 0;
	wait_for_room(files);
	open_begin(files);
	fd = pfw_spool_open(writer->spool);
	if (fd >= 0 && !pfw_os_fstat(fd, &st)) {
		writer->spool_dev = st.st_dev;
		writer->spool_ino = st.st_ino;
		files->spool = keep(files, fd, &files->spool_slot);
	} else if (fd >= 0) {
		pfw_os_close(fd);
	}
	open_end(files);
	return fd < 0 ? fd : 0;
}

static void close_spool(struct pfw_writer_files *files)
{
	put_away(&files->spool, &files->spool_slot);
}

void *pfw_writer_append(struct pfw_writer *writer, enum pfw_chunk_kind kind, uint32_t index,
			uint64_t bytes)
{
	if (!pfw_spool_has_place(writer->spool, kind, bytes))
		pfw_writer_open_spool(writer);
	return pfw_spool_append(writer->spool, writer->files->spool, kind, index, bytes);
}

static int open_trace(struct pfw_writer *writer)
{
	struct pfw_spool_header *header = writer->spool->header;
	char *path = pfw_spool_trace_path(header);
	int fd;

	/* A thread of ours that is still on its way home may hold the lock. */
	if (atomic_load(&header->file_made))
		return pfw_trace_reopen(path, writer->trace_dev, writer->trace_ino,
					atomic_load(&writer->threads) > 0);
	fd = pfw_trace_create(path, &writer->trace_dev, &writer->trace_ino);
	if (fd >= 0)
		atomic_store(&header->file_made, 1);
	return fd;
}

int pfw_writer_trace(struct pfw_writer *writer)
{
	struct pfw_writer_files *files = writer->files;
	int fd;

	pfw_writer_check_files(writer);
	if (files->trace >= 0)
		return files->trace;
	wait_for_room(files);
	open_begin(files);
	fd = open_trace(writer);
	if (fd == -EMFILE && files->spool >= 0) { /* a limit that leaves room for one */
		close_spool(files);
		fd = open_trace(writer);
	}
	if (fd >= 0)
		files->trace = keep(files, fd, &files->trace_slot);
	open_end(files);
	return fd < 0 ? fd : files->trace;
}

void pfw_writer_close_files(struct pfw_writer *writer)
{
	pfw_writer_check_files(writer);
	put_away(&writer->files->trace, &writer->files->trace_slot);
	close_spool(writer->files);
}
