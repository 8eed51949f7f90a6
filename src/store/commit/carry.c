/* store/commit/carry.c - carries a journal out: renames new files, then removes originals. */
#include <errno.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "store/commit/internal.h"
#include "store/sys/open.h"

int pfw_commit_fail(struct pfw_commit *commit, int error, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	vsnprintf(commit->why, sizeof(commit->why), format, args);
	va_end(args);
	return error;
}

int pfw_commit_fail_path(struct pfw_commit *commit, const char *what, const char *path)
{
	int error = errno ? errno : EIO;

	return pfw_commit_fail(commit, -error, "%s %.300s: %s", what, path, strerror(error));
}

int pfw_commit_sync(const char *path)
{
	int fd = pfw_open_directory(path), error = 0;

	if (fd < 0)
		return fd;
	/* Some file systems cannot sync a directory. */
	if (fsync(fd) < 0 && errno != EINVAL && errno != EROFS)
		error = -errno;
	close(fd);
	return error;
}

int pfw_commit_open_locked(const char *path, bool create, bool wait)
{
	for (;;) {
		int fd = create ? pfw_open_new(path, 0600) : -EEXIST;
		struct stat opened, named;
		int error = 0;

		if (fd == -EEXIST)
			fd = pfw_open_file(path, PFW_OPEN_WRITE | PFW_OPEN_MINE, NULL);
		if (fd == -ENOENT && create)
			continue;
		if (fd < 0)
			return fd;
		while (flock(fd, wait ? LOCK_EX : LOCK_EX | LOCK_NB) < 0 && !error)
			error = errno == EINTR ? 0 : -errno;
		if (!error && fstat(fd, &opened) == 0 && lstat(path, &named) == 0 &&
		    opened.st_dev == named.st_dev && opened.st_ino == named.st_ino)
			return fd;
		close(fd);
		if (error)
			return error == -EWOULDBLOCK ? -EBUSY : error;
		if (!create)
			return -ENOENT;
	}
}

/* ---- carrying out ---- */

static bool is_same(const struct stat *st, const struct pfw_commit_old *old)
{
	return S_ISREG(st->st_mode) && st->st_dev == old->device && st->st_ino == old->inode &&
	       (uint64_t)st->st_size == old->bytes && pfw_changed_ns(st) == old->changed_ns;
}

/* Remove the originals that have not changed.  A file that has taken one of their names stays. */
int pfw_commit_remove_old(struct pfw_commit *commit, unsigned *kept)
{
	char directory[PATH_MAX], last[PATH_MAX] = "";

	for (size_t i = 0; i < commit->old_count; i++) {
		const struct pfw_commit_old *old = &commit->old[i];
		const char *from;
		struct stat st;
		size_t bytes;

		if (lstat(old->path, &st) < 0 || st.st_ino != old->inode ||
		    st.st_dev != old->device)
			continue;
		if (!is_same(&st, old) || pfw_writing_of(old->path) == PFW_WRITING_ACTIVE) {
			pfw_commit_fail(commit, 0, "%.300s has changed since it was read: kept",
					old->path);
			(*kept)++;
			continue;
		}
		if (unlink(old->path) < 0 && errno != ENOENT)
			return pfw_commit_fail_path(commit, "cannot remove", old->path);
		from = pfw_directory_of(old->path, &bytes);
		snprintf(directory, sizeof(directory), "%.*s", (int)bytes, from);
		if (strcmp(directory, last) != 0 && *last)
			pfw_commit_sync(last);
		memcpy(last, directory, sizeof(last));
	}
	if (*last)
		pfw_commit_sync(last);
	return 0;
}

static bool is_file(const char *path, const struct pfw_commit_new *made)
{
	struct stat st;

	return lstat(path, &st) == 0 && st.st_dev == made->device && st.st_ino == made->inode;
}

int pfw_commit_give_names(struct pfw_commit *commit)
{
	/* Replace nothing unless every new file exists. */
	for (size_t i = 0; i < commit->made_count; i++) {
		const struct pfw_commit_new *made = &commit->made[i];

		if (!is_file(made->temporary, made) && !is_file(made->name, made))
			return pfw_commit_fail(commit, -ENOENT, "%.300s is gone", made->temporary);
	}
	for (size_t i = 0; i < commit->made_count; i++) {
		const struct pfw_commit_new *made = &commit->made[i];

		if (!is_file(made->name, made) && rename(made->temporary, made->name) < 0)
			return pfw_commit_fail_path(commit, "cannot give its name to", made->name);
	}
	return pfw_commit_sync(commit->directory);
}
