/* recorder/writer/trace_file.c - the output file: created once, locked, never overwritten. */
#include "recorder/writer/trace_file.h"

#include <string.h>
#include <sys/file.h>
#include <sys/resource.h>

#include "common/base/names.h"
#include "common/base/os.h"
#include "common/base/text.h"
#include "common/settings/naming.h"

#define NUMBERS_MAX 10000u

/* 0, or the error of the last directory. */
static int make_parents(char *path)
{
	int error = 0;

	for (char *slash = strchr(path + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
		*slash = '\0';
		error = (int)pfw_syscall6(SYS_mkdirat, AT_FDCWD, (long)path, 0777, 0, 0, 0);
		*slash = '/';
	}
	return error == -EEXIST ? 0 : error;
}

int pfw_file_id_get(int fd, struct pfw_file_id *id)
{
	struct stat st;
	int error = pfw_os_fstat(fd, &st);

	if (!error)
		*id = (struct pfw_file_id){ st.st_dev, st.st_ino };
	return error;
}

#define TRIES 100 /* EINTR: a signal interrupts open() or write() on a network file system */

static int lock(int fd)
{
	return (int)pfw_syscall6(SYS_flock, fd, LOCK_EX | LOCK_NB, 0, 0, 0, 0);
}

static int try_open(const char *path, int flags)
{
	int fd = -EINTR;

	for (int i = 0; i < TRIES && fd == -EINTR; i++)
		fd = pfw_os_open(path, O_WRONLY | O_NOFOLLOW | flags, 0666);
	return fd;
}

static int create_here(const char *path)
{
	return try_open(path, O_CREAT | O_EXCL);
}

int pfw_output_create(char *path, struct pfw_file_id *id)
{
	char numbered[PFW_PATH_MAX], *name = path;
	int fd = create_here(path), error;

	if (fd == -ENOENT) {
		error = make_parents(path);
		fd = create_here(path);
		if (fd == -ENOENT && error)
			return error;
	}
	for (unsigned n = 2; fd == -EEXIST && n < NUMBERS_MAX; n++) {
		error = pfw_name_numbered(numbered, path, n);
		if (error)
			return error;
		name = numbered;
		fd = create_here(name);
	}
	if (fd < 0)
		return fd;
	/* `pfw repair` takes this lock to adopt a trace; the kernel drops it when we die. */
	lock(fd);
	error = pfw_file_id_get(fd, id);
	if (error) {
		pfw_os_unlink(name); /* created just now, and empty */
		pfw_os_close(fd);
		return error;
	}
	if (name != path)
		memcpy(path, name, strlen(name) + 1);
	return fd;
}

int pfw_output_may_create(const char *path)
{
	char parent[PFW_PATH_MAX];
	int error = -ENOENT;

	memcpy(parent, path, strlen(path) + 1);
	/* Parents that are missing are made in the next one. */
	for (char *slash = strrchr(parent, '/'); slash && error == -ENOENT;
	     slash = strrchr(parent, '/')) {
		memcpy(slash + 1, ".", sizeof(".")); /* a directory's */
		error = (int)pfw_syscall6(SYS_faccessat, AT_FDCWD, (long)parent, W_OK | X_OK, 0, 0,
					  0);
		*slash = '\0';
	}
	return error;
}

int pfw_output_reopen(const char *path, const struct pfw_file_id *id, bool ours)
{
	struct pfw_file_id now;
	int fd = try_open(path, 0), error;

	if (fd == -ELOOP) /* replaced by a symbolic link */
		return -ENOENT;
	if (fd < 0)
		return fd;
	error = pfw_file_id_get(fd, &now);
	if (!error && !pfw_file_id_is(&now, id))
		error = -ENOENT;
	if (error) {
		pfw_os_close(fd);
		return error;
	}
	if (lock(fd) == -EWOULDBLOCK && !ours) {
		pfw_os_close(fd);
		return -EBUSY;
	}
	return fd;
}

int pfw_output_write(int fd, const void *data, size_t bytes, uint64_t offset)
{
	struct rlimit limit = { RLIM_INFINITY, RLIM_INFINITY };
	const char *at = data;
	int tries = 0;

	/* A write beyond the limit would raise SIGXFSZ in the traced program. */
	pfw_syscall6(SYS_prlimit64, 0, RLIMIT_FSIZE, 0, (long)&limit, 0, 0);
	if (limit.rlim_cur != RLIM_INFINITY && offset + bytes > limit.rlim_cur)
		return -EFBIG;
	while (bytes) {
		ssize_t n = pfw_os_pwrite(fd, at, bytes, offset);

		if (n == -EINTR && tries++ < TRIES)
			continue;
		if (n <= 0)
			return n ? (int)n : -EIO;
		at += n;
		offset += (uint64_t)n;
		bytes -= (size_t)n;
	}
	return 0;
}

/* Rename without replacing, also on a file system without RENAME_NOREPLACE (NFS), or without hard links, too
 * (many of FUSE): there an empty file takes the name, and is replaced. */
static int move_to(const char *from, const char *to)
{
	int error = pfw_os_rename_noreplace(from, to), fd;

	if (error != -EINVAL && error != -ENOSYS)
		return error;
	error = pfw_os_link(AT_FDCWD, from, to, 0);
	if (!error)
		return pfw_os_unlink(from);
	if (error == -EEXIST || error == -ENOENT)
		return error;
	fd = create_here(to);
	if (fd < 0)
		return fd;
	pfw_os_close(fd);
	error = (int)pfw_syscall6(SYS_renameat2, AT_FDCWD, (long)from, AT_FDCWD, (long)to, 0, 0);
	if (error)
		pfw_os_unlink(to);
	return error;
}

int pfw_output_move(char *from, const char *to)
{
	char name[PFW_PATH_MAX];
	int error;

	memcpy(name, to, strlen(to) + 1);
	error = move_to(from, name);
	if (error == -ENOENT) {
		make_parents(name);
		error = move_to(from, name);
	}
	for (unsigned n = 2; error == -EEXIST && n < NUMBERS_MAX; n++) {
		error = pfw_name_numbered(name, to, n) ?: move_to(from, name);
	}
	if (!error)
		memcpy(from, name, strlen(name) + 1);
	return error;
}

bool pfw_output_lacks_room(int error)
{
	switch (-error) {
	case ENOSPC:
	case EDQUOT:
	case EFBIG:
	case EMFILE:
	case ENFILE:
	case ENOMEM:
		return true;
	default:
		return false;
	}
}

static const char *remedy(int error, int made)
{
	if (pfw_output_lacks_room(error))
		return "events wait in memory until there is room, then are counted as lost";
	if (error == -EBUSY)
		return "recording stops: another process holds the trace's lock";
	if (!made)
		return "nothing is recorded: set DFTRACER_LOG_FILE (or pfw run -o) to a place you can "
		       "write to";
	return error == -ENOENT
		       ? "recording stops: the trace was moved, removed or adopted by pfw repair"
		       : "events wait in memory, then are counted as lost";
}

static void say_error(void (*say)(const char *line), const char *what, const char *path, int error,
		      const char *remedy)
{
	const char *name = pfw_errno_name(-error);
	char line[PFW_PATH_MAX + 256];
	struct pfw_text text;

	pfw_text_init(&text, line, sizeof(line));
	PFW_TEXT_ADD(&text, what, path, ": ", name ? name : "unknown error", "; ", remedy);
	say(line);
}

void pfw_output_say_error(void (*say)(const char *line), const char *path, int error, int made)
{
	say_error(say, made ? "cannot write the trace " : "cannot create the trace ", path, error,
		  remedy(error, made));
}

void pfw_output_say_unclosed(void (*say)(const char *line), const char *path, int error)
{
	say_error(say, "cannot close the trace ", path, error,
		  "its last events may be missing: `pfw validate` looks");
}
