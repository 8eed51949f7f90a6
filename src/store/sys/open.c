/* store/sys/open.c - opens files by rules; see open.h. */
#include "store/sys/open.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "common/base/text.h"

/* ---- opening ---- */

static int check(const struct stat *st, unsigned rules)
{
	if (S_ISLNK(st->st_mode))
		return -ELOOP;
	if (S_ISDIR(st->st_mode))
		return -EISDIR;
	if (!S_ISREG(st->st_mode) && !(S_ISFIFO(st->st_mode) && rules & PFW_OPEN_PIPE))
		return -ENODEV;
	return rules & PFW_OPEN_MINE && st->st_uid != geteuid() ? -EPERM : 0;
}

/* Open what the O_PATH descriptor `place` stands for.  Without a /proc, open the path again, which
 * must still lead to the same file. */
static int open_place(int place, const char *path, int flags, const struct stat *st)
{
	char name[40];
	struct stat now;
	int fd;

	snprintf(name, sizeof(name), "/proc/self/fd/%d", place);
	fd = open(name, flags);
	if (fd >= 0 || errno != ENOENT)
		return fd < 0 ? -errno : fd;
	fd = open(path, flags | O_NOFOLLOW);
	if (fd < 0)
		return -errno;
	if (fstat(fd, &now) == 0 && now.st_dev == st->st_dev && now.st_ino == st->st_ino)
		return fd;
	close(fd);
	return -ESTALE;
}

int pfw_open_file(const char *path, unsigned rules, struct stat *out)
{
	int place = open(path, O_PATH | O_CLOEXEC | (rules & PFW_OPEN_LINK ? 0 : O_NOFOLLOW));
	struct stat st;
	int fd;

	if (place < 0)
		return -errno;
	fd = fstat(place, &st) < 0 ? -errno : check(&st, rules);
	/* O_NONBLOCK: a pipe without a writer, or another process's lease, must not hold us. */
	if (fd == 0)
		fd = open_place(place, path,
				(rules & PFW_OPEN_WRITE ? O_RDWR : O_RDONLY) | O_CLOEXEC |
					O_NOCTTY | O_NONBLOCK,
				&st);
	close(place);
	if (out && fd >= 0)
		*out = st;
	return fd;
}

int pfw_open_new(const char *path, mode_t mode)
{
	int fd = open(path, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, mode);

	return fd < 0 ? -errno : fd;
}

/* Take a name by an empty file, or an empty directory. */
static int take_name(const char *path, bool directory)
{
	int fd;

	if (directory)
		return mkdir(path, 0700) < 0 ? -errno : 0;
	fd = pfw_open_new(path, 0600);
	if (fd >= 0)
		close(fd);
	return fd < 0 ? fd : 0;
}

int pfw_rename_new(const char *from, const char *to)
{
	struct stat st;
	int error;

	if (!renameat2(AT_FDCWD, from, AT_FDCWD, to, RENAME_NOREPLACE))
		return 0;
	if ((errno != EINVAL && errno != ENOSYS && errno != EOPNOTSUPP) || lstat(from, &st) < 0)
		return -errno;
	error = take_name(to, S_ISDIR(st.st_mode));
	if (error || !rename(from, to))
		return error;
	error = -errno;
	remove(to);
	return error;
}

int64_t pfw_changed_ns(const struct stat *st)
{
	return st->st_mtim.tv_sec * 1000000000ll + st->st_mtim.tv_nsec;
}

const char *pfw_directory_of(const char *path, size_t *bytes)
{
	const char *slash = strrchr(path, '/');

	*bytes = slash && slash != path ? (size_t)(slash - path) : 1;
	return slash ? path : ".";
}

char *pfw_whole_path(const char *path)
{
	size_t bytes;
	const char *from = pfw_directory_of(path, &bytes);
	char *directory = strndup(from, bytes),
	     *whole = directory ? realpath(directory, NULL) : NULL;
	char *joined = NULL;

	if (whole &&
	    asprintf(&joined, "%s/%s", strcmp(whole, "/") ? whole : "", pfw_text_base(path)) < 0)
		joined = NULL;
	free(directory);
	free(whole);
	return joined;
}

int pfw_open_directory(const char *path)
{
	int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	return fd < 0 ? -errno : fd;
}

int pfw_open_inside(const char *root, const char *path)
{
	struct open_how how = { .flags = O_RDONLY | O_DIRECTORY | O_CLOEXEC,
				.resolve = RESOLVE_IN_ROOT | RESOLVE_NO_MAGICLINKS };
	int top = open(root, O_PATH | O_DIRECTORY | O_CLOEXEC), fd, error;

	if (top < 0)
		return -errno;
	fd = (int)syscall(SYS_openat2, top, path, &how, sizeof(how));
	error = -errno;
	close(top);
	return fd < 0 ? error : fd;
}

bool pfw_is_trusted(const struct stat *st, uid_t owner)
{
	return st->st_uid == geteuid() || st->st_uid == 0 || st->st_uid == owner;
}

/* ---- who else has it open ---- */

/*
 * The kernel grants a read lease if nobody has the file open for writing, and a write lease if
 * nobody else has it open.  Somebody who opens it in that moment makes the kernel send a signal,
 * whose default would end us: choose one that is ignored.
 */
static bool refuses_lease(int fd, int kind)
{
	if (fcntl(fd, F_SETSIG, SIGURG) < 0 || fcntl(fd, F_SETLEASE, kind) < 0)
		return kind == F_WRLCK || errno == EAGAIN;
	fcntl(fd, F_SETLEASE, F_UNLCK);
	return false;
}

static bool is_open_for_writing(int fd)
{
	return refuses_lease(fd, F_RDLCK);
}

bool pfw_is_open_elsewhere(int fd)
{
	return refuses_lease(fd, F_WRLCK);
}

/* A writer's lock is exclusive, so it refuses a shared one.  NFS gives that to a descriptor that
 * may only read, which it would refuse an exclusive one (EBADF, which says nothing of a writer);
 * and two that ask do not see each other. */
static enum pfw_writing try_lock(int fd)
{
	int error = flock(fd, LOCK_SH | LOCK_NB) < 0 ? errno : 0;

	if (!error)
		flock(fd, LOCK_UN);
	return !error		      ? PFW_WRITING_NONE
	       : error == EWOULDBLOCK ? PFW_WRITING_ACTIVE
				      : PFW_WRITING_UNKNOWN;
}

enum pfw_writing pfw_writing_of(const char *path)
{
	int fd = pfw_open_file(path, PFW_OPEN_LINK, NULL);
	enum pfw_writing writer;

	if (fd < 0)
		return PFW_WRITING_UNKNOWN;
	writer = try_lock(fd);
	if (is_open_for_writing(fd))
		writer = PFW_WRITING_ACTIVE;
	close(fd);
	return writer;
}
